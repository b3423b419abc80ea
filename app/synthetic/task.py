"""What a family makes: the words of a user, and what a right answer is."""

from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Task:
    """One user turn. ``answer`` is ``None`` where there is no single right one."""

    instruction: str
    answer: str | None
    tests: str | None = None
    """Python assertions that any right answer passes, where there is more than one."""
    schema: dict[str, JsonValue] | None = field(default=None)
    """JSON Schema that the right answer satisfies."""
    recorded: str = ""
    """What an assistant said, where there is no right answer; only for recorded conversations."""

    @property
    def reply(self) -> str:
        """The answer as a recorded conversation has it."""
        return self.recorded if self.answer is None else self.answer
