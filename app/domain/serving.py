"""What is the same in every arm: engine settings, request parameters, and the host they are pinned to.

``sampling``, ``hardware`` and ``software`` may be written as one line; both forms are the same manifest.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from app.domain.refusals import refusal
from app.domain.written import Share, Text, fields_of_line, positive_zero

HARDWARE_FORM: Final = "`1 x NVIDIA H200; single GPU`: how many, the model, and how they are joined"
SOFTWARE_FORM: Final = "`driver 570.1; cuda 12.8; os Debian GNU/Linux 12; kernel 6.1.0`"
SAMPLING_FORM: Final = "`temperature 0; top_p 1`"
UNQUANTIZED: Final = "none"

Quantization = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}$")]
"""``none``, or the engine's name of a format and its kernel, such as ``awq_marlin``; the runtime is asked for it."""
Penalty = Annotated[float, Field(ge=-2, le=2), AfterValidator(positive_zero)]
FileHash = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{64}|none)$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Serving(_Frozen):
    """Engine settings that are the same in every arm; each is passed explicitly."""

    dtype: Literal["bfloat16", "float16", "float32"]
    quantization: Quantization = UNQUANTIZED
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    max_model_len: Annotated[int, Field(ge=16, le=1_048_576)]
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] = 256
    prefix_caching: bool
    enforce_eager: bool = False
    async_scheduling: bool = False
    kv_cache_space_gib: Annotated[int, Field(ge=1, le=1024)] | None = None


class Sampling(_Frozen):
    """Request parameters that are the same in every arm and for every request."""

    temperature: Annotated[float, Field(ge=0, le=2), AfterValidator(positive_zero)]
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Below 2^32, since the engine is started with it too."""
    ignore_eos: bool = False
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    min_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_line(cls, value: Any) -> Any:
        return fields_of_line(value, SAMPLING_FORM)


class Hardware(_Frozen):
    """What the accelerator is; a worker refuses a manifest that names another."""

    accelerator: Text
    count: Annotated[int, Field(ge=1, le=64)]
    topology: Text

    @model_validator(mode="before")
    @classmethod
    def _one_line(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"\s*(\d{1,4}) x ([^;]*[^;\s])\s*;\s*(.*\S)\s*", value)
        if found is None:
            raise refusal("it is not a count, a model and a topology", f"write it in the form {HARDWARE_FORM}")
        return {"count": int(found[1]), "accelerator": found[2], "topology": found[3]}


class Software(_Frozen):
    """What the host runs beside the runtime; ``none`` where there is no such part."""

    driver: Text
    cuda: Text
    os: Text
    kernel: Text

    @model_validator(mode="before")
    @classmethod
    def _one_line(cls, value: Any) -> Any:
        return fields_of_line(value, SOFTWARE_FORM)


class Files(_Frozen):
    """Hashes of the target's own files that shape prompts and sampling; ``none`` where there is no such file."""

    tokenizer: FileHash
    chat_template: FileHash
    generation_config: FileHash
