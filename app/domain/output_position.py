"""Acceptance along the output: how drafts fare early and late in an answer.

The engine lists a request's steps that had a draft, without saying where in the output they lay. The chunks say: a step
that accepted ``a`` tokens came as a chunk of ``a + 1``. Where steps without a draft could have lain in more than one
place the request is left out and counted, never guessed at.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from app.domain.clustered import ratio_of_totals
from app.domain.observation import RequestObservation
from app.domain.statistics import Estimate

EDGES = (1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Output tokens that were there before a step; the last range is open. 32,768 is where vllm#52873 begins."""
UNIT = "accepted tokens / drafted token"

Placed = npt.NDArray[np.int64]
"""Drafted (first row) and accepted tokens by range."""

Step = tuple[int, int, int]
"""Output tokens before it, drafted, accepted."""


class OutputRange(BaseModel):
    """Steps that began with ``first`` to ``last`` output tokens there already (``last`` is ``None``: no end)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: int
    last: int | None
    drafted: int
    accepted: int
    rate: Estimate


class AlongOutput(BaseModel):
    """By range; ``placed`` of the ``drafting`` requests could be placed without a doubt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ranges: tuple[OutputRange, ...] = ()
    placed: int = 0
    drafting: int = 0


def along_output(placed: Iterable[tuple[str, Placed | None]]) -> AlongOutput:
    """Acceptance by output position from each drafting request's ``placed_steps``, under its id.

    A request is one cluster over all blocks, as everywhere.
    """
    drafting, found = 0, 0
    requests: dict[str, Placed] = {}
    for request_id, steps in placed:
        drafting += 1
        if steps is not None:
            found += 1
            requests[request_id] = requests[request_id] + steps if request_id in requests else steps
    return AlongOutput(ranges=tuple(_ranges(list(requests.values()))), placed=found, drafting=drafting)


def placed_steps(observation: RequestObservation) -> Placed | None:
    """Drafted and accepted tokens of an answer by range; ``None`` where its steps cannot be placed."""
    steps = steps_of(observation)
    if steps is None:
        return None
    counts = np.zeros((2, len(EDGES)), dtype=np.int64)
    for before, drafted, accepted in steps:
        place = bisect_right(EDGES, before) - 1
        counts[0, place] += drafted
        counts[1, place] += accepted
    return counts


def steps_of(observation: RequestObservation) -> tuple[Step, ...] | None:
    """Where each step with a draft began; ``None`` where the chunks leave that open."""
    told = observation.speculation
    if told is None or not observation.chunk_tokens or 0 in observation.chunk_tokens:
        return None
    if len(told.per_step_drafted) != len(told.per_step_accepted):
        return None
    steps = list(zip(told.per_step_drafted, told.per_step_accepted, strict=True))
    try:
        return tuple(_place(observation.chunk_tokens, steps))
    except _NotPlaced:
        return None


class _NotPlaced(Exception):
    """The chunks fit the steps in no way, or in more than one."""


def _place(chunks: Sequence[int], steps: list[tuple[int, int]]) -> Iterator[Step]:
    """Walk chunks and steps together; raises ``_NotPlaced``."""
    # Between two steps that accepted something, single-token chunks are undrafted steps or drafts that all failed:
    # which, is known only where all of them are the one or the other.
    before, left = chunks[0], list(steps)
    for ones, tokens in _segments(chunks[1:], cut=bool(steps) and steps[-1][1] > 0 and chunks[-1] == 1):
        failed = next((i for i, (_, accepted) in enumerate(left) if accepted), len(left))
        if failed not in {0, ones}:
            raise _NotPlaced
        for offset in range(failed):
            yield before + offset, left.pop(0)[0], 0
        before += ones
        if tokens is None:
            continue
        if not left or not _fits(left[0][1], tokens, last=len(left) == 1):
            raise _NotPlaced
        drafted, accepted = left.pop(0)
        yield before, drafted, accepted
        before += tokens
    if left:
        raise _NotPlaced


def _segments(chunks: Sequence[int], *, cut: bool) -> Iterator[tuple[int, int | None]]:
    """How many single-token chunks, and the longer chunk that follows them (``None`` at the end).

    ``cut``: the last chunk belongs to a step that accepted more, of which the end of the output left one token.
    """
    ones = 0
    for index, tokens in enumerate(chunks, start=1):
        if tokens > 1 or (cut and index == len(chunks)):
            yield ones, tokens
            ones = 0
        else:
            ones += 1
    yield ones, None


def _fits(accepted: int, tokens: int, *, last: bool) -> bool:
    """A step's chunk has its accepted tokens and one more; the end of the output may have cut the last one."""
    return tokens == accepted + 1 or (last and tokens <= accepted)


def _ranges(requests: Sequence[Placed]) -> Iterator[OutputRange]:
    for place, (low, high) in enumerate(zip(EDGES, (*EDGES[1:], None), strict=True)):
        drafted = [int(counts[0, place]) for counts in requests]
        accepted = [int(counts[1, place]) for counts in requests]
        if sum(drafted):
            yield OutputRange(
                first=low,
                last=None if high is None else high - 1,
                drafted=sum(drafted),
                accepted=sum(accepted),
                rate=ratio_of_totals(accepted, drafted, UNIT),
            )
