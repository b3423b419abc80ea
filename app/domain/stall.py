"""Whether an answer stood still when the client gave up on it, or was only slower than allowed."""

from collections.abc import Sequence
from itertools import pairwise

from app.domain.vocabulary import NS_PER_S

STALL_NS = NS_PER_S
"""Silence shorter than this is never called a stall."""


def stall_ns(chunk_ns: Sequence[int], gave_up_ns: int) -> int | None:
    """The silence before the client gave up, ``gave_up_ns - chunk_ns[-1]``, where it is a stall.

    It is one when it lasted ``STALL_NS`` or more and longer than any gap between the answer's chunks before. Before the
    first chunk there is no stall: that request may be queued.
    """
    if not chunk_ns:
        return None
    silence_ns = gave_up_ns - chunk_ns[-1]
    longest_gap_ns = max((later - earlier for earlier, later in pairwise(chunk_ns)), default=0)
    return silence_ns if silence_ns >= STALL_NS and silence_ns > longest_gap_ns else None
