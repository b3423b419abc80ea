"""A handmade report with the demo's shape, for figures and pages: every number is chosen, none is measured."""

from collections.abc import Iterator

from app.domain.distribution import Distribution
from app.domain.greedy_classes import MismatchClass
from app.domain.greedy_mismatch import AnsweredAgain, Mismatch
from app.domain.greedy_rates import MatchRate
from app.domain.greedy_tables import GreedyMode
from app.domain.manifest import Manifest
from app.domain.output_position import AlongOutput
from app.domain.report import (
    ArmResult,
    Correctness,
    DraftCost,
    Estimate,
    MetricComparison,
    Recommendation,
    Reconciliation,
    Report,
    SessionSummary,
    Verdict,
)
from app.domain.reproducibility_terms import ChecklistItem, check, idle, item
from app.domain.results import TokenCounts
from app.domain.verified import Alternative
from app.domain.vocabulary import BASELINE_ARM, Regime, Saturation, VerdictWord
from tests.factories import BASELINE, DRAFT, NGRAM, make_manifest
from tests.factories_explanation import sample_counterfactuals, sample_explanations, sample_headroom

DRAFT_ARM = {
    "name": "draft-k4",
    "draft_or_speculator": DRAFT,
    "speculation": {"method": "draft_model", "num_speculative_tokens": 4},
}
STRATA = {"tasks": ("all", "task=copy", "task=edit", "task=json"), "open": ("all", "task=code", "task=prose")}
RATES = {"low": 4.0, "high": 12.0}
METRICS = ("request_speedup", "tpot_speedup", "ttft_speedup", "throughput_ratio", "goodput_ratio")
SPEEDUP = {
    ("ngram-k4", "tasks", "low"): 1.58,
    ("ngram-k4", "tasks", "high"): 1.31,
    ("ngram-k4", "open", "low"): 0.99,
    ("ngram-k4", "open", "high"): 0.97,
    ("draft-k4", "tasks", "low"): 1.36,
    ("draft-k4", "tasks", "high"): 1.04,
    ("draft-k4", "open", "low"): 0.84,
    ("draft-k4", "open", "high"): 0.76,
}
WIDTH = {("tasks", "low"): 1.06, ("tasks", "high"): 1.16, ("open", "low"): 1.02, ("open", "high"): 1.16}
WORDS = {
    ("ngram-k4", "tasks", "low"): VerdictWord.HELPS,
    ("ngram-k4", "tasks", "high"): VerdictWord.HELPS,
    ("ngram-k4", "open", "low"): VerdictWord.EQUIVALENT,
    ("ngram-k4", "open", "high"): VerdictWord.INCONCLUSIVE,
    ("draft-k4", "tasks", "low"): VerdictWord.HELPS,
    ("draft-k4", "tasks", "high"): VerdictWord.INCONCLUSIVE,
    ("draft-k4", "open", "low"): VerdictWord.HURTS,
    ("draft-k4", "open", "high"): VerdictWord.HURTS,
}


def sample_manifest(*, name: str = "demo", blocks: int = 5) -> Manifest:
    """The demo's manifest."""
    regimes = {"low": "latency", "high": "serving"}
    loads = [{"name": load, "regime": regimes[load], "rate_rps": rate} for load, rate in RATES.items()]
    traces = {"tasks": "d" * 64, "open": "e" * 64}
    return make_manifest(name=name, blocks=blocks, arms=[BASELINE, NGRAM, DRAFT_ARM], traces=traces, loads=loads)


def estimate(
    value: float | None, unit: str, *, width: float | None = 1.05, n: int = 5, why: str | None = None
) -> Estimate:
    """``value`` with the multiplicative interval from value / width to value * width."""
    limits = {} if value is None or width is None else {"low": value / width, "high": value * width, "confidence": 0.95}
    return Estimate(
        value=value,
        **limits,
        n=n,
        unit=unit,
        source="t interval of block log-ratios (method A4)",
        why=why,
    )


def sample_report(
    *,
    complete: int = 5,
    blocks: int = 5,
    invalid_arm: str | None = None,
    failed_arm: str | None = None,
    mismatches: int = 0,
    name: str = "demo",
) -> Report:
    """A report of ``complete`` of ``blocks`` blocks; unexplained ``mismatches`` make ``ngram-k4`` INVALID."""
    manifest = sample_manifest(name=name, blocks=blocks)
    invalid = {a for a in (invalid_arm, failed_arm, "ngram-k4" if mismatches else None) if a}
    arms = tuple(a.name for a in manifest.arms if a.name != failed_arm)
    return Report(
        experiment=manifest.digest,
        name=manifest.name,
        manifest=manifest,
        interim=complete < blocks,
        exploratory=blocks < 5,
        blocks_planned=blocks,
        blocks_complete=complete,
        strata=STRATA,
        verdicts=tuple(_verdicts(invalid, complete, exploratory=blocks < 5)) if complete else (),
        recommendation=_recommendation(invalid, complete < blocks),
        results=tuple(_results(arms)) if complete else (),
        comparisons=tuple(_comparisons(arms, complete)) if complete else (),
        correctness=tuple(_correctness(mismatches)) if complete else (),
        mismatches=tuple(_mismatch(i) for i in range(mismatches)),
        reconciliations=tuple(_reconciliations(complete)),
        sessions=tuple(_sessions(complete, failed_arm)),
        costs=tuple(_costs(failed_arm)) if complete else (),
        controls=(),
        findings=(),
        memory=(),
        mechanism=(),
        explanations=tuple(sample_explanations(manifest)) if complete else (),
        counterfactuals=tuple(sample_counterfactuals()) if complete else (),
        headroom=tuple(sample_headroom(manifest)) if complete else (),
        devices=(),
        config_differences={invalid_arm: {"scheduler.async_scheduling": ("False", "True")}} if invalid_arm else {},
        not_shown=("Other hardware: every number is from cpu, 2 cores.",),
        checklist=sample_checklist(),
    )


def sample_checklist() -> tuple[ChecklistItem, ...]:
    """One item of each state."""
    sweep = check("ngram", holds=False, evidence="k = 4", remedy="write several lengths")
    log = check("start-up archived", holds=True, evidence="log by sha256: 15 of 15", remedy="")
    ends = idle("cancellation", "no request of the traces ends early")
    return (
        item("startup", "Compatible, and start-up archived", log),
        item("swept", "Speculation length swept", sweep),
        item("controls", "Cancellation controlled", ends),
    )


def _verdicts(invalid: set[str], complete: int, *, exploratory: bool) -> Iterator[Verdict]:
    for (arm, workload, load), word in WORDS.items():
        bad = arm in invalid
        ratio = estimate(SPEEDUP[arm, workload, load], "ratio", width=WIDTH[workload, load], n=complete)
        yield Verdict(
            arm=arm,
            workload=workload,
            load=load,
            regime=Regime.LATENCY if load == "low" else Regime.SERVING,
            word=VerdictWord.INVALID if bad else word,
            sentence=f"{arm} {word} on {workload} at {load}.",
            reasons=("a session failed at start-up" if bad else "interval against the margin of 5%",),
            exploratory=exploratory,
            metric="request_speedup",
            ratio=None if bad else ratio,
            blocks_needed=11 if word is VerdictWord.INCONCLUSIVE and not bad else None,
        )


def _recommendation(invalid: set[str], interim: bool) -> Recommendation:
    if interim or "ngram-k4" in invalid:
        why = "No recommendation yet: blocks are missing." if interim else "No arm can be recommended on this evidence."
        return Recommendation(arm=None, sentence=why, scope="cpu, 2 cores; tiny-target; tasks, open", flags=())
    return Recommendation(
        arm="ngram-k4",
        sentence="Use ngram-k4 for tasks at both loads; keep target-only for open.",
        scope="cpu, 2 cores; tiny-target float32; workloads tasks and open; 4 and 12 requests/s",
        flags=("--speculative-config", '{"method":"ngram","num_speculative_tokens":4}'),
    )


def _results(arms: tuple[str, ...]) -> Iterator[ArmResult]:
    for workload, strata in STRATA.items():
        for load in RATES:
            for arm in arms:
                for stratum in strata:
                    yield _result(arm, workload, load, stratum)


def _result(arm: str, workload: str, load: str, stratum: str) -> ArmResult:
    speed = SPEEDUP.get((arm, workload, load), 1.0)
    base = 320.0 if load == "low" else 540.0
    offered = 600 if stratum == "all" else 200
    drafts = arm != BASELINE_ARM
    none = "no drafts proposed"
    positions = (0.81, 0.66, 0.52, 0.41) if workload == "tasks" else (0.49, 0.27, 0.15, 0.09)
    return ArmResult(
        arm=arm,
        workload=workload,
        load=load,
        stratum=stratum,
        offered=offered,
        success=offered - 2 if load == "high" else offered,
        outcomes={"success": offered - 2, "deadline_miss": 2} if load == "high" else {"success": offered},
        ttft_ms=_quantiles(31.0),
        tpot_ms=_quantiles(4.2 / speed),
        itl_chunk_ms=_quantiles(4.3),
        itl_token_ms=_quantiles(4.2 / speed),
        queue_ms=_quantiles(0.4),
        e2e_ms=_quantiles(base / speed),
        lateness_ms=_quantiles(0.2),
        distributions=_distributions(base / speed, offered, failed=2 if load == "high" else 0)
        if stratum == "all"
        else {},
        output_throughput_tps=estimate(RATES[load] * 62 * min(speed, 1.0), "tokens/s"),
        request_throughput_rps=estimate(RATES[load], "requests/s"),
        acceptance_along_output=AlongOutput(),
        tokens=TokenCounts(
            prompt=30 * offered, cached=0, requested=64 * offered, drafted=None, accepted=None, rejected=None, emitted=1
        ),
        goodput_rps=estimate(RATES[load] * 0.97, "requests/s"),
        slo_attainment=estimate(0.97, "share", width=1.01),
        acceptance_rate=estimate(
            sum(positions) / 4 if drafts else None, "share", why=None if drafts else none, n=offered
        ),
        mean_length_excl=estimate(
            sum(positions) if drafts else None, "tokens", why=None if drafts else none, n=offered
        ),
        mean_length_incl=estimate(
            1 + sum(positions) if drafts else None, "tokens", why=None if drafts else none, n=offered
        ),
        mean_length_emit=estimate(
            0.9 + sum(positions) if drafts else None, "tokens", why=None if drafts else none, n=offered
        ),
        acceptance_by_position=positions if drafts else (),
        acceptance_band=tuple(estimate(p, "share", n=offered) for p in positions) if drafts else (),
        conditional_acceptance_by_position=positions if drafts else (),
        saturation=Saturation.STABLE,
    )


def _quantiles(p50_ms: float) -> dict[str, Estimate]:
    gated = estimate(None, "ms", width=None, n=300, why="p99 needs 500 successful requests; there are 300")
    return {"p50": estimate(p50_ms, "ms"), "p95": estimate(p50_ms * 1.9, "ms", width=1.12), "p99": gated}


def _distributions(p50_ms: float, offered: int, *, failed: int) -> dict[str, Distribution]:
    """Three times of each latency; failed requests leave the curve below 1, but not that of the time per token."""
    return {
        name: _distribution(ms, offered, failed=0 if name == "tpot_ms" else failed, left_out=failed)
        for name, ms in (("ttft_ms", 31.0), ("tpot_ms", p50_ms / 75), ("e2e_ms", p50_ms))
    }


def _distribution(ms: float, offered: int, *, failed: int, left_out: int) -> Distribution:
    end = (offered - failed) / offered
    return Distribution(
        ms=(ms * 0.7, ms, ms * 1.9),
        share=(0.05, 0.5, end),
        low=(0.02, 0.46, end - 0.01),
        high=(0.08, 0.54, end),
        confidence=0.95,
        offered=offered,
        counted=offered - (left_out if not failed else 0),
        timed=offered - left_out,
        blocks=5,
    )


def _comparisons(arms: tuple[str, ...], complete: int) -> Iterator[MetricComparison]:
    for (arm, workload, load), speed in SPEEDUP.items():
        for stratum in STRATA[workload] if arm in arms else ():
            for metric in METRICS:
                value = speed if metric == "request_speedup" else 1 + (speed - 1) / 2
                shift = 1.0 + 0.08 * (STRATA[workload].index(stratum) % 3 - 1) if stratum != "all" else 1.0
                ratio = estimate(value * shift, "ratio", width=WIDTH[workload, load], n=complete)
                yield MetricComparison(
                    arm=arm,
                    workload=workload,
                    load=load,
                    stratum=stratum,
                    metric=metric,
                    primary=metric == "request_speedup" and stratum == "all",
                    ratio=ratio,
                    simultaneous_low=ratio.low and ratio.low * 0.98,
                    simultaneous_high=ratio.high and ratio.high * 1.02,
                    p_holm=0.004 if abs(speed - 1) > 0.1 else 0.6,
                    block_ratios=tuple(value * shift * f for f in (0.97, 1.01, 1.0, 1.03, 0.99)[:complete]),
                    ratio_blocks=tuple(range(complete)),
                    minimum_detectable_effect=0.07,
                )


def _correctness(mismatches: int) -> Iterator[Correctness]:
    for arm, bad in (("ngram-k4", mismatches), ("draft-k4", 0)):
        yield Correctness(
            arm=arm,
            compared=2000,
            mismatched=bad,
            rates=(
                MatchRate(
                    mode=GreedyMode.TIMED,
                    prompts=2000,
                    differing=bad,
                    match_rate=estimate(1 - bad / 2000, "share", width=1.001, n=2000),
                    control_prompts=2000,
                    control_differing=0,
                    excess=estimate(bad / 2000, "share", n=2000),
                    processes=5,
                ),
            ),
            classes={MismatchClass.SPEC_DEFECT: bad} if bad else {},
            diagnosed=bad,
            left_out=0,
            defect_share=estimate(1.0 if bad else None, "share", n=bad),
            processes=5,
            unanswered=0,
            broken=(f"{bad} greedy answers of {arm} are defects",) if bad else (),
            sentence=f"{bad} of 2000 greedy answers of {arm} differ",
            reference_exact=estimate(0.91, "share", n=1200),
            baseline_reference_exact=estimate(0.91, "share", n=1200),
        )


def _mismatch(index: int) -> Mismatch:
    return Mismatch(
        block=index % 5,
        arm="ngram-k4",
        mode=GreedyMode.TIMED,
        workload="tasks",
        load="low",
        request_id=f"tasks-low-{index:03d}",
        first_divergence=3,
        baseline_tokens=(11, 12, 13, 14, 15),
        arm_tokens=(11, 12, 13, 99, 15, 16),
        baseline_text='{"name": "<b>Ada</b>"}',
        arm_text='{"name": "<script>alert(1)</script>"}',
        baseline_finish="stop",
        arm_finish="length",
        mismatch_class=MismatchClass.SPEC_DEFECT,
        words="asked alone the arm differs again, and the target clearly prefers its own token",
        place=3,
        expected_token=14,
        arm_token=99,
        gap_nats=2.5,
        tolerance_nats=0.25,
        raw_logits=True,
        alternatives=(Alternative(token_id=14, logit=21.5), Alternative(token_id=99, logit=19.0)),
        token_texts={14: "<b>", 99: "<script>"},
        reruns=(
            AnsweredAgain(
                block=0,
                arm=BASELINE_ARM,
                mode="single",
                repeat=0,
                is_baselines=True,
                is_arms=False,
                first_divergence=5,
                tokens=5,
                finish="stop",
            ),
        ),
    )


def _reconciliations(complete: int) -> Iterator[Reconciliation]:
    for block in range(complete):
        for quantity, total in (("accepted draft tokens", 4210), ("drafted tokens", 6720)):
            yield Reconciliation(
                block=block,
                arm="ngram-k4",
                workload="tasks",
                load="low",
                quantity=quantity,
                per_request_sum=total + block,
                counter_delta=total + block,
                residual=0,
            )


def _sessions(complete: int, failed_arm: str | None) -> Iterator[SessionSummary]:
    for block in range(complete):
        for position, arm in enumerate((BASELINE_ARM, "ngram-k4", "draft-k4")):
            failed = arm == failed_arm
            yield SessionSummary(
                block=block,
                arm=arm,
                position=position,
                state="FAILED" if failed else "SUCCEEDED",
                startup_s=None if failed else 24.5 + position,
                failure_class="CONFIG" if failed else None,
                failure="Unsupported speculative method: 'mtp'" if failed else None,
                log_sha256="f" * 64,
                memory={} if failed else {"KV cache size": "599,168 tokens"},
            )


def _costs(failed_arm: str | None) -> Iterator[DraftCost]:
    for arm, tokens in (("ngram-k4", "699,008 tokens"), ("draft-k4", "599,168 tokens")):
        failed = arm == failed_arm
        yield DraftCost(
            arm=arm,
            startup_s=estimate(None if failed else 25.5, "s"),
            baseline_startup_s=estimate(24.5, "s"),
            kv_cache_tokens=None if failed else tokens,
            baseline_kv_cache_tokens="699,008 tokens",
        )
