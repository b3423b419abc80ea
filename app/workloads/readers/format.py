"""What a format is: a reader and the writer that undoes it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from app.workloads.record import Item, Row

Read = Callable[[BinaryIO], Iterator[Item]]
Write = Callable[[Iterable[Row], BinaryIO], None]


@dataclass(frozen=True, slots=True)
class Format:
    """A source format. ``name`` is what ``--format`` takes.

    ``read`` takes a file opened for bytes at its start and yields every row, good or bad, in file order;
    it raises ``DomainError`` only where the file as a whole cannot be of this format.
    ``write`` gives rows back such that reading them again yields the same fields.
    """

    name: str
    title: str
    read: Read
    write: Write
