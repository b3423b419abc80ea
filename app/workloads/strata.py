"""Labels that can be read off a request. What cannot be known gets no label; what the source declares is kept."""

import re
from collections.abc import Iterator, Mapping

from app.domain.output_length import OUTPUT_EDGES, bucket
from app.domain.trace_request import TraceRequest
from app.workloads.languages import language_label
from app.workloads.readers.conversations import USER, text_of

NGRAM = 3
REPETITIVE_SHARE = 0.5
INPUT_EDGES = (128, 512, 2_048, 8_192, 32_768)
TASK = "task"
NO_TASK = "unlabelled"
_UNITS = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]|\w+|[^\w\s]")
"""Words and marks; scripts without spaces are taken character by character."""


def infer(request: TraceRequest, text: str | None, declared: Mapping[str, str]) -> dict[str, str]:
    """All labels of a request. ``text`` is what it asks, where that is known; ``declared`` labels win."""
    return dict(_inferred(request, text)) | {TASK: NO_TASK} | dict(declared)


def repetition(prompt: str, reference: str) -> float | None:
    """Share of the reference's word triples that occur in the prompt: what prompt lookup can copy.

    None where the reference is shorter than a triple.
    """
    triples = list(_ngrams(reference))
    if not triples:
        return None
    known = set(_ngrams(prompt))
    return sum(triple in known for triple in triples) / len(triples)


def _inferred(request: TraceRequest, text: str | None) -> Iterator[tuple[str, str]]:
    if request.prompt_tokens is not None:
        yield "input", bucket(request.prompt_tokens, INPUT_EDGES)
    yield "output", bucket(request.max_tokens, OUTPUT_EDGES)
    yield "turns", "multi" if _is_multi_turn(request) else "single"
    yield "constraint", _constraint(request)
    yield "sampling", _sampling(request)
    if request.turn is not None:
        yield "turn", "later" if request.turn.index else "first"
    if text is not None:
        yield "language", language_label(text)
    share = repetition(text, request.reference) if text is not None and request.reference is not None else None
    if share is not None:
        yield "repetitive", "yes" if share >= REPETITIVE_SHARE else "no"


def _is_multi_turn(request: TraceRequest) -> bool:
    asked = sum(message.role == USER and bool(text_of(message)) for message in request.messages)
    return asked > 1 or (request.turn is not None and request.turn.index > 0)


def _sampling(request: TraceRequest) -> str:
    """``manifest`` where the request says nothing of its own."""
    if request.sampling is None or request.sampling.temperature is None:
        return "manifest"
    return "sampled" if request.sampling.temperature else "greedy"


def _constraint(request: TraceRequest) -> str:
    if request.structured_outputs is not None:
        return next(name.removesuffix("_schema") for name, value in request.structured_outputs if value is not None)
    return "tools" if request.tools else "none"


def _ngrams(text: str) -> Iterator[tuple[str, ...]]:
    units = _UNITS.findall(text)
    return zip(*(units[start:] for start in range(NGRAM)), strict=False)
