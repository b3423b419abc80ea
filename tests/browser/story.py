"""Play an experiment into the database through the worker's own repositories, as far as a test wants it to go."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from pydantic import JsonValue

from app.artifacts.store import ArtifactStore, path_of
from app.db.session import Database
from app.domain.condition import Condition
from app.domain.evidence import CounterDeltas, Failure
from app.domain.lifecycle import BlockState, RunState, SessionState
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation, SpeculationCounts
from app.domain.run_summary import summarise
from app.domain.schedule import PlannedSession, plan
from app.domain.series import ENERGY
from app.domain.startup import CanaryFacts, StartupWarning, WarningEffect
from app.domain.trace import Trace
from app.domain.vocabulary import BASELINE_ARM, NS_PER_MS, FailureClass, Outcome
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.leases.repository import ClaimedBlock, LeaseRepository
from app.runs.facts import SessionFacts
from app.runs.repository import SessionRepository
from tests.browser.story_host import THROTTLED, story_memory, story_series
from tests.factories import BASELINE, DRAFT, NGRAM, make_manifest, make_trace
from tests.factories_host import make_host
from tests.factories_leases import claim_block

K = 4
ANSWER_TOKENS = 41
LOADS = (
    {"name": "low", "regime": "latency", "rate_rps": 4.0},
    {"name": "high", "regime": "serving", "rate_rps": 12.0},
)
DRAFT_ARM = {
    "name": "draft-k4",
    "draft_or_speculator": DRAFT,
    "speculation": {"method": "draft_model", "num_speculative_tokens": K},
}
ACCEPTANCE: Mapping[tuple[str, str], float] = {
    ("ngram-k4", "tasks"): 0.8,
    ("ngram-k4", "open"): 0.12,
    ("draft-k4", "tasks"): 0.7,
    ("draft-k4", "open"): 0.35,
}
"""Chance that the next draft token is accepted, given that those before it were."""
STEP_MS: Mapping[str, float] = {BASELINE_ARM: 4.2, "ngram-k4": 5.0, "draft-k4": 9.0}
CAPABILITIES: dict[str, JsonValue] = make_host(cores=2).model_dump(mode="json")
LOG = "INFO \x1b[32mstarting\x1b[0m <script>alert(1)</script>\nERROR Unsupported speculative method: 'mtp'\n"
NOTICE = StartupWarning(
    name="sampling_limited",
    effect=WarningEffect.NOTICE,
    reason="said at every start with speculation",
    line="min_p and logit_bias <b>parameters</b> won't work with speculative decoding.",
)


@dataclass(frozen=True)
class Story:
    """What happens. ``stop`` ends the telling after that many runs of the last block, which stays open."""

    blocks: int
    name: str = "demo"
    planned: int = 5
    requests: int = 24
    failing_arm: str | None = None
    differing_arm: str | None = None
    noise: float = 0.01
    stop: int | None = None
    hostile: str = ""
    """Said in every text that an engine, a host, a trace or a manifest may say."""
    traces: tuple[Trace, ...] = field(init=False)

    def __post_init__(self) -> None:
        traces = [make_trace(name=name, loads=LOADS, requests=self.requests) for name in ("tasks", "open")]
        object.__setattr__(self, "traces", tuple(_saying(trace, self.hostile) for trace in traces))

    @property
    def manifest(self) -> Manifest:
        """Three arms, two workloads, two loads."""
        return make_manifest(
            name=self.name,
            traces={t.header.name: t.digest for t in self.traces},
            arms=[BASELINE, NGRAM, DRAFT_ARM],
            loads=list(LOADS),
            blocks=self.planned,
            **self._said(),
        )

    def _said(self) -> dict[str, object]:
        """The texts of a manifest that are free."""
        if not self.hostile:
            return {}
        shown = "".join(character for character in self.hostile if character >= " ")
        return {
            "hardware": {"accelerator": f"cpu {shown}", "count": 1, "topology": f"one {shown}"},
            "software": {"driver": f"d {shown}", "cuda": "none", "os": f"os {shown}", "kernel": f"k {shown}"},
            "engine_below_floor": f"because {shown}",
        }


async def tell(database: Database, story: Story, artifacts: Path) -> Manifest:
    """Register the story's experiment and play its blocks; returns its manifest."""
    manifest = story.manifest
    async with database.transaction() as session:
        for trace in story.traces:
            await EvidenceRepository(session).store_trace(trace)
        await EvidenceRepository(session).publish_capabilities("here", CAPABILITIES)
        await ExperimentRepository(session).add(manifest)
    teller = _Teller(database, story, artifacts)
    for _ in range(story.blocks):
        await teller.block(runs=10**6)
    if story.stop is not None:
        await teller.block(runs=story.stop)
    return manifest


class _Teller:
    """Plays blocks as a worker would, with made-up numbers."""

    def __init__(self, database: Database, story: Story, artifacts: Path) -> None:
        self._database, self._story, self._artifacts = database, story, artifacts

    async def block(self, runs: int) -> None:
        """Claim the next block and play it; it stays open where ``runs`` are used up."""
        async with self._database.transaction() as session:
            block = await claim_block(session, "here:1")
        if block is None or block.manifest != self._story.manifest:
            raise AssertionError("another experiment's block is queued; tell unfinished stories last")
        for planned in plan(block.manifest)[block.index].sessions:
            told = await self._session(block, planned, runs)
            if told is None:
                return
            runs -= told
        async with self._database.transaction() as session:
            await LeaseRepository(session).finish(block.id, block.fence, BlockState.SUCCEEDED, None)

    async def _session(self, block: ClaimedBlock, planned: PlannedSession, runs: int) -> int | None:
        session_id = await self._start(block, planned)
        if planned.arm == self._story.failing_arm:
            message = self._story.hostile or "Unsupported speculative method: 'mtp'"
            failure = Failure(failure_class=FailureClass.CONFIG, message=message)
            await self._move(session_id, block.fence, SessionState.FAILED, failure=failure)
            return 0
        await self._move(session_id, block.fence, SessionState.WARMING, SessionState.MEASURING)
        for condition in planned.runs[:runs]:
            trace = next(t for t in self._story.traces if t.header.name == condition.workload)
            seen = list(_replay(self._story, trace, condition, block.index))
            await self._run(session_id, block.fence, condition, seen)
        if runs < len(planned.runs):
            return None
        await self._move(session_id, block.fence, SessionState.DRAINING, SessionState.SUCCEEDED)
        return len(planned.runs)

    async def _start(self, block: ClaimedBlock, planned: PlannedSession) -> UUID:
        hostile = self._story.hostile
        text = f"{LOG}{hostile}\n"
        log = _store_log(self._artifacts, text)
        async with self._database.transaction() as session:
            blocks = SessionRepository(session)
            session_id = await blocks.start_session(block.id, block.fence, planned.arm, planned.position)
            await EvidenceRepository(session).record_artifact("log", log, path_of(log), session_id, None, len(text))
            facts = SessionFacts(
                startup_ns=None if planned.arm == self._story.failing_arm else 24_500 * NS_PER_MS,
                argv=("vllm", "serve"),
                log_sha256=log,
                resolved_config={
                    "scheduler.async_scheduling": "False",
                    **_resolved(block, planned.arm),
                    **({f"named.{hostile}": f"{hostile} {planned.arm}"} if hostile else {}),
                },
                memory_breakdown=story_memory(planned.arm),
                memory={"kv_cache_tokens": "599,168" if planned.arm == "draft-k4" else "699,008"}
                | ({hostile: hostile} if hostile else {}),
                warnings=() if planned.arm == BASELINE_ARM else (_noticed(hostile),),
                flags_left_out={f"--{hostile}": hostile} if hostile else {},
                canary=CanaryFacts(exposes_speculation=planned.arm != BASELINE_ARM, drafted=60),
            )
            await blocks.describe_session(session_id, block.fence, facts)
        return session_id

    async def _move(self, session_id: UUID, fence: int, *states: SessionState, failure: Failure | None = None) -> None:
        for state in states:
            async with self._database.transaction() as session:
                await SessionRepository(session).move_session(session_id, fence, state, failure)

    async def _run(self, session_id: UUID, fence: int, condition: Condition, seen: list[RequestObservation]) -> None:
        async with self._database.transaction() as session:
            run_id = await SessionRepository(session).start_run(session_id, fence, condition.workload, condition.load)
            await EvidenceRepository(session).record_observations(run_id, fence, seen)
            await EvidenceRepository(session).record_series(run_id, fence, story_series(condition, seen))
            await SessionRepository(session).finish_run(
                run_id,
                fence,
                RunState.SUCCEEDED,
                failure=None,
                counters=_counters(seen),
                summary=summarise(seen),
                controls=[THROTTLED.model_copy(update={"words": self._story.hostile or THROTTLED.words})]
                if condition.arm == "draft-k4" and condition.load == "high"
                else [],
                unobservable={ENERGY: self._story.hostile or "Not Supported"},
            )


def _resolved(block: ClaimedBlock, name: str) -> dict[str, str]:
    """What an engine that did as asked would state of its speculation."""
    asked = next(arm for arm in block.manifest.arms if arm.name == name).speculation
    if name == BASELINE_ARM:
        return {"speculative_config": "null"}
    stated = {"method": str(asked.method), "num_speculative_tokens": str(asked.num_speculative_tokens)}
    return {f"speculative_config.{key}": value for key, value in stated.items()}


def _replay(story: Story, trace: Trace, condition: Condition, block: int) -> Iterator[RequestObservation]:
    arm, load = condition.arm, condition.load
    luck = random.Random(f"{condition.id}/{block}")
    slowness = luck.gauss(1.0, story.noise) * (1.3 if load == "high" else 1.0)
    acceptance = ACCEPTANCE.get((arm, trace.header.name))
    for request in trace.of_load(load):
        tokens, at_ns = [1], request.due_ns + round(30 * NS_PER_MS * slowness)
        times, accepted = [at_ns], []
        while sum(tokens) < ANSWER_TOKENS:
            at_ns += round(STEP_MS[arm] * NS_PER_MS * slowness * luck.uniform(0.97, 1.03))
            run = 0
            while acceptance is not None and run < K and luck.random() < acceptance:
                run += 1
            emitted = min(run + 1, ANSWER_TOKENS - sum(tokens))
            accepted.append(run)
            tokens.append(emitted)
            times.append(at_ns)
        differs = arm == story.differing_arm and request.request_id.endswith("-0")
        yield RequestObservation(
            request_id=request.request_id,
            outcome=Outcome.SUCCESS,
            due_ns=request.due_ns,
            sent_ns=request.due_ns + 80_000,
            first_byte_ns=times[0],
            end_ns=at_ns + 100_000,
            chunk_ns=tuple(times),
            chunk_tokens=tuple(tokens),
            token_ids=tuple(range(100, 100 + ANSWER_TOKENS - 1)) + ((9,) if differs else (8,)),
            text=story.hostile or ("<script>alert(1)</script>" if differs else "abcd"),
            finish_reason="length",
            error=story.hostile or None,
            prompt_tokens=3,
            completion_tokens=ANSWER_TOKENS,
            speculation=None if acceptance is None else _speculation(accepted),
            http_status=200,
        )


def _speculation(accepted: list[int]) -> SpeculationCounts:
    return SpeculationCounts(
        num_spec_steps=len(accepted),
        num_draft_tokens=K * len(accepted),
        num_accepted_draft_tokens=sum(accepted),
        acceptance_histogram=tuple(accepted.count(n) for n in range(K + 1)),
        per_step_accepted=tuple(accepted),
        per_step_drafted=(K,) * len(accepted),
    )


def _counters(seen: list[RequestObservation]) -> CounterDeltas:
    given = [o.speculation for o in seen if o.speculation]
    steps = [n for s in given for n in s.per_step_accepted]
    drafted = {
        "spec_decode_num_drafts": len(steps),
        "spec_decode_num_draft_tokens": K * len(steps),
        "spec_decode_num_accepted_tokens": sum(steps),
        "spec_decode_num_accepted_tokens_per_pos": tuple(sum(n > j for n in steps) for j in range(K)),
    }
    plain = {"prompt_tokens": 3 * len(seen), "generation_tokens": ANSWER_TOKENS * len(seen)}
    return CounterDeltas.model_validate(
        plain | {"request_success": len(seen), "num_preemptions": 0} | (drafted if given else {})
    )


def _saying(trace: Trace, hostile: str) -> Trace:
    """The trace with prompts and references that say so."""
    if not hostile:
        return trace
    said = {"prompt_text": hostile, "reference": hostile}
    return trace.model_copy(update={"requests": tuple(r.model_copy(update=said) for r in trace.requests)})


def _noticed(hostile: str) -> StartupWarning:
    return NOTICE.model_copy(update={"reason": hostile, "line": hostile}) if hostile else NOTICE


def _store_log(artifacts: Path, text: str) -> str:
    artifacts.mkdir(parents=True, exist_ok=True)
    log = artifacts / "engine.log"
    log.write_text(text)
    return ArtifactStore(str(artifacts)).put(log).sha256
