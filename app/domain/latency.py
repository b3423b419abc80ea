"""Latencies of one request and rates of one run; one function per metric, its formula in the docstring.

All latencies count from the *due* time, so that a slow client or server cannot hide waiting; those ``from_sent`` leave
the client's lateness out, as other tools do. An impossible order raises ``EvidenceRefused``, never a negative latency.
Integer nanoseconds, but where the formula divides: rounded, the parts would no longer sum to the whole.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import sub

from app.domain.errors import EvidenceRefused
from app.domain.manifest import Slo
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_MS, NS_PER_S, Outcome


def ttft_ns(observation: RequestObservation) -> int | None:
    """Time to first token: ``chunk_ns[0] - due_ns``; ``None`` without a token."""
    return _interval(observation, "ttft", observation.due_ns, _first_token_ns(observation))


def ttft_from_sent_ns(observation: RequestObservation) -> int | None:
    """Time to first token without the client's lateness: ``chunk_ns[0] - sent_ns``."""
    return _interval(observation, "ttft from sent", observation.sent_ns, _first_token_ns(observation))


def e2e_ns(observation: RequestObservation) -> int | None:
    """End-to-end time: last token (the end, where there is none) ``- due_ns``; ``None`` unless it succeeded."""
    if observation.outcome is not Outcome.SUCCESS:
        return None
    return _interval(observation, "e2e", observation.due_ns, _last_ns(observation))


def e2e_from_sent_ns(observation: RequestObservation) -> int | None:
    """End-to-end time without the client's lateness: last token (the end, where there is none) ``- sent_ns``."""
    if observation.outcome is not Outcome.SUCCESS:
        return None
    return _interval(observation, "e2e from sent", observation.sent_ns, _last_ns(observation))


def tpot_ns(observation: RequestObservation) -> float | None:
    """Time per output token: ``(last token - first token) / (n - 1)``; undefined for fewer than two tokens.

    One sample a request. What vLLM calls TPOT, and GuideLLM, AIPerf and genai-perf call inter-token latency.
    """
    tokens = output_tokens(observation)
    if tokens <= 1 or not observation.chunk_ns:
        return None
    span = _interval(observation, "tpot", observation.chunk_ns[0], observation.chunk_ns[-1])
    return None if span is None else span / (tokens - 1)


def itl_chunk_ns(observation: RequestObservation) -> tuple[int, ...]:
    """Inter-chunk times: ``chunk_ns[i] - chunk_ns[i-1]``; a chunk carries several tokens when drafts are accepted.

    One sample a chunk after the first. What vLLM and EvalScope call inter-token latency.
    """
    times = observation.chunk_ns
    gaps = tuple(map(sub, times[1:], times))  # millions of them: one at a time they are half of a report's work
    if gaps and min(gaps) < 0:
        wrong = next(place for place, gap in enumerate(gaps) if gap < 0)
        _interval(observation, "itl", times[wrong], times[wrong + 1])
    return gaps


def itl_token_ns(observation: RequestObservation) -> tuple[float, ...]:
    """Inter-token times shared out: each inter-chunk time divided by its chunk's tokens, once per token.

    One sample a token after the first chunk; none where the tokens of a chunk are not known. SGLang's definition.
    """
    shared = (repeat(gap / tokens, tokens) for gap, tokens in _gaps_with_tokens(observation))
    return tuple(chain.from_iterable(shared))


def itl_burst_ns(observation: RequestObservation) -> tuple[int, ...]:
    """Inter-token times as they were received: each inter-chunk time once, and 0 for the chunk's further tokens.

    One sample a token after the first; none where the tokens of a chunk are not known. inference-perf's definition.
    """
    in_first = observation.chunk_tokens[0] - 1 if _tokens_are_known(observation) else 0
    later = (sample for gap, tokens in _gaps_with_tokens(observation) for sample in (gap, *(0,) * (tokens - 1)))
    return (*(0,) * in_first, *later)


def lateness_ns(observation: RequestObservation) -> int | None:
    """How late the client sent: ``sent_ns - due_ns``; ``None`` if it never did."""
    return _interval(observation, "lateness", observation.due_ns, observation.sent_ns)


def is_good(observation: RequestObservation, slo: Slo) -> bool:
    """Success and ``ttft <= S1`` and ``tpot <= S2`` and ``e2e <= S3`` together (method A6).

    With one output token TPOT is undefined and its objective does not apply.
    """
    ttft, e2e, tpot = ttft_ns(observation), e2e_ns(observation), tpot_ns(observation)
    if e2e is None or ttft is None:
        return False
    return (
        ttft <= slo.ttft_ms * NS_PER_MS
        and e2e <= slo.e2e_ms * NS_PER_MS
        and (tpot is None or tpot <= slo.tpot_ms * NS_PER_MS)
    )


def output_tokens(observation: RequestObservation) -> int:
    """Tokens that the server says it delivered (``usage``), or else those received."""
    given = observation.completion_tokens
    return len(observation.token_ids) if given is None else given


def window_s(observations: Sequence[RequestObservation]) -> float | None:
    """Seconds from the first due time to the last end of any offered request; the same rule in every arm."""
    ends = [end for o in observations if (end := _last_ns(o)) is not None]
    if not ends:
        return None
    span = max(ends) - min(o.due_ns for o in observations)
    return span / NS_PER_S if span > 0 else None


def output_throughput_tps(observations: Sequence[RequestObservation], seconds: float) -> float:
    """Output tokens of successful requests per second of the window."""
    return sum(output_tokens(o) for o in observations if o.outcome is Outcome.SUCCESS) / seconds


def milliseconds(value_ns: float | None) -> float:
    """For quantiles over *offered* requests: an absent latency counts as infinitely slow."""
    return math.inf if value_ns is None else value_ns / NS_PER_MS


def _tokens_are_known(observation: RequestObservation) -> bool:
    """Without token ids a chunk carries an unknown number of tokens, recorded as 0.

    Raises ``EvidenceRefused`` where chunks claim other tokens than there are: no sample is made of a mere claim.
    """
    if not observation.chunk_tokens or 0 in observation.chunk_tokens:
        return False
    claimed, there = sum(observation.chunk_tokens), len(observation.token_ids)
    if claimed != there:
        raise EvidenceRefused.of(
            f"observations[{observation.request_id}].chunk_tokens",
            f"the chunks claim {claimed} tokens, and there are {there} token ids",
            "the recording is wrong: discard the run and measure it again",
        )
    return True


def _gaps_with_tokens(observation: RequestObservation) -> Iterator[tuple[int, int]]:
    """Each inter-chunk time with the tokens of the chunk that ended it; nothing unless all are known."""
    if _tokens_are_known(observation):
        yield from zip(itl_chunk_ns(observation), observation.chunk_tokens[1:], strict=True)


def _first_token_ns(observation: RequestObservation) -> int | None:
    return observation.chunk_ns[0] if observation.chunk_ns else None


def _last_ns(observation: RequestObservation) -> int | None:
    return observation.chunk_ns[-1] if observation.chunk_ns else observation.end_ns


def _interval(observation: RequestObservation, metric: str, start_ns: int | None, end_ns: int | None) -> int | None:
    if start_ns is None or end_ns is None:
        return None
    if end_ns < start_ns:
        raise EvidenceRefused.of(
            f"observations[{observation.request_id}].{metric}",
            f"ends at {end_ns} ns, before it starts at {start_ns} ns",
            "the recording is wrong: discard the run and measure it again",
        )
    return end_ns - start_ns
