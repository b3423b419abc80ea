"""A stranger's JSON, looked at member by member: each read is checked and named, what is never read is counted.

Only what is read must be sound: tools write bare ``Infinity`` and any generated text beside their numbers.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, Final

from app.domain.strict_json import Flaw, unique
from app.interop.imports.result import ImportRefused

BYTES_MAX: Final = 64 << 20
DEPTH_MAX: Final = 32
TEXT_MAX: Final = 300
TOP: Final = "(document)"
COUNT_MAX: Final = 2**53
"""Above it not every integer is a JSON number to everybody."""


def decode(content: bytes) -> Any:
    """The JSON document in ``content``; raises ``ImportRefused``."""
    if len(content) > BYTES_MAX:
        raise refused(TOP, f"longer than {BYTES_MAX} bytes", "save it without the details of each request")
    try:
        document = json.loads(content.decode("utf-8-sig"), object_pairs_hook=unique)
    except (Flaw, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise refused(TOP, f"not one JSON document: {error}", "send the file as its tool wrote it") from error
    except (RecursionError, ValueError) as error:
        raise refused(TOP, f"not readable as JSON: {error}", "send the file as its tool wrote it") from error
    if _is_deep(document):
        raise refused(TOP, f"nested deeper than {DEPTH_MAX} levels", "send the file as its tool wrote it")
    return document


def refused(field: str, message: str, remedy: str) -> ImportRefused:
    """The one error of this package."""
    return ImportRefused.of(field, message[:TEXT_MAX], remedy)


class Node:
    """One object of the document and the path to it; ``visited`` is shared by all, to count what was not read."""

    def __init__(self, value: Any, path: str, visited: "list[Node]") -> None:
        self.path = path
        self._members: dict[str, Any] = value
        self._seen = set[str]()
        self._visited = visited
        visited.append(self)

    def has(self, name: str) -> bool:
        """Whether the member is there and not null; a look that reads nothing."""
        return self._members.get(name) is not None

    def is_text(self, name: str) -> bool:
        """Whether the member is a text; a look that reads nothing."""
        return isinstance(self._members.get(name), str)

    def is_list(self, name: str) -> bool:
        """Whether the member is a list; a look that reads nothing."""
        return isinstance(self._members.get(name), list)

    def names(self) -> Iterator[str]:
        """Its members that are not null, in the file's order."""
        return (name for name, value in self._members.items() if value is not None)

    def where(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def child(self, name: str) -> "Node":
        """A member that has to be an object."""
        return self._node(name, self._taken(name, dict, "an object"))

    def maybe(self, name: str) -> "Node | None":
        """A member that may be left out."""
        return self.child(name) if self.has(name) else None

    def children(self, name: str) -> "list[Node]":
        """A member that has to be a list of objects."""
        items = self._taken(name, list, "a list")
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise self._wrong(f"{name}[{index}]", item, "an object")
        return [self._node(f"{name}[{index}]", item) for index, item in enumerate(items)]

    def number(self, name: str) -> float:
        """A finite number, not negative."""
        value = self._taken(name, (int, float), "a number")
        if isinstance(value, bool):
            raise self._wrong(name, value, "a number")
        if not _is_finite(value) or value < 0:
            raise refused(self.where(name), "it is negative or not finite", "measure again; a failed run has no result")
        return float(value)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers, not negative; empty where it is left out."""
        if not self.has(name):
            return ()
        items = Node(
            {str(i): item for i, item in enumerate(self._taken(name, list, "a list"))}, self.where(name), self._visited
        )
        return tuple(items.number(place) for place in [*items.names()])

    def count(self, name: str) -> int:
        """A whole number, not negative."""
        value = self.number(name)
        if value != int(value) or value > COUNT_MAX:
            raise refused(self.where(name), f"{value:g} is not a count", "send the file as its tool wrote it")
        return int(value)

    def text(self, name: str) -> str:
        """Printable text of one line."""
        value = self._taken(name, str, "text")
        if not value.isprintable() or len(value) > TEXT_MAX:
            raise refused(self.where(name), f"not printable text of at most {TEXT_MAX} characters", "shorten it")
        return value

    def flag(self, name: str) -> bool:
        """``true`` or ``false``."""
        return self._taken(name, bool, "true or false")

    def ignored(self) -> int:
        """How many members here were never read."""
        return len(self._members.keys() - self._seen)

    def _node(self, name: str, value: Any) -> "Node":
        return Node(value, self.where(name), self._visited)

    def _taken(self, name: str, kind: Any, words: str) -> Any:
        self._seen.add(name)
        value = self._members.get(name)
        if value is None:
            raise refused(self.where(name), "it is missing", f"this format has {words} there; is it of another tool?")
        if not isinstance(value, kind):
            raise self._wrong(name, value, words)
        return value

    def _wrong(self, name: str, value: Any, words: str) -> ImportRefused:
        message = f"it is {type(value).__name__}, not {words}"
        return refused(self.where(name), message, "send the file as its tool wrote it")


class Root(Node):
    """The whole document, which has to be an object."""

    def __init__(self, document: Any, path: str = "") -> None:
        if not isinstance(document, dict):
            message = f"it is {type(document).__name__}, not an object"
            raise refused(path or TOP, message, "send one result file of a known tool")
        self.visited: list[Node] = []
        super().__init__(document, path, self.visited)

    def ignored_everywhere(self) -> int:
        """How many members were never read, in all objects that were looked into."""
        return sum(node.ignored() for node in self.visited)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_deep(document: Any) -> bool:
    """Level by level, since a recursion would be what it guards against."""
    level = [document]
    for _ in range(DEPTH_MAX):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        if not inner:
            return False
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return bool(level)
