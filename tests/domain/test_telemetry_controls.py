import pytest

from app.domain.control import ControlOutcome, Finding
from app.domain.series import (
    CLOCK_OFFSET,
    FOREIGN_CPU,
    FOREIGN_PROCESSES,
    STOLEN_CPU,
    TEMPERATURE,
    THROTTLE_REASONS,
    Series,
)
from app.domain.telemetry_controls import telemetry_findings

S = 1_000_000_000
IDLE, POWER_CAP = 0x1, 0x4


def sampled(name: str, *values: float, device: str | None = None, period_ns: int = S) -> Series:
    labels = {} if device is None else {"device": device}
    return Series(name=name, labels=labels, at_ns=tuple(i * period_ns for i in range(len(values))), values=values)


def found(*series: Series, **reasons: str) -> dict[str, Finding]:
    return {finding.name: finding for finding in telemetry_findings(series, reasons)}


def throttled(*bits: int, of: int, device: str = "GPU-0") -> Series:
    return sampled(THROTTLE_REASONS, *bits, *[IDLE] * (of - len(bits)), device=device)


def test_a_quiet_run_passes_everything_without_a_word() -> None:
    quiet = found(
        throttled(of=100),
        sampled(FOREIGN_PROCESSES, 0, 0, device="GPU-0"),
        sampled(TEMPERATURE, 40, 44, 43, device="GPU-0"),
        sampled(CLOCK_OFFSET, 1.79e18, 1.79e18),
        sampled(FOREIGN_CPU, 5.0, 5.05),
        sampled(STOLEN_CPU, 0.0, 0.0),
    )
    assert {finding.outcome for finding in quiet.values()} == {ControlOutcome.PASS}
    assert {finding.words for finding in quiet.values()} == {""}
    assert quiet["temperature rise"].figure == 4
    assert (quiet["foreign CPU"].figure, quiet["foreign CPU"].threshold) == (pytest.approx(0.05), 0.10)
    assert len(quiet) == 8


@pytest.mark.parametrize("bit", [0x8, 0x20, 0x40, 0x80])
def test_a_slowdown_in_more_than_a_hundredth_of_the_samples_fails(bit: int) -> None:
    once, twice = found(throttled(bit, of=100)), found(throttled(bit | IDLE, bit, of=100))
    assert (once["throttling"].outcome, once["throttling"].figure) == (ControlOutcome.PASS, 0.01)
    assert (twice["throttling"].outcome, twice["throttling"].figure) == (ControlOutcome.FAIL, 0.02)
    assert twice["throttling"].words.startswith("clocks of GPU-0 were held down in 2.0% of 100 samples: ")


@pytest.mark.parametrize("bit", [0x1, 0x2, 0x4, 0x10, 0x100])
def test_other_reasons_are_no_slowdown(bit: int) -> None:
    assert found(throttled(*[bit] * 100, of=100))["throttling"].figure == 0


def test_the_power_cap_is_stated_and_decides_nothing() -> None:
    finding = found(throttled(*[POWER_CAP] * 90, of=100))["power cap"]
    assert (finding.outcome, finding.figure, finding.threshold) == (ControlOutcome.PASS, 0.9, None)


def test_the_words_name_what_held_the_clocks_down_and_where() -> None:
    finding = found(throttled(of=10), throttled(0x8, 0x48, of=10, device="GPU-1"))["throttling"]
    assert finding.words == (
        "clocks of GPU-1 were held down in 20.0% of 10 samples: hardware slowdown, thermal slowdown by hardware"
    )


def test_one_stranger_in_one_sample_fails() -> None:
    finding = found(sampled(FOREIGN_PROCESSES, 0, 0, 1, 0, device="GPU-0"))["foreign GPU processes"]
    assert (finding.outcome, finding.figure) == (ControlOutcome.FAIL, 1)
    assert "GPU-0" in finding.words


@pytest.mark.parametrize(("moved_ms", "outcome"), [(99, ControlOutcome.PASS), (-3_600_000, ControlOutcome.WARN)])
def test_a_clock_that_is_set_either_way_warns(moved_ms: int, outcome: ControlOutcome) -> None:
    offset = 1_790_000_000_000_000_000
    finding = found(sampled(CLOCK_OFFSET, offset, offset, offset + moved_ms * 1_000_000))["clock jump"]
    assert (finding.outcome, finding.figure) == (outcome, pytest.approx(abs(moved_ms), rel=1e-3))


def test_a_busy_host_and_a_stolen_one_warn_by_the_second() -> None:
    busy = found(sampled(FOREIGN_CPU, 10, 10.5, 11, period_ns=2 * S), sampled(STOLEN_CPU, 0, 0.1, period_ns=4 * S))
    assert (busy["foreign CPU"].outcome, busy["foreign CPU"].figure) == (ControlOutcome.WARN, 0.25)
    assert (busy["stolen CPU"].outcome, busy["stolen CPU"].figure) == (ControlOutcome.WARN, 0.025)
    assert busy["foreign CPU"].words == "other programs took 0.25 cores of this host on average"


def test_what_was_not_sampled_is_not_checkable_with_its_reason() -> None:
    missing = found(**{THROTTLE_REASONS: "GPU-0: Not Supported"})
    assert {finding.outcome for finding in missing.values()} == {ControlOutcome.NOT_CHECKABLE}
    assert missing["throttling"].words == missing["power cap"].words == "GPU-0: Not Supported"
    assert all(finding.words for finding in missing.values())


def test_one_sample_says_nothing_of_what_happened_since() -> None:
    finding = found(sampled(FOREIGN_CPU, 7.0))["foreign CPU"]
    assert (finding.outcome, finding.figure) == (ControlOutcome.NOT_CHECKABLE, None)


def test_a_silent_sampler_and_what_was_missing_for_a_while_are_said() -> None:
    offsets = Series(name=CLOCK_OFFSET, at_ns=(0, S, 9 * S), values=(1.0, 1.0, 1.0))
    lost = "GPU-0: GPU is lost (for 3.0 s)"
    finding = found(offsets, sampled(TEMPERATURE, 40, 41), **{TEMPERATURE: lost, THROTTLE_REASONS: lost})["telemetry"]
    assert (finding.outcome, finding.figure, finding.threshold) == (ControlOutcome.WARN, 8, 5)
    assert finding.words == f"nothing was sampled for 8.0 s; {TEMPERATURE} only in part: {lost}"
