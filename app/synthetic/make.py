"""From a spec to a trace, line by line: a million requests take no more memory than their fingerprints.

Tasks are dealt from a shuffled deck of every family, language, length and repetitiveness, again and again,
so that all have the same share of every load point; the warm-up is one whole deck of its own.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

from app.domain.arrival import ArrivalKind, ArrivalNote, arrivals
from app.domain.conversation import Message, StructuredOutputs
from app.domain.errors import DomainError
from app.domain.rate_curve import PointProcess
from app.domain.trace_header import Generator, TraceHeader, TraceLoad
from app.domain.trace_request import SamplingOverrides, TraceRequest, TurnLink
from app.domain.trace_scan import canonical_line
from app.domain.vocabulary import NS_PER_S, WARMUP
from app.synthetic.families import MAKERS, Family
from app.synthetic.language import LanguageCode, language
from app.synthetic.spec import SyntheticLoad, SyntheticSpec
from app.synthetic.task import Task
from app.synthetic.texts import Dials, Length

GENERATOR, VERSION = "verdraft-synthetic", "1"
"""Named in every trace's header; a change of any task's text needs a new version."""
DRAWS_MAX = 200
WARMUP_GAP_NS = NS_PER_S // 5
OPEN_END_TOKENS = 128
SAMPLED_TEMPERATURE = 0.8
SHARED = "shared"

Encode = Callable[[str], list[int]]
"""From a text to token ids, without special tokens; makes a pre-tokenised trace."""


class _Cell(NamedTuple):
    """One card of the deck."""

    family: Family
    language: LanguageCode
    length: Length
    repetitiveness: float


def make_trace(spec: SyntheticSpec, encode: Encode | None = None) -> Iterator[bytes]:
    """The trace's lines with their newlines, the header first; the same spec always gives the same bytes.

    ``encode`` is for the text form only. Raises ``DomainError`` where no new prompt can be found or no request is due.
    """
    if encode is not None and spec.form != "text":
        raise DomainError.of("form", "messages are tokenised by the engine's chat template", "let form be text")
    yield canonical_line(_header(spec)) + b"\n"
    dealer = _Dealer(spec, encode)
    for request in dealer.requests():
        yield canonical_line(request) + b"\n"


def describe(spec: SyntheticSpec) -> tuple[str, ...]:
    """How this workload differs from production traffic, in sentences."""
    return (
        f"Prompts are filled templates in {', '.join(spec.languages)}; real ones vary far more in wording and topic.",
        f"The families {', '.join(spec.families)} have equal shares; production has a mix of its own.",
        f"Lengths are of {len(spec.lengths)} classes ({', '.join(spec.lengths)}); real lengths have a long tail.",
        "Repetition inside a prompt is exact and set by a dial; proposers that look up tokens may accept more here.",
        "Prompts share no prefix on purpose, as a common system prompt would; a prefix cache finds little.",
        *_timing(spec),
    )


def _timing(spec: SyntheticSpec) -> Iterator[str]:
    kinds = sorted({load.arrival for load in spec.loads if load.clients is None})
    closed = [load.name for load in spec.loads if load.clients is not None]
    if kinds:
        yield f"Arrivals are made ({', '.join(kinds)}); production has daily rhythms, and bursts that go with sizes."
    if closed:
        yield f"Closed loops ({', '.join(closed)}) never offer more than the server takes: no queue can grow."
    if spec.sessions is not None:
        yield "Recorded answers of sessions are the right ones, not those of a model."


def _header(spec: SyntheticSpec) -> TraceHeader:
    turns = spec.sessions.turns if spec.sessions else 1
    return TraceHeader(
        name=spec.name,
        description=f"synthetic: {', '.join(spec.families)} in {', '.join(spec.languages)}",
        source=f"{GENERATOR}/{VERSION}, seed {spec.seed}; synthetic, not production traffic",
        content_valid=True,
        warmup_requests=spec.warmup,
        loads=tuple(_trace_load(spec, load, turns) for load in spec.loads),
        generator=Generator(
            name=GENERATOR,
            version=VERSION,
            seed=spec.seed,
            dials=spec.model_dump(mode="json", exclude={"name", "seed"}),
        ),
        differs=describe(spec),
    )


def _trace_load(spec: SyntheticSpec, load: SyntheticLoad, turns: int) -> TraceLoad:
    is_open = load.clients is None
    note = ArrivalNote(
        kind="thinned" if spec.shared_arrivals else load.arrival,
        seed=spec.seed,
        burstiness=load.burstiness,
        end_rate_rps=_end_rps(load) if load.arrival is ArrivalKind.RAMP else None,
        shared=SHARED if spec.shared_arrivals else None,
    )
    return TraceLoad(
        name=load.name,
        rate_rps=load.rate_rps,
        clients=load.clients,
        requests=load.count(turns),
        duration_ns=load.duration_ns,
        arrival=note if is_open else None,
        turns=spec.sessions.answer if spec.sessions else None,
    )


def _end_rps(load: SyntheticLoad) -> float:
    return 2 * (load.rate_rps or 0) - (load.start_rps or 0)


def _offsets(spec: SyntheticSpec, load: SyntheticLoad, sessions: int) -> tuple[int, ...]:
    """When each session of a load begins."""
    if load.rate_rps is None:
        return (0,) * sessions
    turns = spec.sessions.turns if spec.sessions else 1
    if spec.shared_arrivals:
        fastest = max((p for p in spec.loads if p.rate_rps is not None), key=lambda p: p.rate_rps or 0)
        process = PointProcess(_own_offsets(spec, fastest, turns, SHARED), fastest.duration_ns, spec.seed)
        return process.at_rate(sessions * NS_PER_S / load.duration_ns)
    return _own_offsets(spec, load, turns, load.name)


def _own_offsets(spec: SyntheticSpec, load: SyntheticLoad, turns: int, stream: str) -> tuple[int, ...]:
    seed = int.from_bytes(hashlib.sha256(f"{spec.seed}/arrivals/{stream}".encode()).digest()[:8])
    is_ramp = load.arrival is ArrivalKind.RAMP
    rate_rps = load.count(turns) / turns * NS_PER_S / load.duration_ns
    start_rps = rate_rps * (load.start_rps or 0) / (load.rate_rps or 1)
    return arrivals(
        load.arrival,
        rate_rps=start_rps if is_ramp else rate_rps,
        duration_ns=load.duration_ns,
        seed=seed,
        burstiness=load.burstiness or 1.0,
        end_rate_rps=2 * rate_rps - start_rps if is_ramp else None,
    )


class _Dealer:
    """Deals tasks that were never dealt before."""

    def __init__(self, spec: SyntheticSpec, encode: Encode | None) -> None:
        self._spec, self._encode = spec, encode
        self._dealt: set[bytes] = set()
        self._sequence = 0

    def requests(self) -> Iterator[TraceRequest]:
        """The warm-up, then each load point in the spec's order."""
        rng, deck = self._stream(WARMUP)
        for number in range(self._spec.warmup):
            yield self._single(rng, next(deck), WARMUP, number * WARMUP_GAP_NS)
        for load in self._spec.loads:
            rng, deck = self._stream(load.name)
            sessions = self._spec.sessions
            count = load.count(sessions.turns if sessions else 1) // (sessions.turns if sessions else 1)
            for due_ns in _offsets(self._spec, load, count):
                cell = next(deck)
                if sessions is None:
                    yield self._single(rng, cell, load.name, due_ns)
                else:
                    yield from self._session(rng, cell, load, due_ns)

    def _stream(self, name: str) -> tuple[random.Random, Iterator[_Cell]]:
        rng = random.Random(f"{self._spec.seed}/{name}")
        return rng, self._deck(rng)

    def _deck(self, rng: random.Random) -> Iterator[_Cell]:
        spec = self._spec
        cells = [_Cell(*card) for card in product(spec.families, spec.languages, spec.lengths, spec.repetitiveness)]
        while True:
            rng.shuffle(cells)
            yield from cells

    def _single(self, rng: random.Random, cell: _Cell, load: str, due_ns: int) -> TraceRequest:
        task = self._task(rng, cell)
        return TraceRequest.model_validate(
            self._facts(rng, cell, task) | {"load": load, "due_ns": due_ns} | self._prompt(task)
        )

    def _session(self, rng: random.Random, cell: _Cell, load: SyntheticLoad, due_ns: int) -> Iterator[TraceRequest]:
        """The task, and then one wish after another to hear the answer again."""
        sessions, task = self._spec.sessions, self._task(rng, cell)
        if sessions is None:
            return
        think_ns, texts = round(sessions.think_s * NS_PER_S), language(cell.language)
        messages, previous, session = (_user(task.instruction),), None, f"s{self._sequence + 1:08d}"
        for index in range(sessions.turns):
            link = TurnLink(
                session=session,
                index=index,
                previous=previous,
                answer=sessions.answer,
                think_ns=think_ns if index else 0,
            )
            facts = self._facts(rng, cell, task)
            facts["strata"] |= {"turn": "later" if index else "first"}
            facts |= {"load": load.name, "messages": messages, "turn": link}
            facts["due_ns"] = due_ns + index * think_ns if load.clients is None else 0
            request = TraceRequest.model_validate(facts)
            yield request
            previous = request.request_id
            reply = Message(role="assistant", content=task.reply)
            messages = (*messages, reply, _user(texts.pick(rng, "followups")))

    def _task(self, rng: random.Random, cell: _Cell) -> Task:
        dials = Dials(cell.length, cell.repetitiveness)
        for _ in range(DRAWS_MAX):
            task = MAKERS[cell.family](rng, language(cell.language), dials)
            fingerprint = hashlib.blake2b(task.instruction.encode(), digest_size=8).digest()
            if fingerprint not in self._dealt:
                self._dealt.add(fingerprint)
                return task
        message = f"no new {cell.family} task ({cell.language}, {cell.length}) in {DRAWS_MAX} draws"
        raise DomainError.of("loads", message, "ask for fewer requests, or for longer texts")

    def _facts(self, rng: random.Random, cell: _Cell, task: Task) -> dict[str, Any]:
        """Everything but the prompt and its time."""
        self._sequence += 1
        spec = self._spec
        samples = bool(spec.sampled_share) and rng.random() < spec.sampled_share
        constraint = task.schema if spec.constrained else None
        strata = {
            "task": cell.family.value,
            "language": cell.language.value,
            "input": cell.length.value,
            "repetitiveness": f"{cell.repetitiveness:g}",
        }
        strata |= {"sampling": "sampled" if samples else "manifest"} if spec.sampled_share else {}
        strata |= {"constraint": "json" if constraint else "none"} if spec.constrained else {}
        return {
            "request_id": f"{self._sequence:08d}",
            "max_tokens": spec.max_tokens or _room_for(task.answer),
            "strata": strata,
            "reference": task.answer,
            "tests": task.tests,
            "sampling": SamplingOverrides(temperature=SAMPLED_TEMPERATURE, seed=rng.getrandbits(31))
            if samples
            else None,
            "structured_outputs": StructuredOutputs(json_schema=constraint) if constraint else None,
        }

    def _prompt(self, task: Task) -> dict[str, Any]:
        if self._spec.form == "chat":
            return {"messages": (_user(task.instruction),)}
        text = self._spec.template.replace("{task}", task.instruction)
        if self._encode is None:
            return {"prompt": text}
        return {"prompt_token_ids": tuple(self._encode(text)), "prompt_text": text}


def _user(text: str) -> Message:
    return Message(role="user", content=text)


def _room_for(answer: str | None) -> int:
    """Tokens enough for a right answer in any usual tokenizer: one for two bytes, and the end."""
    return OPEN_END_TOKENS if answer is None else len(answer.encode()) // 2 + 16
