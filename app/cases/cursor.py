"""Where a page of cases ended: the sorted value and the case's number, which is the tie's order in every sort."""

from dataclasses import dataclass
from typing import Final

from app.domain.errors import NotFound

_SEPARATOR: Final = "~"


@dataclass(frozen=True, slots=True)
class Place:
    """``key`` is ``None`` among the cases without the sorted value, which come last."""

    key: float | str | None
    number: int

    def written(self) -> str:
        """For addresses."""
        return f"{'' if self.key is None else self.key}{_SEPARATOR}{self.number}"


def place_of(cursor: str, *, is_text: bool) -> Place:
    """What ``written`` wrote. Raises ``NotFound`` for what it cannot have written."""
    key, _, number = cursor.rpartition(_SEPARATOR)
    try:
        value = None if not key else key if is_text else float(key) if any(c in key for c in ".en") else int(key)
        return Place(value, int(number))
    except ValueError as error:
        remedy = "begin at the first page: leave `after` out"
        raise NotFound.of("after", "no page of this order ended there", remedy) from error
