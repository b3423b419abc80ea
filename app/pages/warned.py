"""What the engines' logs warned of, each warning once with the servers that said it; failing ones first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.domain.startup import StartupWarning, WarningEffect


class Warned(Protocol):
    """A session as a report or the API has it."""

    @property
    def block(self) -> int: ...
    @property
    def arm(self) -> str: ...
    @property
    def warnings(self) -> Sequence[StartupWarning]: ...


@dataclass(frozen=True, slots=True)
class WarningGroup:
    """One warning of one arm. ``blocks`` count from 1, ``line`` is the first one found."""

    arm: str
    name: str
    fails: bool
    reason: str
    line: str
    blocks: tuple[int, ...]


def warned(sessions: Iterable[Warned]) -> list[WarningGroup]:
    """The warnings of these sessions by arm and name."""
    said = [(s, w) for s in sorted(sessions, key=lambda s: s.block) for w in s.warnings]
    found: dict[tuple[str, str], list[tuple[Warned, StartupWarning]]] = {}
    for session, warning in said:
        found.setdefault((session.arm, warning.name), []).append((session, warning))
    return sorted((_group(same) for same in found.values()), key=lambda g: (not g.fails, g.arm, g.name))


def _group(same: Sequence[tuple[Warned, StartupWarning]]) -> WarningGroup:
    session, warning = same[0]
    return WarningGroup(
        arm=session.arm,
        name=warning.name,
        fails=warning.effect is WarningEffect.FAILS_PREFLIGHT,
        reason=warning.reason,
        line=warning.line,
        blocks=tuple(dict.fromkeys(s.block + 1 for s, _ in same)),
    )
