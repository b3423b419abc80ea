"""Climb a ladder until the client stays behind; each cell is decided by the majority of up to three attempts."""

from collections.abc import Awaitable, Callable

from app.domain.client_range import ClientAttempt, ClientCell
from worker.calibration.ladders import Ladder, Rung

FAILURES_MAX = 2
"""Cells in a row."""

Attempt = Callable[[Rung, int], Awaitable[ClientAttempt]]
"""Try a rung once; the number of the try, from 1."""


async def climb(ladder: Ladder, attempt: Attempt) -> list[ClientCell]:
    """The cells that were tried, from small to large. Below the start only where nothing above passes, until one does.

    A cell that a disturbed host spoiled does not end the climb; a second one in a row does.
    """
    cells: list[ClientCell] = []
    for rung in ladder.rungs[ladder.start :]:
        cells.append(await decide(rung, attempt))
        if not any(cell.passed for cell in cells[-FAILURES_MAX:]) and len(cells) >= FAILURES_MAX:
            break
    if not any(cell.passed for cell in cells):
        for rung in reversed(ladder.rungs[: ladder.start]):
            cells.insert(0, await decide(rung, attempt))
            if cells[0].passed:
                break
    return cells


async def decide(rung: Rung, attempt: Attempt) -> ClientCell:
    """One cell with all its attempts: a stall of the host spoils one of them, not the cell."""
    cell = ClientCell(shape=rung.shape, rate_rps=rung.rate_rps, attempts=())
    while not cell.decided:
        tried = await attempt(rung, len(cell.attempts) + 1)
        cell = ClientCell(shape=rung.shape, rate_rps=rung.rate_rps, attempts=(*cell.attempts, tried))
    return cell
