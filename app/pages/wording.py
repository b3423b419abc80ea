"""How numbers, states and verdicts are written: one rule each, used by every template."""

import re
from datetime import UTC, datetime

from app.domain.report import Estimate
from app.domain.vocabulary import VerdictWord

UNKNOWN = "–"  # noqa: RUF001  (an en dash is meant)
TIMES = "×"  # noqa: RUF001  (the sign is meant)
NEARLY_ALL = 0.99
SMALLEST_P = 0.001
KILO = 1000
DECIMALS = ((100, 0), (10, 1), (1, 2))
"""From this size on, so many decimals."""
SYMBOLS = {
    VerdictWord.HELPS: "▲",
    VerdictWord.HURTS: "▼",
    VerdictWord.EQUIVALENT: "=",
    VerdictWord.INCONCLUSIVE: "?",
    VerdictWord.INVALID: "✕",
}
METRIC_WORDS = {
    "request_speedup": "E2E speed-up (p50)",
    "request_total_speedup": "E2E speed-up (mean)",
    "tpot_speedup": "TPOT speed-up (p50)",
    "ttft_speedup": "TTFT speed-up (p50)",
    "throughput_ratio": "Output throughput ratio",
    "goodput_ratio": "Goodput ratio",
}
_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PICTURES = 0x2400
_C0 = 0x20
_SYMBOL_RETURN = "\u240d"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def number(value: float | None) -> str:
    """About three significant digits, thousands separated, never in exponent form."""
    if value is None:
        return UNKNOWN
    if float(value).is_integer():
        return f"{value:,.0f}"
    decimals = next((digits for bound, digits in DECIMALS if abs(value) >= bound), 3)
    return f"{value:,.{decimals}f}"


def chance(p: float | None) -> str:
    """A p value; never ``0.000``."""
    return "<0.001" if p is not None and p < SMALLEST_P else number(p)


def quantity(value: float | None, unit: str) -> str:
    """A number in the form its unit asks for: ``1.32`` and the times sign for a ratio, ``81.0%`` for a share."""
    if value is None:
        return UNKNOWN
    if unit == "share":
        return f"{100 * value:.2f}%" if NEARLY_ALL < value < 1 else f"{100 * value:.1f}%"
    if unit == "ratio":
        return f"{value:.2f}{TIMES}"
    return number(value)


def interval(estimate: Estimate) -> str:
    """``[low, high]``, or nothing where no interval can be given."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{quantity(estimate.low, estimate.unit)}, {quantity(estimate.high, estimate.unit)}]"


def provenance(estimate: Estimate) -> str:
    """Where an estimate comes from, for its tooltip."""
    confidence = f"{100 * estimate.confidence:g}% interval, " if estimate.confidence else ""
    return f"{confidence}n = {estimate.n}; {estimate.source}" + (f"; {estimate.why}" if estimate.why else "")


def duration(seconds: float | None) -> str:
    """``1 h 05 min``, ``4 min 10 s`` or ``8 s``."""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def moment(at: datetime | None) -> str:
    """A wall-clock time in UTC, to the minute."""
    return UNKNOWN if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def second(at: datetime) -> str:
    """A wall-clock time in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def size(count: int | None) -> str:
    """``12.4 MB``: bytes in the largest decimal unit that leaves at least one."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < KILO:
            return f"{number(value)} {unit}"
        value /= KILO
    return f"{number(value)} TB"


def printable(text: str) -> str:
    """Text without terminal sequences, control and direction-changing characters (method C3, item 20)."""
    return _CONTROL.sub("", _TERMINAL_SEQUENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def first_sentence(text: str) -> tuple[str, str]:
    """What is said first, for a headline, and the rest of it: a reservation is a sentence of its own."""
    first, stop, rest = text.partition(". ")
    claim, reserved, reservation = first.partition("; but ")
    if reserved:
        return f"{claim}.", f"But {reservation}{stop}{rest}"
    return first + stop.strip(), rest


def visible(text: str) -> str:
    """Untrusted text in full: what ``printable`` leaves out is shown as a symbol instead, so that nothing hides."""
    return _CONTROL.sub(_symbol, text.replace("\r", _SYMBOL_RETURN))


def short(digest: str) -> str:
    """The first 12 digits of a digest, as in page addresses."""
    return digest[:12]


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(_PICTURES + code) if code < _C0 else "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"  # noqa: PLR2004
