"""Is the engine there, can it be asked, is it safe, and is the host the one that was pinned?"""

from collections.abc import Mapping
from typing import Any

from app.domain.engine_version import SECURITY_FLOOR, floor_reason, schema_of, version_of_runtime
from app.domain.errors import DomainError
from app.domain.preflight.case import NOWHERE, ArmCase, Case
from app.domain.preflight.outcome import Check, Topic


def introspected(case: Case, topic: Topic) -> Check:
    """The host has the runtime and the runtime describes itself."""
    found = case.stated_runtime
    if case.host is NOWHERE:
        reason = f"no worker has published {case.manifest.runtime}; one checks again before the first session"
        return topic.cannot_say(reason, "start a worker that has it, to know now")
    if found is None:
        here = ", ".join(r.ref for r in case.host.runtimes) or "none"
        return topic.fails(
            f"{case.manifest.runtime} is not on this host (here: {here})", "install it, or pin one of these"
        )
    if found.unavailable is not None:
        return topic.cannot_say(
            f"the runtime could not be asked: {found.unavailable}", "repair it: see `verdraft runtime list`"
        )
    return topic.passes(
        f"{found.package} {found.version} describes itself: {len(found.methods)} methods, on {found.device}"
    )


def security_floor(case: Case, topic: Topic) -> Check:
    """The engine has no published hole, or the manifest says why it is run all the same."""
    version, accepted = version_of_runtime(case.manifest.runtime), case.manifest.engine_below_floor
    try:
        reason = floor_reason(version)
    except DomainError as error:
        return topic.cannot_say(f"the version cannot be read: {error}")
    if not reason:
        return topic.passes(f"vLLM {version} is not older than {SECURITY_FLOOR}")
    if accepted is None:
        return topic.refuses(reason, f"use {SECURITY_FLOOR} or newer, or say why in engine_below_floor")
    return topic.passes(f"{reason}; accepted, because: {accepted}")


def serve_flags(case: Case, topic: Topic) -> Check:
    """``vllm serve`` has every flag of a launch."""
    runtime = case.runtime
    if runtime is None or not runtime.serve_flags:
        return no_runtime(topic)
    missing = schema_of(runtime.version, runtime.serve_flags).missing_flags(runtime.serve_flags)
    if missing:
        return topic.fails(f"vLLM {runtime.version} lacks {', '.join(missing)}", "use a runtime that has them")
    return topic.passes("the engine has every flag that a launch states")


def hardware(case: Case, topic: Topic) -> Check:
    """The accelerator, its number and its topology are the pinned ones."""
    return _pinned(topic, case.manifest.hardware.model_dump(mode="json"), case.host.hardware)


def software(case: Case, topic: Topic) -> Check:
    """Driver, CUDA, distribution and kernel are the pinned ones."""
    return _pinned(topic, case.manifest.software.model_dump(mode="json"), case.host.software)


def _pinned(topic: Topic, pinned: Mapping[str, Any], here: Mapping[str, Any]) -> Check:
    unknown = [name for name in pinned if name not in here]
    differing = [name for name in pinned if name in here and here[name] != pinned[name]]
    if differing:
        said = "; ".join(f"the manifest says {n} {pinned[n]!r}, the host {here[n]!r}" for n in differing)
        return topic.at(f"{topic.field}.{differing[0]}").fails(said, "run it where it was pinned, or pin this host")
    if unknown:
        return topic.cannot_say(f"the host does not say its {', '.join(unknown)}")
    return topic.passes("the host is the pinned one")


def no_runtime(topic: Topic) -> Check:
    """The answer of every check that would have to ask the engine."""
    return topic.cannot_say("the runtime has not described itself")


def version_of(arm: ArmCase) -> str:
    """The engine's version, for words."""
    return version_of_runtime(arm.case.manifest.runtime)
