"""One case for readers: the prompt, each answer beside target-only's, its accepted runs, and when its chunks came."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Final

from app.cases.one import OneCase, SeenCase
from app.domain.latency import e2e_ns, lateness_ns, tpot_ns, ttft_ns
from app.domain.observation import RequestObservation
from app.domain.output_position import steps_of
from app.domain.trace_request import TraceRequest
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS

TOKENS_SHOWN: Final = 1024
CHUNKS_DRAWN: Final = 2000
MARKED: Final = 24
"""Characters from the first difference on that are marked; the rest of a differing answer differs anyhow."""
DRAFTED, EXTRA, PLAIN = "drafted", "extra", "plain"


@dataclass(frozen=True, slots=True)
class TokenRun:
    """Neighbouring tokens of one kind; ``first_difference`` has one token."""

    kind: str
    ids: tuple[int, ...]
    index: int
    first_difference: bool
    differs: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """One answer on the clock of its block, in percent of the longest."""

    arm: str
    chunks: tuple[tuple[float, int], ...]
    """Place and tokens of each chunk."""
    end: float | None
    times: tuple[tuple[float, int], ...]
    """The same in milliseconds since the due time."""


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One answer with its numbers in milliseconds."""

    case: SeenCase
    late_ms: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    ratio: float | None
    before: str
    marked: str
    rest: str
    tokens: tuple[TokenRun, ...]
    tokens_left_out: int
    divergence: int | None
    """The first token that is not target-only's."""
    same: bool | None
    placing: str
    """What is known of where drafts were accepted, or why it is not."""


@dataclass(frozen=True, slots=True)
class BlockView:
    """One block's answers; ``number`` counts from 1."""

    number: int
    lanes: tuple[Lane, ...]
    longest_ms: float
    answers: tuple[AnswerView, ...]


@dataclass(frozen=True, slots=True)
class CaseView:
    """The page's content."""

    workload: str
    request: TraceRequest
    prompt: str
    prompt_kind: str
    scorer: str | None
    blocks: tuple[BlockView, ...]


def shown_case(one: OneCase) -> CaseView:
    """Everything, block by block."""
    kind, prompt = _prompt(one.request)
    blocks = groupby(one.answers, key=lambda answer: answer.block)
    return CaseView(
        workload=one.workload,
        request=one.request,
        prompt=prompt,
        prompt_kind=kind,
        scorer=one.scorer,
        blocks=tuple(_block(number, tuple(answers)) for number, answers in blocks),
    )


def _prompt(request: TraceRequest) -> tuple[str, str]:
    """What kind of prompt it is, and the prompt itself."""
    if request.prompt_hash is not None:
        return "Only the worker has this prompt (privacy mode). Its keyed hash", request.prompt_hash
    if request.messages:
        parts = [f"[{m.role}] {m.model_dump_json(exclude_none=True, exclude={'role'})}" for m in request.messages]
        return "Conversation", "\n".join(parts)
    if request.prompt is not None:
        return "Text", request.prompt
    if request.prompt_text is not None:
        return f"{len(request.prompt_token_ids)} token ids, which say", request.prompt_text
    return f"{len(request.prompt_token_ids)} token ids", " ".join(map(str, request.prompt_token_ids))


def _block(number: int, answers: Sequence[SeenCase]) -> BlockView:
    target = next((a.seen for a in answers if a.arm == BASELINE_ARM and a.counted), None)
    ends = [end for a in answers if (end := _end_ns(a.seen)) is not None]
    longest = max([*ends, 1])
    lanes = tuple(_lane(answer, longest) for answer in answers if answer.seen.chunk_ns)
    return BlockView(number + 1, lanes, longest / NS_PER_MS, tuple(_answer(a, target) for a in answers))


def _end_ns(seen: RequestObservation) -> int | None:
    last = seen.chunk_ns[-1] if seen.chunk_ns else seen.end_ns
    return None if last is None else last - seen.due_ns


def _lane(answer: SeenCase, longest: int) -> Lane:
    seen = answer.seen
    chunks = [(at - seen.due_ns, n) for at, n in zip(seen.chunk_ns, seen.chunk_tokens, strict=True)][:CHUNKS_DRAWN]
    end = _end_ns(seen)
    return Lane(
        arm=answer.arm,
        chunks=tuple((round(100 * at / longest, 3), n) for at, n in chunks),
        end=None if end is None else round(100 * end / longest, 3),
        times=tuple((at / NS_PER_MS, n) for at, n in chunks),
    )


def _answer(answer: SeenCase, target: RequestObservation | None) -> AnswerView:
    seen = answer.seen
    other = None if answer.arm == BASELINE_ARM else target
    e2e, theirs = e2e_ns(seen), None if other is None else e2e_ns(other)
    place = _divergence(seen.token_ids, other.token_ids) if other and seen.token_ids and other.token_ids else None
    same = None if other is None or e2e is None or theirs is None else _is_same(seen, other)
    before, marked, rest = _marked(seen.text, other.text if other and same is False else seen.text)
    kinds, placing = _kinds(answer.arm, seen)
    return AnswerView(
        case=answer,
        late_ms=_ms(lateness_ns(seen)),
        ttft_ms=_ms(ttft_ns(seen)),
        tpot_ms=_ms(tpot_ns(seen)),
        e2e_ms=_ms(e2e),
        ratio=e2e / theirs if e2e is not None and theirs else None,
        before=before,
        marked=marked,
        rest=rest,
        tokens=tuple(_runs(seen.token_ids[:TOKENS_SHOWN], kinds, place)),
        tokens_left_out=max(len(seen.token_ids) - TOKENS_SHOWN, 0),
        divergence=place,
        same=same,
        placing=placing,
    )


def _ms(value: float | None) -> float | None:
    return None if value is None else value / NS_PER_MS


def _is_same(seen: RequestObservation, other: RequestObservation) -> bool:
    if seen.token_ids and other.token_ids:
        return tuple(seen.token_ids) == tuple(other.token_ids)
    return (seen.text, seen.reasoning, seen.tool_calls) == (other.text, other.reasoning, other.tool_calls)


def _divergence(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """The first place at which two sequences differ; where one is the other's beginning, its end."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    return None if common == len(ours) == len(theirs) else common


def _marked(text: str, other: str) -> tuple[str, str, str]:
    """The text before its first difference from the other, a little from there on, and the rest."""
    if text == other:
        return text, "", ""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))
    return text[:common], text[common : common + MARKED], text[common + MARKED :]


def _kinds(arm: str, seen: RequestObservation) -> tuple[list[str], str]:
    """What each token came as, and what can be said of that."""
    kinds = [PLAIN] * len(seen.token_ids)
    if arm == BASELINE_ARM:
        return kinds, "All are the target's own."
    told = seen.speculation
    if told is None:
        return kinds, "No drafts were told for this request."
    counts = f"{told.num_accepted_draft_tokens} of {told.num_draft_tokens} drafted tokens accepted"
    steps = steps_of(seen)
    if steps is None:
        return kinds, f"{counts}; where cannot be said: its chunks fit its steps in no way, or in more than one."
    for before, _, accepted in steps:
        for place in range(before, min(before + accepted, len(kinds))):
            kinds[place] = DRAFTED
        if before + accepted < len(kinds):
            kinds[before + accepted] = EXTRA
    return kinds, f"{counts} in {len(steps)} steps with a draft."


def _runs(ids: Sequence[int], kinds: Sequence[str], place: int | None) -> Iterator[TokenRun]:
    def key(index: int) -> tuple[str, bool, bool]:
        return kinds[index], index == place, place is not None and index > place

    for (kind, first, after), group in groupby(range(len(ids)), key=key):
        indices = tuple(group)
        yield TokenRun(kind, tuple(ids[i] for i in indices), indices[0], first, differs=after)
