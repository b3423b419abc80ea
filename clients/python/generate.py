"""Writes ``models.py``, ``client.py`` and ``aio.py`` from the OpenAPI document of the service beside it.

``python clients/python/generate.py``; a test holds what is there to what this would write.
"""

import keyword
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PACKAGE: Final = HERE / "verdraft_client"
METHODS: Final = ("get", "post", "put", "patch", "delete")
LEFT_OUT: Final = frozenset({"fields", "If-None-Match", "Idempotency-Key"})
"""What the client does by itself, or what would give an answer without its type."""
FOLLOW: Final = "follow"
GENERATED: Final = "Generated from the OpenAPI document by ``clients/python/generate.py``; do not edit."
IMPORTS: Final = {
    "datetime": "from datetime import datetime",
    "Path": "from pathlib import Path",
    "Any": "from typing import Any",
    "Literal": "from typing import Literal",
    "UUID": "from uuid import UUID",
}
SIMPLE: Final = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}
FORMATS: Final = {"date-time": "datetime", "uuid": "UUID"}

Schema = dict[str, Any]


def name_of(reference: str) -> str:
    """A schema's name as a Python name."""
    return re.sub(r"\W", "", reference.rpartition("/")[2])


def kind_of(schema: Schema) -> str:  # noqa: PLR0911  (one for each kind of schema)
    """A schema as an annotation."""
    if "$ref" in schema:
        return name_of(schema["$ref"])
    if "const" in schema or "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(map(kind_of, schema[union])))
    match schema.get("type"):
        case "string":
            return FORMATS.get(schema.get("format", ""), "str")
        case "array":
            return _array(schema)
        case "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {kind_of(values) if isinstance(values, dict) else 'Any'}]"
        case str() as simple:
            return SIMPLE[simple]
        case _:
            return "Any"


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"tuple[{', '.join(map(kind_of, schema['prefixItems']))}]"
    return f"list[{kind_of(schema.get('items', {}))}]"


def models(document: Schema) -> str:
    """Every schema as a pydantic model or an alias."""
    schemas = {name: s for name, s in document["components"]["schemas"].items() if not name.endswith("Sparse")}
    aliases = [f"{name_of(n)} = {kind_of(s)}" for n, s in schemas.items() if "properties" not in s]
    classes = [_model(n, s) for n, s in schemas.items() if "properties" in s]
    names = [name_of(n) for n, s in schemas.items() if "properties" in s]
    return "\n".join(
        (
            f'"""The documents of the API. {GENERATED}"""',
            "# ruff: noqa",
            "from __future__ import annotations",
            "from datetime import datetime",
            "from typing import Any, Literal",
            "from uuid import UUID",
            "from pydantic import BaseModel, ConfigDict, Field",
            "class Model(BaseModel):",
            '    """What a newer service adds is kept aside."""',
            "    model_config = ConfigDict(frozen=True, populate_by_name=True, protected_namespaces=())",
            *aliases,
            *classes,
            f"for _model in ({', '.join(names)},):",
            "    _model.model_rebuild()",
        )
    )


def _model(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    lines = [f"class {name_of(name)}(Model):", f'    """{_words(schema.get("description") or name)}"""']
    for field, inner in schema["properties"].items():
        python = field if field.isidentifier() and not keyword.iskeyword(field) and field[0] != "_" else f"{field}_"
        arguments = [] if python == field else [f"alias={field!r}"]
        if field not in required:
            default = inner.get("default")
            plain = default is None or isinstance(default, str | int | float | bool)
            made = f"{kind_of(inner)}.model_validate({default!r})" if "$ref" in inner else repr(default)
            arguments.insert(0, f"default={default!r}" if plain else f"default_factory=lambda: {made}")
        optional = field not in required and inner.get("default") is None
        kind = kind_of(inner)
        kind = f"{kind} | None" if optional and "None" not in kind and kind != "Any" else kind
        lines.append(f"    {python}: {kind}" + (f" = Field({', '.join(arguments)})" if arguments else ""))
    return "\n".join(lines)


def _words(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")


def client(document: Schema, *, wait: bool) -> str:
    """The sync client, or the one that waits."""
    methods = [
        _method(address, method, item[method], wait=wait)
        for address, item in document["paths"].items()
        for method in METHODS
        if method in item and item[method]["operationId"] != FOLLOW
    ]
    base, name = ("AsyncBase", "AsyncClient") if wait else ("SyncBase", "Client")
    used = "\n".join(methods)
    module = "_asynchronous" if wait else "_synchronous"
    return "\n".join(
        (
            f'"""Every operation of the API as a method. {GENERATED}"""',
            "# ruff: noqa",
            "from __future__ import annotations",
            *(line for name, line in IMPORTS.items() if re.search(rf"\b{name}\b", used)),
            "from verdraft_client import _core as core",
            f"from verdraft_client.{module} import {base}",
            "from verdraft_client.models import *",
            f"class {name}({base}):",
            '    """The API at ``url``; a context manager. Every method raises ``VerdraftError``."""',
            *methods,
        )
    )


def _method(address: str, method: str, operation: Schema, *, wait: bool) -> str:
    parameters = [p for p in operation.get("parameters", []) if p["name"] not in LEFT_OUT]
    inside = [p["name"] for p in parameters if p["in"] == "path"]
    asked = [p for p in parameters if p["in"] == "query"]
    body, arguments = _body(operation)
    options = [_query_parameter(p) for p in sorted(asked, key=lambda p: not p.get("required", False))]
    kind, media = _answer(operation)
    key = ["idempotency_key: str | None = None"] if method == "post" else []
    to = ["to: str | Path"] if kind == "Path" else []
    keywords = [*to, *options, *(a for a in arguments if "=" in a), *key]
    signature = ["self", *(f"{name}: str" for name in inside), *(a for a in arguments if "=" not in a)]
    signature += ["*", *keywords] if keywords else []
    parts = "".join(f", {name}={name}" for name in inside)
    query = ", ".join(f"{p['name']}={p['name']}" for p in asked)
    request = f"core.query({query})"
    call = f'"{method.upper()}", core.path("{address}"{parts}), {request}, {body}'
    call += ", idempotency_key" if key else ", None"
    defined, awaited = ("async def", "await ") if wait else ("def", "")
    lines = [
        f"    {defined} {operation['operationId']}({', '.join(signature)}) -> {kind}:",
        f'        """{_words(operation["description"])}"""',
    ]
    match media:
        case "file":
            lines.append(f"        return {awaited}self._download({call}, to=Path(to))")
        case "text":
            lines.append(f"        return ({awaited}self._ask({call})).text")
        case "nothing":
            lines.append(f"        {awaited}self._ask({call})")
        case _:
            lines.append(f"        return core.read({kind}, {awaited}self._ask({call}))")
    return "\n".join(lines)


def _query_parameter(parameter: Schema) -> str:
    kind = kind_of(parameter.get("schema", {}))
    if parameter.get("required"):
        return f"{parameter['name']}: {kind}"
    kind = kind if "None" in kind or kind == "Any" else f"{kind} | None"
    return f"{parameter['name']}: {kind} = None"


def _body(operation: Schema) -> tuple[str, list[str]]:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return "{}", []
    first, described = next(iter(content.items()))
    reference = described.get("schema", {}).get("$ref")
    if first == "application/json" and reference:
        return "core.body(wish.model_dump_json(exclude_none=True), 'application/json')", [f"wish: {name_of(reference)}"]
    return "core.body(content, content_type)", ["content: core.Content", f"content_type: str = {first!r}"]


def _answer(operation: Schema) -> tuple[str, str]:
    good = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    content = good.get("content", {})
    if not content:
        return "None", "nothing"
    if len(content) > 1 or operation["operationId"] in {"read_bundle", "export_cases", "export"}:
        return "Path", "file"
    media, described = next(iter(content.items()))
    if media.startswith("text/"):
        return "str", "text"
    if not media.startswith("application/json"):
        return "Path", "file"
    schema = described.get("schema", {})
    whole = schema["anyOf"][0] if "anyOf" in schema and "Sparse" in str(schema["anyOf"][1:]) else schema
    return kind_of(whole), "json"


def formatted(source: str, name: str) -> str:
    """By the project's formatter, so that what is written is what a commit holds."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PACKAGE / name), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def generated() -> dict[str, str]:
    """File name → content."""
    sys.path.insert(0, str(HERE.parent.parent))
    from app.main import create_app  # noqa: PLC0415  (the project is not installed where only the client is)

    document = create_app().openapi()
    sources = {
        "models.py": models(document),
        "client.py": client(document, wait=False),
        "aio.py": client(document, wait=True),
    }
    return {name: formatted(source, name) for name, source in sources.items()}


if __name__ == "__main__":
    for file, content in generated().items():
        (PACKAGE / file).write_text(content)
