"""Functions to be completed, with tests: many answers are right, so the tests decide and not the text."""

import random
from collections.abc import Callable

from app.synthetic.language import Language, fill
from app.synthetic.task import Task
from app.synthetic.texts import Dials
from app.synthetic.values import IDENTIFIERS


def complete_function(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """A signature with a docstring, after other finished functions; the answer is the whole function."""
    finished = [_function(rng, texts)[:3] for _ in range(dials.count(rng) - 1)]
    for place in range(1, len(finished)):
        if dials.repeats(rng):
            finished[place] = rng.choice(finished[:place])
    head, docstring, body, tests = _function(rng, texts)
    given = [*(_whole(*parts) for parts in finished), _open(head, docstring)]
    wanted = texts.pick(rng, "code")
    return Task(f"{wanted}\n```python\n" + "\n\n".join(given) + "\n```", _whole(head, docstring, body), tests=tests)


Parts = tuple[str, str, dict[str, str], Callable[[str], list[str]]]
"""Parameter, body, the docstring's values, and from a name to its assertions."""


def _linear(rng: random.Random) -> Parts:
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    cases = [rng.randint(-99, 99) for _ in range(3)]
    return (
        "value",
        f"return {a} * value + {b}",
        {"a": str(a), "b": str(b)},
        lambda name: [f"assert {name}({x}) == {a * x + b}" for x in cases],
    )


def _clamp(rng: random.Random) -> Parts:
    a = rng.randint(2, 99)
    b = a + rng.randint(2, 99)
    return (
        "value",
        f"return max({a}, min({b}, value))",
        {"a": str(a), "b": str(b)},
        lambda name: [f"assert {name}({x}) == {max(a, min(b, x))}" for x in (a - 1, a + 1, b + 1)],
    )


def _count_above(rng: random.Random) -> Parts:
    a, values = rng.randint(2, 99), [rng.randint(0, 120) for _ in range(6)]
    return (
        "values",
        f"return sum(1 for value in values if value > {a})",
        {"a": str(a)},
        lambda name: [f"assert {name}({values}) == {sum(v > a for v in values)}", f"assert {name}([]) == 0"],
    )


def _sum_multiples(rng: random.Random) -> Parts:
    a, values = rng.randint(2, 9), [rng.randint(0, 99) for _ in range(8)]
    return (
        "values",
        f"return sum(value for value in values if value % {a} == 0)",
        {"a": str(a)},
        lambda name: [
            f"assert {name}({values}) == {sum(v for v in values if v % a == 0)}",
            f"assert {name}([{a}, {a + 1}]) == {a}",
        ],
    )


def _every(rng: random.Random) -> Parts:
    a, values = rng.randint(2, 7), [rng.randint(0, 99) for _ in range(12)]
    return (
        "values",
        f"return values[::{a}]",
        {"a": str(a)},
        lambda name: [f"assert {name}({values}) == {values[::a]}", f"assert {name}([]) == []"],
    )


def _repeat(rng: random.Random) -> Parts:
    a, mark = rng.randint(2, 9), rng.choice("-+/:;|")
    word = rng.choice(IDENTIFIERS)
    return (
        "text",
        f'return "{mark}".join([text] * {a})',
        {"a": str(a), "mark": mark},
        lambda name: [f'assert {name}("{word}") == "{mark.join([word] * a)}"'],
    )


_KINDS: dict[str, Callable[[random.Random], Parts]] = {
    "code_linear": _linear,
    "code_clamp": _clamp,
    "code_count_above": _count_above,
    "code_sum_multiples": _sum_multiples,
    "code_every": _every,
    "code_repeat": _repeat,
}


def _function(rng: random.Random, texts: Language) -> tuple[str, str, str, str]:
    """(head, docstring, body, tests)."""
    kind = rng.choice(list(_KINDS))
    parameter, body, values, assertions = _KINDS[kind](rng)
    name = "_".join(rng.sample(IDENTIFIERS, 2))
    docstring = fill(texts.pick(rng, kind), values)
    return f"def {name}({parameter}):", docstring, body, "\n".join(assertions(name))


def _open(head: str, docstring: str) -> str:
    return f'{head}\n    """{docstring}"""'


def _whole(head: str, docstring: str, body: str) -> str:
    return f"{_open(head, docstring)}\n    {body}"
