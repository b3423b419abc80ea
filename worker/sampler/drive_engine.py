"""Run by a runtime's own Python, alone: drives the rejection sampler of the vLLM installed there, prints counts.

It imports nothing of this project. The first argument is a file of cases with fixed logits; what comes out is counted
here and judged elsewhere. A case that this engine cannot do is printed with its error, never guessed.
"""

# pyright: reportMissingImports=false
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PROTOCOL = 1
PLACEHOLDER = -1
CPU_FALLBACKS = ("_postprocess_triton",)
"""Where older runners put their native kernels in place of Triton's."""


def main() -> None:
    """Answer on the real stdout; whatever the engine prints meanwhile goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked = json.loads(Path(sys.argv[1]).read_text())
    json.dump(drive(asked), answer)
    answer.flush()
    # Threads and finalizers of the engine must not change the answer's exit status.
    os._exit(0)


def drive(asked: dict[str, Any]) -> dict[str, Any]:
    """Every case of ``asked``, and what was driven."""
    import torch

    torch.manual_seed(asked["seed"])
    how = prepare()
    broken = parameters_lost()
    passes = {"as_installed": [one(case, asked["samples"]) for case in asked["cases"]]}
    if broken:
        repair()
        passes["repaired"] = [one(case, asked["samples"]) for case in asked["cases"]]
    return {"protocol": PROTOCOL, **how, "parameters_lost": broken, **passes, "not_driven": not_driven()}


def one(case: dict[str, Any], samples: int) -> dict[str, Any]:
    """The counts of one case, or the error that it ended with."""
    started = time.monotonic()
    try:
        counted = {"counts": count(case, samples), "error": None}
    except Exception as error:  # noqa: BLE001  (the engine's own code: whatever it raises is the answer)
        counted = {"counts": None, "error": f"{type(error).__name__}: {error}"[:600]}
    return {"name": case["name"], "seconds": time.monotonic() - started, **counted}


def prepare() -> dict[str, str]:
    """Put the engine's native kernels in place as its own start-up does, and say which sampler this is."""
    import vllm
    from vllm.platforms import current_platform
    from vllm.triton_utils import HAS_TRITON

    kernels = "triton"
    current_platform.import_kernels()
    # A platform answers None for what it does not have, so `hasattr` says nothing.
    register = getattr(current_platform, "register_triton_kernel_overrides", None)
    if register is not None:
        register()
    if not HAS_TRITON:
        kernels = "the platform's own" if register is not None else older_fallbacks()
    return {
        "version": vllm.__version__,
        "device": current_platform.device_type,
        "kernels": kernels,
        "sampler": "vllm.v1.sample.rejection_sampler.RejectionSampler",
    }


def older_fallbacks() -> str:
    """Before 0.32 the CPU runner did it itself."""
    from vllm.v1.worker import cpu_model_runner

    runner = cpu_model_runner.CPUModelRunner
    for name in CPU_FALLBACKS:
        if hasattr(runner, name):
            getattr(runner, name)(object.__new__(runner))
            return "the CPU runner's own"
    raise RuntimeError("this version's CPU runner has no place that puts its native kernels in")


def parameters_lost() -> str:
    """How a row's sampling parameters fail to reach the row's draft places; empty where they reach them."""
    import torch
    from vllm.platforms import current_platform
    from vllm.v1.sample.rejection_sampler import expand_batch_to_tokens

    device = torch.device(current_platform.device_type)
    ends = torch.tensor([2, 5], dtype=torch.int32, device=device)
    lost = []
    for name, values in (("temperature", [0.7, 1.5]), ("top_p", [0.5, 0.9]), ("top_k", [4, 7])):
        given = torch.tensor(values, dtype=torch.int32 if name == "top_k" else torch.float32, device=device)
        reached = expand_batch_to_tokens(given, ends, 5).tolist()
        if reached != given.repeat_interleave(torch.tensor([2, 3], device=device)).tolist():
            lost.append(name)
    return f"{', '.join(lost)}: expand_batch_to_tokens returns other values than the rows have" if lost else ""


def repair() -> None:
    """Expand parameters as they are meant to be, to see whether anything else is wrong."""
    import torch
    from vllm.v1.sample import rejection_sampler

    def expand(x: Any, ends: Any, _count: int, replace_from: int = 0, replace_to: int = 0) -> Any:
        x = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
        return x.repeat_interleave(torch.diff(ends, prepend=ends.new_zeros(1)))

    rejection_sampler.expand_batch_to_tokens = expand


def count(case: dict[str, Any], samples: int) -> dict[str, Any]:
    """Counts of what comes out of so many rows of one case."""
    totals: dict[str, Any] = {}
    left = samples
    while left > 0:
        rows = min(left, case["rows"])
        add(totals, case, *outputs(case, rows, samples - left))
        left -= rows
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in totals.items()}


def outputs(case: dict[str, Any], rows: int, before: int) -> tuple[Any, Any, Any]:
    """Drafted tokens, the engine's output and which rows were greedy."""
    import torch
    from vllm.platforms import current_platform
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler

    device = torch.device(current_platform.device_type)
    target = torch.tensor(case["target_logits"], dtype=torch.float32)
    k = len(case["target_logits"]) - 1
    drafted = draft(case, rows, k)
    greedy = torch.arange(rows) % case["greedy_every"] == 0 if case["greedy_every"] else torch.zeros(rows, dtype=bool)
    sampled = RejectionSampler(Sampler())(
        speculation(drafted.to(device)),
        draft_probabilities(case, rows, device),
        target.repeat(rows, 1).to(device),
        metadata(case, drafted, greedy, device, before),
    )
    return drafted, sampled.sampled_token_ids.cpu().long(), greedy


def draft(case: dict[str, Any], rows: int, k: int) -> Any:
    """Tokens drawn from the draft's probabilities, or the same fixed ones in each row."""
    import torch

    if case["draft_tokens"] is not None:
        return torch.tensor(case["draft_tokens"], dtype=torch.int64).repeat(rows, 1)
    probabilities = torch.tensor(case["draft_probabilities"], dtype=torch.float64)
    columns = [torch.multinomial(probabilities[place], rows, replacement=True) for place in range(k)]
    return torch.stack(columns, dim=1)


def draft_probabilities(case: dict[str, Any], rows: int, device: Any) -> Any:
    """As a probabilistic draft hands them over; ``None`` as from ngram or a greedy draft."""
    import torch

    if not case["hands_over_probabilities"]:
        return None
    return torch.tensor(case["draft_probabilities"], dtype=torch.float32).repeat(rows, 1).contiguous().to(device)


def speculation(drafted: Any) -> Any:
    """The engine's own description of a batch in which every row has k drafts."""
    import torch
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

    rows, k = drafted.shape
    numbers = torch.arange(1, rows + 1, device=drafted.device, dtype=torch.int32)
    places = torch.arange(rows * (k + 1), device=drafted.device, dtype=torch.int32)
    return SpecDecodeMetadata(
        draft_token_ids=drafted.flatten().to(torch.int32).contiguous(),
        num_draft_tokens=[k] * rows,
        cu_num_draft_tokens=numbers * k,
        cu_num_sampled_tokens=numbers * (k + 1),
        target_logits_indices=places[places % (k + 1) != k].contiguous(),
        bonus_logits_indices=places[places % (k + 1) == k].contiguous(),
        logits_indices=places,
    )


def metadata(case: dict[str, Any], drafted: Any, greedy: Any, device: Any, before: int) -> Any:
    """Sampling parameters of each row, as the engine's input batch makes them."""
    import torch
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata

    rows = len(greedy)
    temperature = torch.full((rows,), case["temperature"], dtype=torch.float32)
    temperature[greedy] = 0.0
    penalties = case["penalties"]

    def filled(value: float) -> Any:
        return torch.full((rows,), value, dtype=torch.float32, device=device)

    def limit(name: str, dtype: Any) -> Any:
        return None if case[name] is None else torch.full((rows,), case[name], dtype=dtype, device=device)

    return SamplingMetadata(
        temperature=temperature.to(device),
        all_greedy=bool(greedy.all()),
        all_random=not bool(greedy.any()),
        top_p=limit("top_p", torch.float32),
        top_k=limit("top_k", torch.int32),
        generators=generators(case, rows, device, before),
        max_num_logprobs=None,
        no_penalties=penalties is None,
        prompt_token_ids=prompts(case, rows, device),
        frequency_penalties=filled(penalties["frequency"] if penalties else 0.0),
        presence_penalties=filled(penalties["presence"] if penalties else 0.0),
        repetition_penalties=filled(penalties["repetition"] if penalties else 1.0),
        output_token_ids=[list(case["already_said"]) for _ in range(rows)],
        spec_token_ids=drafted.tolist(),
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors(),
    )


def prompts(case: dict[str, Any], rows: int, device: Any) -> Any:
    """Only penalties read them."""
    import torch

    if case["penalties"] is None:
        return None
    return torch.tensor(case["prompt"], dtype=torch.int64, device=device).repeat(rows, 1)


def generators(case: dict[str, Any], rows: int, device: Any, before: int) -> dict[int, Any]:
    """Rows of requests that state a seed have a generator each."""
    import torch

    every = case["seeded_every"]
    if not every:
        return {}
    return {row: torch.Generator(device).manual_seed(before + row + 1) for row in range(0, rows, every)}


def add(totals: dict[str, Any], case: dict[str, Any], drafted: Any, out: Any, greedy: Any) -> None:
    """Add one batch's counts; ``outcome`` is by place, 0 for a recovered and 1 for an accepted token, and token."""
    import torch

    size, k = len(case["target_logits"][0]), drafted.shape[1]
    width = (out != PLACEHOLDER).sum(1)
    for row in torch.nonzero(greedy).flatten().tolist():
        key = f"{drafted[row].tolist()} {out[row, : width[row]].tolist()}"
        found = totals.setdefault("greedy", {})
        found[key] = found.get(key, 0) + 1
    out, width = out[~greedy], width[~greedy]
    for name, shape in (("outcome", (k, 2, size)), ("bonus", (size,)), ("pairs", (k, size, size))):
        totals.setdefault(name, torch.zeros(shape, dtype=torch.int64))
    for place in range(k):
        here = width > place
        accepted = (width[here] > place + 1).long()
        both = torch.bincount(accepted * size + out[here, place], minlength=2 * size)
        totals["outcome"][place] += both.reshape(2, size)
        on = width > place + 1
        joint = torch.bincount(out[on, place] * size + out[on, place + 1], minlength=size * size)
        totals["pairs"][place] += joint.reshape(size, size)
    totals["bonus"] += torch.bincount(out[width == k + 1, k], minlength=size)


def not_driven() -> dict[str, str]:
    """Rejection sampling that this version has and that is not driven here → why."""
    found: dict[str, str] = {}
    try:
        importlib.import_module("vllm.v1.worker.gpu.spec_decode.rejection_sampler")
        found["model runner V2"] = "its sampler takes the runner's own input batch, which needs a started engine"
    except Exception as error:  # noqa: BLE001
        found["model runner V2"] = f"{type(error).__name__}: {error}"[:300]
    return found


if __name__ == "__main__":
    main()
