"""How a recorded request asked (sampling, constraints, tools), in a trace's words."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from app.domain.trace_request import SamplingOverrides
from app.workloads.record import Row, RowRefused

_OVERRIDES = frozenset(SamplingOverrides.model_fields)
_ONE_ANSWER = ("n", "best_of")
_PASSED_ON = ("tools", "tool_choice", "chat_template_kwargs")
_GUIDED = {
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}
_STRUCTURED = {
    "json": "json_schema",
    "json_schema": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
}
_IGNORED = frozenset({"parallel_tool_calls", "prompt_logprobs"})
"""They change no token of the answer; a trace has no field for them, and the import counts what it leaves out."""
_REFUSED = frozenset({"stop_token_ids"})


def request_fields(asked: Mapping[str, JsonValue]) -> Row:
    """The trace request's fields for what a record's client asked. Raises ``RowRefused`` for what would be lost."""
    for name in _ONE_ANSWER:
        if asked.get(name) not in {None, 1}:
            raise RowRefused(name, "asks for several answers; a trace's request has one")
    for name in _REFUSED & asked.keys():
        raise RowRefused(name, "cannot be said in a trace, and would change where answers end")
    overrides: Row = {name: asked[name] for name in sorted(_OVERRIDES & asked.keys())}
    fields: Row = {"sampling": overrides} if overrides else {}
    return fields | dict(_stop(asked)) | dict(_logprobs(asked)) | dict(_constraint(asked)) | dict(_passed_on(asked))


def left_out(asked: Mapping[str, JsonValue]) -> Iterator[str]:
    """The fields of ``asked`` that a trace does not carry."""
    return (name for name in sorted(_IGNORED & asked.keys()))


def _stop(asked: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    stop = asked.get("stop")
    if stop:
        yield "stop", [stop] if isinstance(stop, str) else stop


def _logprobs(asked: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Completions say how many alternatives; chat says true, and how many in ``top_logprobs``."""
    logprobs = asked.get("logprobs")
    if logprobs is True:
        yield "logprobs", asked.get("top_logprobs", 0)
    elif logprobs is not None and logprobs is not False:
        yield "logprobs", logprobs


def _passed_on(asked: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for name in _PASSED_ON:
        if asked.get(name):
            yield name, asked[name]


def _constraint(asked: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    found = [*_guided(asked), *_response_format(asked.get("response_format"))]
    if len(found) > 1:
        raise RowRefused("response_format", "is one of several constraints on the answer's form; a request has one")
    for name, value in found:
        yield "structured_outputs", {name: value}


def _guided(asked: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for name, ours in _GUIDED.items():
        if asked.get(name) is not None:
            yield ours, asked[name]
    given = asked.get("structured_outputs")
    if given is None:
        return
    if not isinstance(given, dict) or not given.keys() <= _STRUCTURED.keys():
        raise RowRefused("structured_outputs", "has a member that is none of json, regex, choice and grammar")
    yield from ((_STRUCTURED[name], value) for name, value in given.items() if value is not None)


def _response_format(given: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if given is None:
        return
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "json_object":
        yield "json_schema", {"type": "object"}
    elif kind == "json_schema" and isinstance(given, dict) and isinstance(schema := given.get("json_schema"), dict):
        yield "json_schema", schema.get("schema")
    elif kind != "text":
        raise RowRefused("response_format", "is none of text, json_object and json_schema")
