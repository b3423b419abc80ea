"""The program that a scorer by unit tests runs: the answer's code and then the request's assertions."""

from typing import Final

from app.domain.scoring.patterns import compiled, encodable
from app.domain.scoring.question import Question
from app.domain.scoring.terms import Quality

PROGRAM_CHARS_MAX: Final = 1_000_000
_FENCED: Final = r"(?sm)^```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\n(.*?)^```[ \t]*$"
_PYTHON: Final = frozenset({"", "python", "py", "python3"})


def code_of(text: str) -> str:
    """The fenced Python in an answer, one block after the other; the whole answer where nothing is fenced.

    A fence that never ends, as in an answer that was cut off, begins code that does not end either.
    """
    answer = encodable(text[:PROGRAM_CHARS_MAX])
    blocks = [code for language, code in compiled(_FENCED).findall(answer) if language.lower() in _PYTHON]
    if blocks:
        return "\n".join(blocks)
    opened = answer.partition("```")[2]
    return opened.partition("\n")[2] if opened else answer


def lack(question: Question, _: Quality) -> str | None:
    """Assertions that a right answer passes."""
    return None if question.tests is not None else "tests"
