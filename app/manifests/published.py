"""What a running service offers a new manifest: its workers' runtimes, models and hosts, and the stored traces.

Nothing is chosen for the user where there is a choice; documents that are not in the published form offer nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.vocabulary import Regime

_HOST: Final = ("hardware", "software")


@dataclass(frozen=True, slots=True)
class Published:
    """References by kind, the first host that has a runtime, and all traces with the first one's loads."""

    runtimes: Sequence[str] = ()
    models: Sequence[str] = ()
    hardware: Mapping[str, Any] = field(default_factory=dict[str, Any])
    software: Mapping[str, Any] = field(default_factory=dict[str, Any])
    workloads: Sequence[Mapping[str, Any]] = ()
    loads: Sequence[Mapping[str, Any]] = ()


def published(workers: Sequence[Mapping[str, Any]], traces: Sequence[Mapping[str, Any]]) -> Published:
    """From the API's capabilities and traces."""
    documents = [document for worker in workers if isinstance(document := worker.get("document"), dict)]
    host = next((document for document in documents if _refs(document, "runtimes")), {})
    hardware, software = ({} if not isinstance(host.get(part), dict) else host[part] for part in _HOST)
    loads = _loads(traces[0]) if traces else []
    return Published(
        runtimes=list(dict.fromkeys(ref for document in documents for ref in _refs(document, "runtimes"))),
        models=list(dict.fromkeys(ref for document in documents for ref in _refs(document, "models"))),
        hardware=hardware,
        software=software,
        workloads=[{"name": trace["name"], "trace": trace["digest"]} for trace in traces if _loads(trace) == loads],
        loads=loads,
    )


def named(wish: str, refs: Sequence[str]) -> str:
    """The published reference that ``wish`` begins or is the alias of; else ``wish`` itself."""
    return next((ref for ref in refs if wish and ref.startswith((wish, f"local:{wish}@"))), wish)


def only(refs: Sequence[str]) -> str:
    """The one reference there is; empty where there is a choice."""
    return refs[0] if len(refs) == 1 else ""


def _refs(document: Mapping[str, Any], part: str) -> list[str]:
    entries: Any = document.get(part)
    return [str(e["ref"]) for e in entries if isinstance(e, dict) and "ref" in e] if isinstance(entries, list) else []


def _loads(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trace's own load points; the first is taken for the latency regime."""
    return [_load(load, latency=index == 0) for index, load in enumerate(trace["header"]["loads"])]


def _load(load: Mapping[str, Any], *, latency: bool) -> dict[str, Any]:
    closed = {"kind": "closed_loop", "clients": load.get("clients")}
    offered_as = closed if load.get("rate_rps") is None else {"rate_rps": load["rate_rps"]}
    return {"name": load["name"], "regime": str(Regime.LATENCY if latency else Regime.SERVING), **offered_as}
