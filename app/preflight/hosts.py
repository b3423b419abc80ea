"""The hosts that workers have described, as values; a document of another form describes none."""

from collections.abc import Iterable

from pydantic import ValidationError

from app.domain.capability import HostCapability
from app.evidence.schemas import CapabilityRead


def hosts_of(published: Iterable[CapabilityRead]) -> dict[str, HostCapability]:
    """Worker → its host. A worker of an older release may have published a form that is no longer read."""
    return {seen.worker: host for seen in published if (host := _host(seen)) is not None}


def _host(published: CapabilityRead) -> HostCapability | None:
    try:
        return HostCapability.model_validate(published.document)
    except ValidationError:
        return None
