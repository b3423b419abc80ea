"""The dials of the fake vLLM, read from ``fake.json`` in the target model's directory.

They are the known truth that an analysis has to recover. Absent file or key: the default.
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from tests.fakes.wrongs import Wrong, read_wrongs

FILE_NAME = "fake.json"
TARGET_ONLY = "target_only"
EVERY_METHOD = "*"


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. Requests are counted from 1 and the canary is one of them; 0 means never."""

    die_at_startup: bool = False
    oom_text: bool = False
    """Die at start-up with the log of a failed allocation."""
    hang_at_startup: bool = False
    slow_start_s: float = 0.0
    die_after_requests: int = 0
    """The engine dies in the middle of the answer to the request after these."""
    freeze_after_requests: int = 0
    """The engine stands still from then on, while ``/health`` and ``/metrics`` answer as ever."""
    flood_after_requests: int = 0
    """The log then grows by a mebibyte every few milliseconds."""
    stream_error_every: int = 0
    truncate_every: int = 0
    ignore_sigterm: bool = False
    slow_stop_s: float = 0.0
    """Between SIGTERM and the end."""
    orphan: bool = False
    """Leave a doubly forked child in a session of its own that outlives the server by a minute."""
    wrong_metrics: bool = False
    """Each request's accepted tokens are counted one too high in ``/metrics``."""


@dataclass(frozen=True, slots=True)
class Dials:
    """Times in milliseconds; maps are by vLLM's method name, ``target_only`` or ``*``."""

    seed: int = 0
    vocabulary: int = 4096
    ttft_ms: float = 4.0
    step_ms: dict[str, float] = field(default_factory=lambda: {EVERY_METHOD: 2.0})
    noise: float = 0.0
    """Standard deviation of the logarithm of each step's duration."""
    session_noise: float = 0.0
    """The same for one factor drawn per server (by seed, method and socket path)."""
    slowdown_per_running: float = 0.0
    """Each further running request makes a step longer by this fraction."""
    acceptance: dict[str, list[float]] = field(default_factory=lambda: {EVERY_METHOD: [0.8, 0.7, 0.6, 0.5]})
    """Probability that position j is accepted given that j - 1 was; the last one holds for all further positions."""
    draft_rate: dict[str, float] = field(default_factory=lambda: {EVERY_METHOD: 1.0})
    """Probability that a step has a draft at all (ngram finds no match, say)."""
    mismatch_arms: dict[str, float] = field(default_factory=dict[str, float])
    """Fraction of prompts whose second half differs from the other arms'."""
    wrongs: dict[str, Wrong] = field(default_factory=dict[str, Wrong])
    """How a method's answers go wrong; the target's forced choices know every method's gap."""
    faults: dict[str, Faults] = field(default_factory=dict[str, Faults])
    resolves: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Settings that the engine resolves otherwise than asked, as ``section.key`` (or ``env.NAME``) → value."""
    warns: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Warnings in the start-up log."""
    hides: list[str] = field(default_factory=list[str])
    """Names of metrics that ``/metrics`` does not have."""
    exposes_speculation: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether speculative counters are there; unless said otherwise, where there is speculation."""
    samples: bool = False
    """Whether a temperature above 0 is honoured, with the known distribution of ``sampling``; else all is greedy."""
    heat: dict[str, float] = field(default_factory=dict[str, float])
    """Times the temperature that was asked for."""
    takes_top: dict[str, float] = field(default_factory=dict[str, float])
    """Fraction of sampled tokens that are the most probable one whatever chance says."""
    has_server_info: bool = True
    is_faithful: bool = False
    """Serve a small model that honours every parameter, instead of simulating times (see ``faithful``)."""
    record_to: str = ""
    """A file to which everything that is posted is appended (see ``recorder``)."""

    def step_ms_of(self, method: str) -> float:
        return _of(self.step_ms, method, 2.0)

    def acceptance_of(self, method: str, position: int) -> float:
        conditional = _of(self.acceptance, method, [0.0])
        return conditional[min(position, len(conditional) - 1)]

    def draft_rate_of(self, method: str) -> float:
        return _of(self.draft_rate, method, 1.0)

    def mismatch_of(self, method: str) -> float:
        return _of(self.mismatch_arms, method, 0.0)

    def resolves_of(self, method: str) -> dict[str, Any]:
        return _of(self.resolves, method, dict[str, Any]())

    def warns_of(self, method: str) -> list[str]:
        return _of(self.warns, method, list[str]())

    def exposes_speculation_of(self, method: str) -> bool:
        return _of(self.exposes_speculation, method, method != TARGET_ONLY)

    def heat_of(self, method: str) -> float:
        return _of(self.heat, method, 1.0)

    def takes_top_of(self, method: str) -> float:
        return _of(self.takes_top, method, 0.0)

    def faults_of(self, method: str) -> Faults:
        return _of(self.faults, method, Faults())


T = TypeVar("T")


def _of(by_method: dict[str, T], method: str, default: T) -> T:
    return by_method.get(method, by_method.get(EVERY_METHOD, default))


def read_dials(model_directory: Path) -> Dials:
    """The dials of a model directory. Unknown keys raise ``ValueError``: a typo must not pass as a default."""
    path = model_directory / FILE_NAME
    if not path.exists():
        return Dials()
    document: dict[str, Any] = json.loads(path.read_text())
    _refuse_unknown(document, Dials)
    wrongs = read_wrongs(document.pop("wrongs", {}))
    faults: dict[str, dict[str, Any]] = document.pop("faults", {})
    for fault in faults.values():
        _refuse_unknown(fault, Faults)
    return Dials(**document, wrongs=wrongs, faults={method: Faults(**fault) for method, fault in faults.items()})


def _refuse_unknown(document: dict[str, Any], kind: type[Dials] | type[Faults]) -> None:
    unknown = document.keys() - {f.name for f in fields(kind)}
    if unknown:
        raise ValueError(f"{FILE_NAME}: unknown dials {', '.join(sorted(unknown))}")
