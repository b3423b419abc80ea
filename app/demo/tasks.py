"""The demo's checkable tasks: copy, rename, extract, call, table, config and lines.

Pure and seeded: the same generator state always gives the same task. Each answer follows from
its instruction alone, so a test can work it out again by another way.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from app.demo.passages import Passages, fill
from app.synthetic.values import (
    IDENTIFIERS,
    KEYS,
    LEVELS,
    PRODUCTS,
    WORDS,
    Scalar,
    clock_time,
    date,
    email_of,
    hex_id,
    person,
    record,
    text,
)

GENERATOR = "verdraft-demo-tasks/1"
"""Named in every trace's header; a change of any task's text needs a new number."""


@dataclass(frozen=True, slots=True)
class Task:
    """One user turn. ``answer`` is ``None`` where there is no single right one."""

    family: str
    instruction: str
    answer: str | None


Maker = Callable[[random.Random, Passages], Task]


def copy(rng: random.Random, passages: Passages) -> Task:
    wanted = rng.choice(
        ("Copy the text:\n", "Repeat exactly:\n", "Copy the following text without changes:\n", "Echo the input:\n")
    )
    source = rng.choice((_sentence, _log_lines, _records, _function))(rng, passages)
    return Task("copy", wanted + source, source)


def rename(rng: random.Random, passages: Passages) -> Task:
    source = _function(rng, passages)
    used = sorted(set(re.findall(r"\b[a-z_]{3,}\b", source)))
    old = rng.choice([name for name in used if name in IDENTIFIERS])
    new = rng.choice([name for name in IDENTIFIERS if name not in used])
    wanted = rng.choice(
        (f"Rename `{old}` to `{new}` in this code:\n", f"In the code below, change `{old}` to `{new}`:\n")
    )
    return Task("rename", wanted + _fenced(source), _fenced(re.sub(rf"\b{old}\b", new, source)))


def extract(rng: random.Random, _: Passages) -> Task:
    known, source = rng.choice((_form, _order, _log_entry))(rng)
    asked = rng.sample(sorted(known), min(len(known), rng.randint(2, 5)))
    wanted = rng.choice(
        ("Extract the fields {} as JSON:\n", "Return a JSON object with the keys {} from this text:\n")
    ).format(", ".join(asked))
    return Task("extract", wanted + source, json.dumps({key: known[key] for key in asked}))


FUNCTIONS = {
    "book_table": ["city", "date", "time", "quantity"],
    "create_order": ["product", "quantity", "price", "name"],
    "find_user": ["name", "email"],
    "restart_host": ["host", "port"],
    "set_status": ["order_id", "status"],
    "ship_order": ["order_id", "city", "date"],
}


def call(rng: random.Random, _: Passages) -> Task:
    offered = sorted(rng.sample(sorted(FUNCTIONS), 3))
    chosen = rng.choice(offered)
    arguments = record(rng, FUNCTIONS[chosen])
    said = ", ".join(f"{key.replace('_', ' ')} {text(value)}" for key, value in arguments.items())
    signatures = ", ".join(f"{name}({', '.join(FUNCTIONS[name])})" for name in offered)
    wanted = rng.choice(("Call the right function as JSON: ", "Write the JSON function call for: "))
    instruction = f"Functions: {signatures}\n{wanted}{chosen.replace('_', ' ')} with {said}"
    return Task("call", instruction, json.dumps({"name": chosen, "arguments": arguments}))


def table(rng: random.Random, _: Passages) -> Task:
    keys = rng.sample(KEYS, rng.randint(2, 3))
    rows = [record(rng, keys) for _ in range(rng.randint(2, 4))]
    forms = {"CSV": _csv(rows), "JSON": _json_rows(rows), "Markdown table": _markdown(rows)}
    source, target = rng.choice(
        (("CSV", "JSON"), ("CSV", "Markdown table"), ("Markdown table", "JSON"), ("JSON", "CSV"))
    )
    return Task("table", f"Write this {source} as {target}:\n{forms[source]}", forms[target])


def config(rng: random.Random, _: Passages) -> Task:
    values = record(rng, rng.sample(KEYS, rng.randint(3, 6)))
    forms = {
        "key=value lines": "\n".join(f"{key}={text(value)}" for key, value in values.items()),
        "YAML": "\n".join(f"{key}: {text(value)}" for key, value in values.items()),
        "JSON": json.dumps(values, indent=2),
    }
    source, target = rng.choice((("key=value lines", "JSON"), ("YAML", "JSON"), ("JSON", "YAML")))
    return Task("config", f"Convert this {source} to {target}:\n{forms[source]}", forms[target])


LINE_EDITS: dict[str, Callable[[list[str]], str]] = {
    "Write the text in upper case:\n": lambda lines: "\n".join(lines).upper(),
    "Write the text in lower case:\n": lambda lines: "\n".join(lines).lower(),
    "Number the lines:\n": lambda lines: "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1)),
    'Put "-" before each line:\n': lambda lines: "\n".join(f"- {line}" for line in lines),
    "Give the first 2 lines:\n": lambda lines: "\n".join(lines[:2]),
    "Join the lines with commas:\n": ", ".join,
}


def lines(rng: random.Random, _: Passages) -> Task:
    source = [_short_line(rng) for _ in range(rng.randint(3, 6))]
    wanted, edit = rng.choice(sorted(LINE_EDITS.items(), key=lambda item: item[0]))
    return Task("lines", wanted + "\n".join(source), edit(source))


EDIT_FAMILIES: dict[str, Maker] = {
    "copy": copy,
    "rename": rename,
    "extract": extract,
    "call": call,
    "table": table,
    "config": config,
    "lines": lines,
}


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def _sentence(rng: random.Random, passages: Passages) -> str:
    paragraph = fill(rng, rng.choice(passages.prose))
    return rng.choice(re.split(r"(?<=\.) ", paragraph))


def _function(rng: random.Random, passages: Passages) -> str:
    return fill(rng, rng.choice(passages.snippets))


def _log_lines(rng: random.Random, _: Passages) -> str:
    return "\n".join(
        f"{date(rng)} {clock_time(rng)} {rng.choice(LEVELS)} {rng.choice(IDENTIFIERS)}: "
        f"{rng.choice(PRODUCTS)} {hex_id(rng)}"
        for _ in range(rng.randint(1, 2))
    )


def _records(rng: random.Random, _: Passages) -> str:
    keys = rng.sample(KEYS, rng.randint(2, 4))
    return json.dumps([record(rng, keys) for _ in range(rng.randint(1, 2))])


def _form(rng: random.Random) -> tuple[dict[str, Scalar], str]:
    known = record(rng, rng.sample(KEYS, rng.randint(4, 7)))
    return known, "\n".join(f"{key.replace('_', ' ').capitalize()}: {text(value)}" for key, value in known.items())


_ORDER_LETTER = (
    "On {date}, {name} from {city} ordered {quantity} units of {product} at {price} each. "
    "The order number is {order_id} and the contact address is {email}."
)
_ORDER_LINE = "Order {order_id}: {name} ({email}) bought {quantity} x {product} for {price}. Ship to {city} by {date}."


def _order(rng: random.Random) -> tuple[dict[str, Scalar], str]:
    known = record(rng, ["product", "quantity", "city", "date", "order_id", "price"])
    buyer = person(rng)
    known |= {"name": buyer, "email": email_of(rng, buyer)}
    wording = rng.choice((_ORDER_LETTER, _ORDER_LINE))
    return known, wording.format(**known)


def _log_entry(rng: random.Random) -> tuple[dict[str, Scalar], str]:
    known = record(rng, ["date", "time", "level", "host", "port", "version"]) | {"id": hex_id(rng)}
    return known, "{date} {time} [{level}] {host}:{port} v{version} request {id} done".format(**known)


def _short_line(rng: random.Random) -> str:
    return (
        person(rng)
        if rng.choice((True, False, False))
        else " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 3)))
    )


def _csv(rows: list[dict[str, Scalar]]) -> str:
    return "\n".join([",".join(rows[0]), *(",".join(map(text, row.values())) for row in rows)])


def _markdown(rows: list[dict[str, Scalar]]) -> str:
    head = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    return "\n".join([*head, *(f"| {' | '.join(map(text, row.values()))} |" for row in rows)])


def _json_rows(rows: list[dict[str, Scalar]]) -> str:
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]"
