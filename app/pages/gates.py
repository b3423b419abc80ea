"""Which gate a reason of an INVALID verdict belongs to, and what to do about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.control import Control


@dataclass(frozen=True, slots=True)
class BrokenGate:
    """One gate with everything that was found against it."""

    name: str
    found: tuple[str, ...]
    remedy: str


_HOST: Final = "Something else uses the host: stop it or take a host of your own, then repeat the experiment."
_ENGINE: Final = "The engine or its version is at fault: read the raw scrapes of that run, and try another version."
_CONTROLS: Final = {
    "client lateness": "The client sent too late. Give it more cores, or offer less load (verdraft calibrate).",
    "failed requests": "Read the run's failed requests and the engine's log; lower the load if it was refused work.",
    "one observation per request": "The recording is incomplete: repeat the run.",
    "engine counters": "The engine's counters were not read: repeat with a worker that reaches its /metrics.",
    "reconciliation": _ENGINE,
    "per-request counts": _ENGINE,
    "accounting identities": _ENGINE,
    "counter continuity": _ENGINE,
    "target-only does not speculate": "Target-only must not draft: read its start-up log.",
    "warm-up": "Lengthen the warm-up set, and give it every shape of the workload.",
    "acceptance in time": "Look at the run's timeline: a proposer that fails beyond some length shows as a step.",
    "same prompts": "The arms did not get the same prompts: check that they share tokenizer and chat template.",
    "the arm speculates": "The arm drafted nothing: check its method, and that the workload has something to draft.",
    "prefix cache is off": "Switch the prefix cache off in the runtime too, or state prefix_caching: true.",
    "prefix-hit parity": "Give each load prompts of its own, so that no arm finds another cache.",
    "throttling": "The GPU was held down: wait for it to cool, or lock the clocks for all arms.",
    "foreign GPU processes": "Another process uses the GPU: stop it, then repeat the experiment.",
    "clock jump": "The host's clock was set while it ran: repeat the run.",
    "foreign CPU": _HOST,
    "stolen CPU": _HOST,
}
"""By the control's name, or its part before the colon."""

_PATTERNS: Final = (
    (r"prompts of .* are not real text", "real text", "Join the trace with real prompts of the same lengths."),
    (
        r"\bdid not complete \(",
        "every run completed",
        "Read the log of that server; fix the arm or the host and repeat. A failed arm never stops the others.",
    ),
    (
        r"\bwarned \(|\bresolved (?:method|speculation|\S+ speculative tokens)|speculative counters|on the canary",
        "started as asked",
        "The server did not do what the arm asks: read its start-up log, then change the arm or the runtime.",
    ),
    (
        r"resolved configuration|the configuration of target-only",
        "arms differ in speculation alone",
        "State the setting in the manifest's serving, so that every arm gets the same.",
    ),
    (
        r"greedy|did not survive its verification",
        "greedy equality",
        "The outputs are not the target's: read the mismatches, and do not deploy this arm on this runtime.",
    ),
    (
        r"acceptance is lossy",
        "lossless acceptance",
        "Use rejection_sampling: standard, if the outputs are to stay the target's.",
    ),
    (
        r"sampl",
        "sampled equality",
        "The samples are not the target's: read which test rejects under the sampled answers.",
    ),
    (r"correct|degenerate", "answers stay right", "Read what was delivered: the arm's answers got worse."),
)
_OTHER: Final = ("validity", "Read what was found, fix it, and repeat the experiment.")
_PLACE: Final = re.compile(r"^block \d+, [^:]+: ")


def broken_gates(reasons: Sequence[str], findings: Sequence[Control]) -> tuple[BrokenGate, ...]:
    """The reasons by gate, in their order."""
    controls = {c.words: c.name for c in findings if c.words}
    found: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        found.setdefault(_gate(reason, controls.get(_PLACE.sub("", reason))), []).append(reason)
    return tuple(BrokenGate(name, tuple(said), remedy) for (name, remedy), said in found.items())


def _gate(reason: str, control: str | None) -> tuple[str, str]:
    if control is not None:
        remedy = _CONTROLS.get(control) or _CONTROLS.get(control.partition(":")[0]) or _OTHER[1]
        return control, remedy
    return next(((name, remedy) for pattern, name, remedy in _PATTERNS if re.search(pattern, reason)), _OTHER)
