"""What a verdict rests on, pin by pin, and what has become of each: at present, or in another experiment.

A verdict whose pins can no longer be met anywhere is EXPIRED: nothing says that it would come out again.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from app.domain.capability import HostCapability
from app.domain.manifest import Manifest
from app.domain.references import NO_DRAFT
from app.domain.vocabulary import BASELINE_ARM


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pin(_Frozen):
    """One thing that must stay as it was."""

    what: str
    value: str
    expires: str
    """What would end the verdict."""


class Standing(StrEnum):
    """Whether a verdict still speaks of what is there."""

    CURRENT = "CURRENT"
    EXPIRED = "EXPIRED"
    UNKNOWN = "UNKNOWN"
    """Nothing is known of what is there."""


class PinChange(_Frozen):
    """A pin that is no longer what it was."""

    what: str
    was: str
    now: str


class Expiry(_Frozen):
    """A verdict held against what is there. It is of the moment, and no part of the evidence."""

    standing: Standing
    against: str
    """The host or the experiment that it was held against."""
    changes: tuple[PinChange, ...] = ()
    sentence: str


_ENGINE: Final = "another version, or another build of the same version"
_MODEL: Final = "other weights or files, even under the same name"
_HOST: Final = "other hardware"
_SYSTEM: Final = "an update of the host"
_STACK: Final = "other settings of the engine"
_TRAFFIC: Final = "other requests, arrivals or loads than those that were replayed"
_JUDGED: Final = "other objectives, or another version of the analysis"
_OF_ARM, _OF_WORKLOAD, _OF_LOAD = "arm ", "workload ", "load "
_PARTIAL: Final = (_OF_ARM, _OF_WORKLOAD, _OF_LOAD)
"""An experiment may have fewer of these without contradicting another."""


def pins_of(manifest: Manifest, analysis_version: str) -> tuple[Pin, ...]:
    """Everything, what changes most often first."""
    return tuple(Pin(what=what, value=value, expires=why) for what, value, why in _pins(manifest, analysis_version))


def against_experiment(manifest: Manifest, other: Manifest, analysis_version: str, theirs: str) -> Expiry:
    """What another experiment pins otherwise. What only one of the two looks at is no contradiction."""
    was, now = (
        {pin.what: pin.value for pin in pins_of(one, version)}
        for one, version in ((manifest, analysis_version), (other, theirs))
    )
    changes = [
        PinChange(what=what, was=was.get(what, "not stated"), now=now.get(what, "not stated"))
        for what in was | now
        if was.get(what) != now.get(what) and ((what in was and what in now) or not what.startswith(_PARTIAL))
    ]
    mine, others = _named(manifest), _named(other)
    if mine.isdisjoint(others):
        said = (", ".join(sorted(names)) for names in (mine, others))
        changes.append(PinChange(what="workloads", **dict(zip(("was", "now"), said, strict=True))))
    return _expiry(f"experiment {other.name} ({other.digest[:12]})", changes)


def against_hosts(manifest: Manifest, hosts: Mapping[str, HostCapability]) -> Expiry:
    """Against what workers have published: the host that comes nearest decides."""
    told = {name: tuple(_host_changes(manifest, host)) for name, host in hosts.items() if host.runtimes}
    if not told:
        sentence = "No worker has published what it can run: whether the verdict still holds cannot be said."
        return Expiry(standing=Standing.UNKNOWN, against="no host", sentence=sentence)
    nearest = min(sorted(told), key=lambda name: len(told[name]))
    return _expiry(f"host {nearest}", told[nearest])


def _expiry(against: str, changes: Sequence[PinChange]) -> Expiry:
    if not changes:
        sentence = f"Held against {against}: every pin that it tells is as it was."
        return Expiry(standing=Standing.CURRENT, against=against, sentence=sentence)
    said = "; ".join(f"{c.what} was {c.was}, is {c.now}" for c in changes)
    sentence = f"EXPIRED, held against {against}: {said}. Measure it again there."
    return Expiry(standing=Standing.EXPIRED, against=against, changes=tuple(changes), sentence=sentence)


def _host_changes(manifest: Manifest, host: HostCapability) -> Iterator[PinChange]:
    """What is simply not there yet, a model or a fact that the host does not tell, is no change."""
    runtimes = [runtime.ref for runtime in host.runtimes]
    if manifest.runtime not in runtimes:
        yield PinChange(what="engine", was=manifest.runtime, now=", ".join(runtimes))
    models = {model.ref for model in host.models}
    for what, reference in _models(manifest):
        same_name = sorted(ref for ref in models if ref.partition("@")[0] == reference.partition("@")[0])
        if reference not in models and same_name:
            yield PinChange(what=what, was=reference, now=", ".join(same_name))
    parts: tuple[tuple[BaseModel, Mapping[str, Any]], ...] = (
        (manifest.hardware, host.hardware),
        (manifest.software, host.software),
    )
    for pinned, here in parts:
        for name, value in pinned.model_dump(mode="json").items():
            if name in here and here[name] != value:
                yield PinChange(what=_PART.get(name, name), was=str(value), now=str(here[name]))


_PART: Final = {"count": "accelerators", "os": "operating system"}
"""Fields of the host in words; the others are words already."""


def _models(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "target", manifest.target_model
    yield "tokenizer", manifest.target_tokenizer
    for arm in manifest.arms:
        if arm.draft_or_speculator != NO_DRAFT:
            yield f"{_OF_ARM}{arm.name}: draft", arm.draft_or_speculator


def _pins(manifest: Manifest, analysis_version: str) -> Iterator[tuple[str, str, str]]:
    yield "engine", manifest.runtime, _ENGINE
    for what, reference in _models(manifest):
        yield what, reference, _MODEL
    for name, value in _stated(manifest.files):
        yield f"file {name}", value, _MODEL
    for name, value in _stated(manifest.hardware):
        yield _PART.get(name, name), value, _HOST
    for name, value in _stated(manifest.software):
        yield _PART.get(name, name), value, _SYSTEM
    for part, values in (("serving", manifest.serving), ("sampling", manifest.sampling)):
        yield from ((f"{part} {name}", value, _STACK) for name, value in _stated(values))
    for arm in manifest.arms:
        yield f"{_OF_ARM}{arm.name}: speculation", arm.speculation.model_dump_json(exclude_none=True), _STACK
        if not arm.speculates and arm.name != BASELINE_ARM:  # of no other may it be stated
            yield f"{_OF_ARM}{arm.name}: as deployed", "yes" if arm.as_deployed else "no", _STACK
    for workload in manifest.workloads:
        yield f"{_OF_WORKLOAD}{workload.name}", workload.trace, _TRAFFIC
    for load in manifest.loads:
        yield f"{_OF_LOAD}{load.name}", load.offered, _TRAFFIC
    yield "objectives", manifest.slo.model_dump_json(), _JUDGED
    yield "margins", manifest.margins.model_dump_json(), _JUDGED
    yield "analysis", analysis_version, _JUDGED


def _stated(values: BaseModel | None) -> Iterator[tuple[str, str]]:
    if values is not None:
        yield from ((name, str(value)) for name, value in values.model_dump(mode="json", exclude_none=True).items())


def _named(manifest: Manifest) -> set[str]:
    return {workload.name for workload in manifest.workloads}
