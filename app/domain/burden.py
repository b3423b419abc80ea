"""What deploying an arm costs beside speed: cache and concurrency lost, seconds to start, storage, complexity.

Everything is against target-only in the same blocks. Nothing is turned into one number: how many tokens of cache a
second of start-up is worth is the reader's to say. Only of two arms that are equally fast the lighter is preferred.
"""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.launch import on_cpu_runtime
from app.domain.lifecycle import SessionState
from app.domain.manifest import Arm, Manifest
from app.domain.pairing import CompleteBlocks
from app.domain.preflight.methods import ASYNC_METHODS
from app.domain.references import NO_DRAFT
from app.domain.startup import WarningEffect
from app.domain.statistics import Estimate, mean_over_blocks
from app.domain.vocabulary import BASELINE_ARM, NS_PER_S, Method

KV_CACHE_TOKENS = "kv_cache_tokens"
"""The engine adapter's name of the start-up log's line."""


class Notice(BaseModel):
    """Something that only the arm's servers logged, and how we read it: those are two voices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    logged: str
    """The line of the engine's log."""
    means: str
    """Our words."""


class Burden(BaseModel):
    """One arm's costs; ``None`` where no server told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kv_cache_tokens: int | None
    """By the engine's own report, in the block where most is lost."""
    kv_cache_tokens_target: int | None
    """Target-only's in that block."""
    full_length_requests_lost: float | None
    """Of ``max_model_len`` tokens each, how many fewer the cache holds at once."""
    startup_more_s: Estimate
    """Seconds from exec to the answered canary, less target-only's of the same block."""
    storage_bytes: int | None
    """Of the draft's files; 0 without a draft."""
    storage_source: str
    complexity: tuple[str, ...]
    """What has to be rolled out, or kept so, that target-only does not need."""
    notices: tuple[Notice, ...] = ()
    """Worth knowing, of the arm's servers and not of target-only's."""

    @property
    def cache_share_lost(self) -> float | None:
        """Of target-only's cache; negative where the arm's is larger."""
        if self.kv_cache_tokens is None or not self.kv_cache_tokens_target:
            return None
        return 1 - self.kv_cache_tokens / self.kv_cache_tokens_target

    @property
    def weight(self) -> tuple[float, ...]:
        """For choosing among equally fast arms: what is unknown weighs most."""
        unknown = float("inf")
        lost, more = self.cache_share_lost, self.startup_more_s.value
        return (
            len(self.complexity) + len(self.notices),
            unknown if lost is None else round(max(lost, 0.0), 2),
            unknown if self.storage_bytes is None else self.storage_bytes,
            unknown if more is None else more,
        )

    @property
    def sentence(self) -> str:
        """All of it in words."""
        return "; ".join((self._cache, self._startup, self._storage, *self.complexity, *self._noticed))

    @property
    def _noticed(self) -> Iterator[str]:
        if self.notices:
            number = "a notice" if len(self.notices) == 1 else f"{len(self.notices)} notices"
            yield f"{number} that only its servers log, which we read so: {'; '.join(n.means for n in self.notices)}"

    @property
    def _cache(self) -> str:
        lost, requests = self.cache_share_lost, self.full_length_requests_lost
        if lost is None or requests is None:
            return "KV cache: not told by its servers"
        if not lost:
            return f"KV cache of {self.kv_cache_tokens:,} tokens, as large as target-only's"
        word = "fewer" if lost > 0 else "more"
        return (
            f"KV cache of {self.kv_cache_tokens:,} instead of {self.kv_cache_tokens_target:,} tokens ({abs(lost):.1%} "
            f"{word}: {abs(requests):.1f} requests of full length at once {word})"
        )

    @property
    def _startup(self) -> str:
        more = self.startup_more_s
        if more.value is None:
            return "start-up: not told by its servers"
        limits = "" if more.low is None or more.high is None else f" [{more.low:+.1f}, {more.high:+.1f}]"
        return f"start-up {more.value:+.1f} s{limits}"

    @property
    def _storage(self) -> str:
        if self.storage_bytes is None:
            return f"storage of the draft: unknown ({self.storage_source})"
        return f"{self.storage_bytes / 1e6:,.1f} MB of draft to store" if self.storage_bytes else "nothing to store"


def burden(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: Arm) -> Burden:
    """Of the servers of complete blocks."""
    pairs = [*_pairs(evidence, blocks, arm.name)]
    theirs, ours = min(_cache_tokens(pairs), key=lambda found: found[1] / found[0], default=(None, None))
    length = evidence.manifest.serving.max_model_len
    storage, source = _storage(arm, [own for _, own in pairs])
    more = [(b.startup_ns - a.startup_ns) / NS_PER_S for a, b in pairs if a.startup_ns and b.startup_ns]
    return Burden(
        kv_cache_tokens=ours,
        kv_cache_tokens_target=theirs,
        full_length_requests_lost=None if theirs is None or ours is None else (theirs - ours) / length,
        startup_more_s=mean_over_blocks(more, "s"),
        storage_bytes=storage,
        storage_source=source,
        complexity=tuple(_complexity(evidence.manifest, arm)),
        notices=tuple(_notices([own for _, own in pairs], [target for target, _ in pairs])),
    )


Pair = tuple[SessionEvidence, SessionEvidence]
"""Target-only's server and the arm's, of one block."""


def _pairs(evidence: ExperimentEvidence, blocks: CompleteBlocks, arm: str) -> Iterator[Pair]:
    served = {(s.block, s.arm): s for s in evidence.sessions if s.state is SessionState.SUCCEEDED}
    for block in blocks.indices:
        if (block, BASELINE_ARM) in served and (block, arm) in served:
            yield served[block, BASELINE_ARM], served[block, arm]


def _cache_tokens(pairs: Sequence[Pair]) -> Iterator[tuple[int, int]]:
    for pair in pairs:
        theirs, ours = (_tokens(session) for session in pair)
        if theirs and ours is not None:
            yield theirs, ours


def _tokens(session: SessionEvidence) -> int | None:
    printed = session.memory.get(KV_CACHE_TOKENS, "").replace(",", "")
    if printed.isdecimal():
        return int(printed)
    return session.memory_breakdown.kv_cache_tokens if session.memory_breakdown else None


def _storage(arm: Arm, sessions: Sequence[SessionEvidence]) -> tuple[int | None, str]:
    if arm.draft_or_speculator == NO_DRAFT:
        return 0, "it has no files of its own"
    for session in sessions:
        made = session.memory_breakdown
        if made is not None and made.draft_file_bytes is not None:
            return made.draft_file_bytes, "sizes of its files"
    return None, "its files were not looked at"


def _complexity(manifest: Manifest, arm: Arm) -> Iterator[str]:
    method = arm.speculation.method
    if arm.draft_or_speculator != NO_DRAFT:
        yield f"another checkpoint to pin and to roll out together with the target ({arm.draft_or_speculator})"
    if method is Method.SUFFIX:
        yield "a library beside the engine (arctic-inference), which its runtime must hold"
    if arm.speculation.num_speculative_tokens_per_batch_size is not None:
        yield "a schedule of k by batch size, which is right for the loads that it was made for"
    pinned = arm.speculates and not on_cpu_runtime(manifest)
    if pinned and not manifest.serving.async_scheduling:
        forced = "" if method in ASYNC_METHODS else f", and the engine refuses it with {method}"
        yield f"asynchronous scheduling stays off, as in every arm here{forced}; target-only could have it"
    if pinned:
        yield "model runner V1 is stated, as for every arm here, instead of the engine's own choice"


def _notices(sessions: Sequence[SessionEvidence], targets: Sequence[SessionEvidence]) -> Iterator[Notice]:
    """Each kind once, with the first line that said it."""
    usual = {w.name for s in targets for w in s.warnings}
    found = {w.name: w for s in reversed(sessions) for w in s.warnings if w.effect is WarningEffect.NOTICE}
    yield from (Notice(logged=w.line, means=w.reason) for name, w in sorted(found.items()) if name not in usual)
