"""The one overall answer: which arm to deploy with which flags, or what it depends on."""

import json
import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.manifest import Arm, Manifest
from app.domain.serving import UNQUANTIZED
from app.domain.verdict import BLOCKS_FOR_DECISION, Verdict
from app.domain.vocabulary import Method, Purpose, Regime, VerdictWord


class Recommendation(BaseModel):
    """The overall answer and its scope. ``flags`` are what to pass to ``vllm serve``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str | None
    sentence: str
    scope: str
    flags: tuple[str, ...]


def recommend(manifest: Manifest, verdicts: Sequence[Verdict], *, interim: bool) -> Recommendation:
    """Name an arm only if it helps somewhere, hurts nowhere, is valid everywhere, and both regimes were measured."""
    declared = {arm.name for arm in manifest.decided}
    verdicts = [v for v in verdicts if v.arm in declared]
    eligible = [arm for arm in manifest.decided if _eligible([v for v in verdicts if v.arm == arm.name])]
    best = max(eligible, key=lambda arm: _merit([v for v in verdicts if v.arm == arm.name]), default=None)
    obstacle = _obstacle(manifest, interim=interim)
    if best is None or obstacle:
        leaning = (
            "" if best is None else f" So far {best.name} looks best: {_where(verdicts, best, VerdictWord.HELPS)}."
        )
        sentence = f"{obstacle}{leaning}" if obstacle else _no_arm(manifest, verdicts)
        return Recommendation(arm=None, sentence=sentence, scope=_scope(manifest), flags=())
    elsewhere = [v for v in verdicts if v.arm == best.name and v.word is not VerdictWord.HELPS]
    rest = "".join(f"; {v.word} on {v.workload} at {v.load}" for v in elsewhere)
    sentence = f"Deploy {best.name}: it helps on {_where(verdicts, best, VerdictWord.HELPS)}{rest}."
    return Recommendation(arm=best.name, sentence=sentence, scope=_scope(manifest), flags=serve_flags(manifest, best))


def serve_flags(manifest: Manifest, arm: Arm) -> tuple[str, ...]:
    """Flags of ``vllm serve`` as measured, one per entry, quoted for a shell; a local draft is named by its alias."""
    serving = manifest.serving
    flags = [
        f"--dtype {serving.dtype}",
        *([f"--quantization {serving.quantization}"] if serving.quantization != UNQUANTIZED else []),
        f"--tensor-parallel-size {serving.tensor_parallel_size}",
        f"--max-model-len {serving.max_model_len}",
        f"--max-num-seqs {serving.max_num_seqs}",
        "--enable-prefix-caching" if serving.prefix_caching else "--no-enable-prefix-caching",
        "--async-scheduling" if serving.async_scheduling else "--no-async-scheduling",
        *(["--enforce-eager"] if serving.enforce_eager else []),
    ]
    if arm.speculation.method is Method.TARGET_ONLY:
        return tuple(flags)
    repository, _, revision = arm.draft_or_speculator.partition("@")
    speculative = arm.speculation.speculative_config(None if repository == "none" else repository) or {}
    if revision and not repository.startswith("local:"):
        speculative["revision"] = revision
    return (*flags, f"--speculative-config '{json.dumps(speculative, sort_keys=True)}'")


def _eligible(verdicts: Sequence[Verdict]) -> bool:
    words = {v.word for v in verdicts}
    return VerdictWord.HELPS in words and words.isdisjoint({VerdictWord.HURTS, VerdictWord.INVALID})


def _merit(verdicts: Sequence[Verdict]) -> tuple[int, float]:
    """More conditions that it helps, then the larger geometric mean ratio."""
    ratios = [v.ratio.value for v in verdicts if v.ratio is not None and v.ratio.value]
    helps = sum(v.word is VerdictWord.HELPS for v in verdicts)
    return helps, sum(map(math.log, ratios)) / len(ratios) if ratios else 0.0


def _obstacle(manifest: Manifest, *, interim: bool) -> str:
    missing = [str(regime) for regime in Regime if regime not in {load.regime for load in manifest.loads}]
    if interim:
        return "Interim: blocks are missing, so nothing is decided."
    if manifest.purpose is Purpose.OVERHEAD_PROFILING:
        return "Overhead profiling: nothing is claimed about outputs, so nothing is recommended."
    if manifest.purpose is Purpose.HOST_CALIBRATION:
        return "Host calibration: the arms are the same, so nothing is recommended; what differs is this host's noise."
    if manifest.blocks < BLOCKS_FOR_DECISION:
        return f"Exploratory: {manifest.blocks} blocks carry no decision, {BLOCKS_FOR_DECISION} are needed."
    if missing:
        return f"No recommendation: the {' and '.join(missing)} regime was not measured."
    return ""


def _no_arm(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """What it depends on, arm by arm."""
    if not any(v.word is VerdictWord.HELPS for v in verdicts):
        counted = ", ".join(f"{word} {n}" for word in VerdictWord if (n := sum(v.word is word for v in verdicts)))
        return f"Keep target-only: no arm was shown to help anywhere ({counted})."
    parts = [
        f"{arm.name} is {word} on {where}"
        for arm in manifest.candidates
        for word in (VerdictWord.HELPS, VerdictWord.HURTS, VerdictWord.INVALID)
        if (where := _where(verdicts, arm, word))
    ]
    return f"It depends: {'; '.join(parts)}."


def _where(verdicts: Sequence[Verdict], arm: Arm, word: VerdictWord) -> str:
    return ", ".join(f"{v.workload} at {v.load}" for v in verdicts if v.arm == arm.name and v.word is word)


def _scope(manifest: Manifest) -> str:
    """For what the answer holds: this workload, stack and load, never speculation in general."""
    workloads = ", ".join(w.name for w in manifest.workloads)
    loads = ", ".join(f"{load.name} ({load.offered})" for load in manifest.loads)
    return (
        f"{manifest.target_model.partition('@')[0]} on {manifest.hardware.count} x {manifest.hardware.accelerator}, "
        f"{' '.join(manifest.runtime.split()[:2])}; workloads {workloads}; loads {loads}; "
        f"temperature {manifest.sampling.temperature:g}. It says nothing about other workloads, stacks or loads."
    )
