"""One line of a trace: a request's exact prompt, its parameters, when it is due and what it belongs to.

Optional fields are only ever added: an absent one leaves no byte, so an old trace keeps its digest.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from app.domain.conversation import (
    FORBIDDEN_TEMPLATE_KEYS,
    Message,
    NamedTool,
    StructuredOutputs,
    TemplateKey,
    TemplateValue,
    Tool,
)
from app.domain.scoring.question import Question
from app.domain.vocabulary import NS_PER_S, Name, Sha256
from app.domain.written import Share, positive_zero

DAY_NS = 86_400 * NS_PER_S
RequestId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Penalty = Annotated[float, Field(ge=-2, le=2), AfterValidator(positive_zero)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Stop = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
SinceDue = Annotated[int, Field(gt=0, le=DAY_NS)]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SamplingOverrides(_Frozen):
    """What this request samples by instead of the manifest's ``sampling``; absent means: as the manifest says."""

    temperature: Annotated[float, Field(ge=0, le=2), AfterValidator(positive_zero)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    min_p: Share | None = None
    """May be recorded; vLLM refuses it, and ``logit_bias``, together with speculation."""
    seed: Seed | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    logit_bias: (
        Annotated[dict[Annotated[str, StringConstraints(pattern=r"^\d{1,10}$")], float], Field(max_length=1024)] | None
    ) = None
    min_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    ignore_eos: bool | None = None


class TurnLink(_Frozen):
    """A request's place in a session. The turns of a session stand in the file in their order."""

    session: RequestId
    index: Annotated[int, Field(ge=0, le=10_000)]
    """0 for the first turn, which has no ``previous``."""
    previous: RequestId | None = None
    answer: Literal["recorded", "own"]
    """``recorded``: the messages are sent as they stand, when due (open loop). ``own``: each earlier answer is replaced
    by what this arm said, and the turn is due ``think_ns`` after the one before ended (closed inside the session)."""
    think_ns: Annotated[int, Field(ge=0, le=DAY_NS)] = 0

    @model_validator(mode="after")
    def _previous_from_the_second_turn_on(self) -> "TurnLink":
        if (self.previous is None) != (self.index == 0):
            raise ValueError("the first turn (index 0) has no previous, every later one needs it")
        return self


class TraceRequest(_Frozen):
    """One request. ``due_ns`` counts from the start of its load point's replay.

    The prompt is exactly one of ``prompt_token_ids``, ``prompt``, ``messages`` (sent to the chat route) and, in privacy
    mode, ``prompt_hash``. One answer is asked for (n = 1).
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [form]} for form in ("prompt_token_ids", "prompt", "messages", "prompt_hash")]
        }
    )

    request_id: RequestId
    load: Name
    due_ns: Annotated[int, Field(ge=0, lt=2**62)]
    prompt_token_ids: Annotated[tuple[TokenId, ...], Field(min_length=1)] = ()
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    stop: Annotated[tuple[Stop, ...], Field(max_length=64)] = ()
    strata: dict[Name, Name]
    """Dimension → label, such as ``{"task": "copy", "input": "short"}``; ``task`` is required."""
    prompt_text: str | None = None
    """What the token ids say, for people; never sent."""
    reference: str | None = None
    """The right answer, where the task has one; used by scorers, never sent."""
    prompt: Annotated[str, StringConstraints(min_length=1)] | None = None
    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=2_000)] = ()
    prompt_hash: Sha256 | None = None
    """The keyed hash of a text that only the worker has (privacy mode)."""
    input_tokens: Annotated[int, Field(ge=1)] | None = None
    """The length of a prompt given as text, messages or hash, as it was counted when the trace was made."""
    sampling: SamplingOverrides | None = None
    structured_outputs: StructuredOutputs | None = None
    tools: Annotated[tuple[Tool, ...], Field(max_length=128)] = ()
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    chat_template_kwargs: Annotated[dict[TemplateKey, TemplateValue], Field(max_length=32)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """Ask for the log probability of each token and of this many alternatives."""
    deadline_ns: SinceDue | None = None
    """Given up when it has not ended this long after it was due; a miss."""
    cancel_at_ns: SinceDue | None = None
    """The client closes the connection this long after the request was due, on purpose."""
    salt_group: Name | None = None
    """Requests share cached prefixes only within their group; absent: all of a load point share one."""
    turn: TurnLink | None = None
    tests: str | None = None
    """Python assertions that a right answer passes; used by scorers, never sent."""

    @property
    def prompt_tokens(self) -> int | None:
        """Length of the prompt in tokens; ``None`` where only the engine will know."""
        return len(self.prompt_token_ids) or self.input_tokens

    @property
    def question(self) -> Question:
        """What a scorer may know of it."""
        asked = self.structured_outputs
        return Question(
            reference=self.reference,
            json_schema=asked.json_schema if asked else None,
            pattern=asked.regex if asked else None,
            tests=self.tests,
        )

    @property
    def planned_end(self) -> Literal["cancel", "deadline"] | None:
        """How the trace itself may end this request early: by whichever comes first."""
        if self.cancel_at_ns is not None and self.cancel_at_ns <= (self.deadline_ns or self.cancel_at_ns):
            return "cancel"
        return None if self.deadline_ns is None else "deadline"

    @field_validator("strata")
    @classmethod
    def _has_a_task(cls, strata: dict[str, str]) -> dict[str, str]:
        if "task" not in strata:
            raise ValueError('there is no task label; add "task"')
        return strata

    @field_validator("chat_template_kwargs", mode="after")
    @classmethod
    def _no_template(cls, given: dict[str, TemplateValue] | None) -> dict[str, TemplateValue] | None:
        refused = sorted(FORBIDDEN_TEMPLATE_KEYS & (given or {}).keys())
        if refused:
            raise ValueError(f"{refused[0]} is refused: a template inside a request would be code from the trace")
        return given

    @model_validator(mode="after")
    def _one_prompt(self) -> "TraceRequest":
        forms = [
            bool(self.prompt_token_ids),
            self.prompt is not None,
            bool(self.messages),
            self.prompt_hash is not None,
        ]
        if sum(forms) != 1:
            raise ValueError("give exactly one of prompt_token_ids, prompt, messages and prompt_hash")
        if self.prompt_token_ids and self.input_tokens is not None:
            raise ValueError("input_tokens is for a prompt without token ids; leave it out")
        if self.prompt_text is not None and not self.prompt_token_ids:
            raise ValueError("prompt_text goes with prompt_token_ids; a text to be sent is `prompt`")
        return self

    @model_validator(mode="after")
    def _chat_only_with_messages(self) -> "TraceRequest":
        chat_only = {
            "tools": bool(self.tools),
            "chat_template_kwargs": self.chat_template_kwargs is not None,
            "turn.answer: own": self.turn is not None and self.turn.answer == "own",
        }
        without = [name for name, is_given in chat_only.items() if is_given and not self.messages]
        if without:
            raise ValueError(f"{without[0]} needs messages")
        return self

    @model_validator(mode="after")
    def _choice_is_offered(self) -> "TraceRequest":
        if self.tool_choice is None:
            return self
        offered = {tool.function.name for tool in self.tools}
        if not offered:
            raise ValueError("tool_choice needs tools")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in offered:
            raise ValueError(f"tool_choice names {self.tool_choice.function.name}, which tools does not offer")
        return self
