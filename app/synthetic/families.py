"""Task families with checkable answers: each answer follows from its instruction alone.

Pure and seeded: the same generator state always gives the same task. A change of any task's text
needs a new ``VERSION`` in ``app.synthetic.make``.
"""

import json
import random
from collections.abc import Callable
from enum import StrEnum

from pydantic import JsonValue

from app.synthetic.code import complete_function
from app.synthetic.language import Language, Values, fill, number, pick
from app.synthetic.task import Task
from app.synthetic.texts import Dials, rows, sentences

COLUMNS = ("name", "city", "number", "product", "code", "date")


class Family(StrEnum):
    """What is asked. Only ``continue`` has no single right answer."""

    COPY = "copy"
    EDIT = "edit"
    EXTRACT = "extract"
    TRANSFORM = "transform"
    ARITHMETIC = "arithmetic"
    CODE = "code"
    QA = "qa"
    CONTINUE = "continue"


Maker = Callable[[random.Random, Language, Dials], Task]


def copy(rng: random.Random, texts: Language, dials: Dials) -> Task:
    said, _ = sentences(rng, texts, dials)
    source = texts.joiner.join(said)
    return Task(f"{texts.pick(rng, 'copy')}\n{source}", source)


_REPLACEABLE = (("name", "names"), ("name2", "names"), ("city", "cities"), ("city2", "cities"), ("product", "products"))


def edit(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """Replace one word that the first sentence has by one that the text has not."""
    said, first = sentences(rng, texts, dials)
    source = texts.joiner.join(said)
    slot, pool = pick(rng, [(slot, pool) for slot, pool in _REPLACEABLE if slot in first])
    absent = [word for word in texts.sections[pool] if word not in source]
    old = first[slot]
    new = pick(rng, absent) if absent else f"{old} {number(rng, 2, 99)}"
    wanted = fill(texts.pick(rng, "edit"), {"old": old, "new": new})
    return Task(f"{wanted}\n{source}", source.replace(old, new))


def extract(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """One order among other sentences; the keys are in the language's own words."""
    values = Values(rng, texts)
    keys = dict(texts.pairs("fields", "="))
    asked = rng.sample(list(keys), number(rng, 2, len(keys)))
    around, _ = sentences(rng, texts, dials)
    letter = fill(texts.pick(rng, "letters"), values)
    # The letter comes last: names in the sentences before it belong to nobody's order.
    source = texts.joiner.join([*around[1:], letter])
    wanted = fill(texts.pick(rng, "extract"), {"keys": ", ".join(keys[name] for name in asked)})
    answer: dict[str, JsonValue] = {keys[name]: _typed(name, values[name]) for name in asked}
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {keys[name]: {"type": "integer" if name == "number" else "string"} for name in asked},
        "required": [keys[name] for name in asked],
        "additionalProperties": False,
    }
    return Task(f"{wanted}\n{source}", json.dumps(answer, ensure_ascii=False), schema=schema)


def transform(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """Number lines, turn their order, or write a table as JSON."""
    kind = pick(rng, ("number_lines", "reverse_lines", "csv_json"))
    wanted = texts.pick(rng, kind)
    if kind == "csv_json":
        columns = rng.sample(COLUMNS, number(rng, 2, 4))
        table = rows(rng, texts, dials, columns)
        source = "\n".join(",".join(line) for line in (columns, *(row.values() for row in table)))
        answer = "[\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in table) + "\n]"
        return Task(f"{wanted}\n{source}", answer)
    lines = sentences(rng, texts, dials)[0]
    numbered = [f"{place}. {line}" for place, line in enumerate(lines, 1)]
    return Task("\n".join([wanted, *lines]), "\n".join(numbered if kind == "number_lines" else reversed(lines)))


def arithmetic(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """A word problem behind other sentences."""
    formula, template = pick(rng, texts.pairs("arithmetic", "|"))
    a = number(rng, 20, 999)
    b, c = (number(rng, 2, a // 2), number(rng, 2, a // 2)) if formula == "a-b-c" else _factors(rng, formula, a)
    answers = {"a+b-c": a + b - c, "a*b": a * b, "a*b+c": a * b + c, "a-b-c": a - b - c}
    question = fill(template, Values(rng, texts, a=str(a), b=str(b), c=str(c)))
    around, _ = sentences(rng, texts, dials)
    return Task(texts.joiner.join([*around[1:], question]), str(answers[formula]))


def question(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """Facts about different people, and a question about one of them."""
    people = rng.sample(texts.sections["names"], min(dials.count(rng), len(texts.sections["names"])))
    known = [Values(rng, texts, name=name) for name in people]
    said = [fill(texts.pick(rng, "facts"), values) for values in known]
    for place in range(1, len(said)):
        if dials.repeats(rng):
            said[place] = pick(rng, said[:place])
    asked = known[pick(rng, [place for place, values in enumerate(known) if said[place].startswith(values["name"])])]
    slot, template = pick(rng, texts.pairs("questions", "|"))
    facts = texts.joiner.join(said)
    return Task(f"{texts.pick(rng, 'qa')}\n{facts}\n{fill(template, asked)}", asked[slot])


def go_on(rng: random.Random, texts: Language, dials: Dials) -> Task:
    """The beginning of a story; what follows it is no answer, only what a recorded conversation may contain."""
    values = Values(rng, texts)
    opening = fill(texts.pick(rng, "openings"), values)
    around, _ = sentences(rng, texts, dials)
    cut = number(rng, len(opening) // 3, 2 * len(opening) // 3)
    begun = texts.joiner.join([*around[1:], opening[:cut].rstrip()])
    return Task(f"{texts.pick(rng, 'continue')}\n{begun}", None, recorded=opening[cut:].strip())


MAKERS: dict[Family, Maker] = {
    Family.COPY: copy,
    Family.EDIT: edit,
    Family.EXTRACT: extract,
    Family.TRANSFORM: transform,
    Family.ARITHMETIC: arithmetic,
    Family.CODE: complete_function,
    Family.QA: question,
    Family.CONTINUE: go_on,
}


def _factors(rng: random.Random, formula: str, a: int) -> tuple[int, int]:
    return number(rng, 2, 99), number(rng, 2, a if formula == "a+b-c" else 99)


def _typed(name: str, value: str) -> JsonValue:
    return int(value) if name == "number" else value
