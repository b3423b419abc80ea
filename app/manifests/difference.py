"""Where two manifests differ, field by field; arms, workloads and loads are matched by their names."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from app.domain.manifest import Manifest

_NAMED: Final = ("arms", "workloads", "loads")


class Difference(NamedTuple):
    """One field; ``None`` on the side that does not have it."""

    field: str
    left: Any
    right: Any


def differences(left: Manifest, right: Manifest) -> tuple[Difference, ...]:
    """Every differing field; nothing exactly where the digests agree."""
    documents = [manifest.model_dump(mode="json", exclude_none=True) for manifest in (left, right)]
    before, after = (dict(_leaves(document, "")) for document in documents)
    fields = [*before, *(field for field in after if field not in before)]
    changed = [Difference(field, before.get(field), after.get(field)) for field in fields]
    return (*(d for d in changed if d.left != d.right), *_orders(*documents))


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{where}.{key}".lstrip("."))
    elif where in _NAMED:
        for item in value:
            yield from _leaves(item, f"{where}[{item['name']}]")
    else:
        yield where, value


def _orders(left: dict[str, Any], right: dict[str, Any]) -> Iterator[Difference]:
    """The order of arms is part of a manifest: the schedule is drawn over it."""
    for field in _NAMED:
        before, after = ([item["name"] for item in document[field]] for document in (left, right))
        if before != after and sorted(before) == sorted(after):
            yield Difference(f"{field} (order)", before, after)
