"""A run as tools see it that know no due times: latencies count from the send, and only finished answers have them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.domain.latency import e2e_from_sent_ns, itl_chunk_ns, output_tokens, ttft_from_sent_ns
from app.domain.observation import RequestObservation
from app.domain.vocabulary import NS_PER_S, Outcome


@dataclass(frozen=True, slots=True)
class Answer:
    """One request, in seconds. As vLLM has it, what was never seen is 0."""

    request_id: str
    served: bool
    start_s: float
    """When it was sent, from the replay's start; when it was due, if it never was."""
    queue_s: float
    """Its lateness: what it waited in the client."""
    ttft_s: float
    itl_s: tuple[float, ...]
    latency_s: float
    input_tokens: int
    output_tokens: int

    @property
    def tpot_s(self) -> float | None:
        """``(latency - ttft) / (n - 1)``; ``None`` below two tokens."""
        return (self.latency_s - self.ttft_s) / (self.output_tokens - 1) if self.output_tokens > 1 else None


def answers(observations: Sequence[RequestObservation]) -> tuple[Answer, ...]:
    """Every offered request, in the order of the evidence. Raises ``EvidenceRefused`` for impossible times."""
    return tuple(map(_answer, observations))


def duration_s(observations: Sequence[RequestObservation]) -> float:
    """From the first due time to the last byte of any answer; 0 where nothing ended."""
    ends = [end for o in observations if (end := _end_ns(o)) is not None]
    return max(max(ends) - min(o.due_ns for o in observations), 0) / NS_PER_S if ends else 0.0


def per_second(amount: float, seconds: float) -> float:
    """A rate over the run; 0 over no time."""
    return amount / seconds if seconds else 0.0


def busiest_second(served: Sequence[Answer]) -> tuple[float, int]:
    """Most chunks within a second, and most requests that lived in one, as vLLM counts both: from the first send."""
    first = min((a.start_s for a in served), default=0.0)
    chunks, change = Counter[int](), Counter[int]()
    for answer in served:
        begun = answer.start_s - first
        chunks.update(int(at) for at in accumulate(answer.itl_s, initial=begun + answer.ttft_s))
        change[int(begun)] += 1
        change[int(begun + answer.latency_s) + 1] -= 1
    alive = accumulate(change[second] for second in sorted(change))
    return float(max(chunks.values(), default=0)), max(alive, default=0)


def _answer(observation: RequestObservation) -> Answer:
    served = observation.outcome is Outcome.SUCCESS
    begun = observation.due_ns if observation.sent_ns is None else observation.sent_ns
    return Answer(
        request_id=observation.request_id,
        served=served,
        start_s=begun / NS_PER_S,
        queue_s=(begun - observation.due_ns) / NS_PER_S,
        ttft_s=(ttft_from_sent_ns(observation) or 0) / NS_PER_S,
        itl_s=tuple(gap / NS_PER_S for gap in itl_chunk_ns(observation)),
        latency_s=(e2e_from_sent_ns(observation) or 0) / NS_PER_S,
        input_tokens=observation.prompt_tokens or 0,
        output_tokens=output_tokens(observation) if served else 0,
    )


def _end_ns(observation: RequestObservation) -> int | None:
    last = observation.chunk_ns[-1] if observation.chunk_ns else None
    return last if observation.end_ns is None else observation.end_ns
