"""A server's breakdown beside what was in use at most while it ran, and what the rows then leave unexplained."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from app.domain.memory import MemoryBreakdown, MemoryCheck, MemoryPart, MemoryRow, Told
from app.domain.memory_breakdown import NO_PEAK, as_bound, pair_of
from app.domain.series import DEVICE_MEMORY, ENGINE_DEVICE_MEMORY, ENGINE_RSS, Series, having

_NOT_USED: Final = frozenset({MemoryPart.REMAINDER, MemoryPart.HEADROOM})


def at_peak(made: MemoryBreakdown, series: Iterable[Series]) -> MemoryBreakdown:
    """The breakdown beside what was in use at most: of the devices, or on a CPU of the engine's processes."""
    sampled = tuple(series)
    total = _peak(sampled)
    made = made.model_copy(update={"rows": tuple(map(as_bound, made.rows))})
    if total.size is None:
        return made
    explained = sum(row.size_bytes or 0 for row in made.rows if row.part not in _NOT_USED and not row.at_most)
    words = f"the peak in use less the rows above{''.join(_left_in(made.rows))}"
    room = None if made.capacity_bytes is None else made.capacity_bytes - total.size
    found = {
        MemoryPart.REMAINDER: Told(total.size - explained, words),
        MemoryPart.HEADROOM: Told(room, "capacity less the peak in use" if room is not None else "capacity unknown"),
    }
    rows = tuple(found[row.part].row(row.part) if row.part in found else row for row in made.rows)
    checks = (*made.checks, *_peak_checks(sampled, total))
    return made.model_copy(
        update={"rows": rows, "total_bytes": total.size, "total_source": total.source, "checks": checks}
    )


def _left_in(rows: Sequence[MemoryRow]) -> Iterator[str]:
    """What the remainder holds."""
    bounds = [row.part.value for row in rows if row.at_most]
    if bounds:
        yield f", without {', '.join(bounds)}, of which it holds what was in use"
    if silent := [row.part.value for row in rows if row.size_bytes is None and row.part not in _NOT_USED]:
        yield f"; holds {', '.join(silent)}"


def _peak(series: Sequence[Series]) -> Told:
    devices = tuple(s for s in having(series, DEVICE_MEMORY) if s.values)
    if devices:
        each = _peaks(devices)
        what = "memory in use" if len(each) == 1 else f"memory in use of {len(each)} GPUs, each one's own peak"
        return Told(sum(each), f"NVML, {what}, the highest of {_samples(devices)} samples")
    processes = tuple(s for s in having(series, ENGINE_RSS) if s.values)
    if not processes:
        return Told(None, NO_PEAK)
    words = f"resident memory of the engine's processes, the highest of {_samples(processes)} samples"
    return Told(int(max(max(s.values) for s in processes)), words)


def _samples(series: Iterable[Series]) -> int:
    return sum(len(s.values) for s in series)


def _peaks(series: Iterable[Series]) -> list[int]:
    """Of each device its highest value, over every run that sampled it."""
    highest: dict[frozenset[tuple[str, str]], int] = {}
    for one in series:
        key = frozenset(one.labels.items())
        highest[key] = max(highest.get(key, 0), int(max(one.values)))
    return list(highest.values())


def _peak_checks(series: Sequence[Series], total: Told) -> Iterator[MemoryCheck]:
    if own := _peaks(s for s in having(series, ENGINE_DEVICE_MEMORY) if s.values):
        yield from pair_of("device memory at peak", total, Told(sum(own), "NVML, the engine's processes alone"))
