"""Chat messages, tools and constraints as a trace holds them: the wire's own shapes, text only.

Media would make the engine fetch what a stranger names; templates inside a request would be code from a stranger.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, field_validator, model_validator

FunctionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
CallId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
FORBIDDEN_TEMPLATE_KEYS = frozenset({"chat_template", "tokenize"})


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextPart(_Frozen):
    """One part of a message's content."""

    type: Literal["text"]
    text: str


class FunctionCall(_Frozen):
    """``arguments`` is JSON inside a text, as the API has it."""

    name: FunctionName
    arguments: str


class ToolCall(_Frozen):
    """A call that an assistant message made."""

    id: CallId
    type: Literal["function"]
    function: FunctionCall


class Message(_Frozen):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[TextPart, ...] | None = None
    name: Annotated[str, StringConstraints(max_length=64)] | None = None
    tool_calls: Annotated[tuple[ToolCall, ...], Field(max_length=128)] = ()
    tool_call_id: CallId | None = None

    @field_validator("content", mode="before")
    @classmethod
    def _text_only(cls, content: Any) -> Any:
        for part in cast("list[Any]", content) if isinstance(content, list) else []:
            kind = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else type(part).__name__
            if kind != "text":
                raise ValueError(f"a part of type {kind!r}: only text is taken, no image, audio or video")
        return content

    @model_validator(mode="after")
    def _fits_its_role(self) -> "Message":
        if self.content is None and not self.tool_calls:
            raise ValueError(f"a {self.role} message without content says nothing")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("tool_calls belong to an assistant message")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError("tool_call_id belongs to a tool message, and a tool message needs it")
        return self


class FunctionDefinition(_Frozen):
    """``parameters`` is a JSON Schema."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class Tool(_Frozen):
    """A function that the model may call."""

    type: Literal["function"]
    function: FunctionDefinition


class NamedFunction(_Frozen):
    name: FunctionName


class NamedTool(_Frozen):
    """The one function that must be called."""

    type: Literal["function"]
    function: NamedFunction


class StructuredOutputs(_Frozen):
    """The constraint on an answer's form; exactly one. Sent as vLLM's ``structured_outputs``."""

    json_schema: dict[str, JsonValue] | None = None
    regex: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    choice: Annotated[tuple[str, ...], Field(min_length=1, max_length=1_000)] | None = None
    grammar: Annotated[str, StringConstraints(min_length=1, max_length=100_000)] | None = None

    @model_validator(mode="after")
    def _one_constraint(self) -> "StructuredOutputs":
        if sum(value is not None for _, value in self) != 1:
            raise ValueError("give exactly one of json_schema, regex, choice and grammar")
        return self


TemplateValue = bool | int | float | str
TemplateKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
