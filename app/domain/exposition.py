"""Prometheus text of a vLLM server → samples, and counter differences between two scrapes.

Only vLLM's own metrics are kept; values are always summed over the labels not asked for (such
as ``engine``). A missing metric or a counter that went backwards is refused by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from app.domain.errors import EvidenceRefused
from app.domain.evidence import CounterDeltas
from app.domain.series import Series
from app.domain.startup import CanaryFacts

PREFIX = "vllm:"
START_TIME = "process_start_time_seconds"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV_CACHE_USAGE = "vllm:kv_cache_usage_perc"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
GENERATION_TOKENS = "vllm:generation_tokens_total"
REQUEST_SUCCESS = "vllm:request_success_total"
PREEMPTIONS = "vllm:num_preemptions_total"
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKENS = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

CACHE_CONFIG = "vllm:cache_config_info"
"""A configuration in the form of a metric; its labels are its values."""
SUMMED_LABELS = frozenset({"engine", "model_name"})

SeriesKey = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name and the labels that are kept."""

SERVED_REASONS = ("stop", "length", "repetition")
"""vLLM counts aborted and failed requests as "success" too; those reasons are left out."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the exposition."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """One scrape: full sample name (``vllm:prompt_tokens_total``) → its samples."""

    samples: Mapping[str, tuple[Sample, ...]]

    def has(self, name: str) -> bool:
        """Whether the server exposes the metric at all; the baseline has no speculative ones."""
        return name in self.samples

    def value(self, name: str, **labels: str) -> float:
        """The sum of the matching samples; ``EvidenceRefused`` names a metric or label that is not exposed."""
        found = [s.value for s in self.samples.get(name, ()) if labels.items() <= s.labels.items()]
        if not found:
            asked = "".join(f" with {key}={value}" for key, value in labels.items())
            raise EvidenceRefused.of(name, f"the server does not expose it{asked}", "use a runtime that does")
        return sum(found)

    def label_values(self, name: str, label: str) -> frozenset[str]:
        """Every value the label takes in the metric."""
        return frozenset(s.labels[label] for s in self.samples.get(name, ()) if label in s.labels)

    def summed(self) -> dict[SeriesKey, float]:
        """Every value but histogram buckets, summed over the labels that tell engines and models apart."""
        sums: dict[SeriesKey, float] = {}
        for name, samples in self.samples.items():
            if name.endswith("_bucket") or name == CACHE_CONFIG:
                continue
            for sample in samples:
                key = (name, frozenset(item for item in sample.labels.items() if item[0] not in SUMMED_LABELS))
                sums[key] = sums.get(key, 0.0) + sample.value
        return sums

    def counters(self) -> dict[SeriesKey, float]:
        """Every counter series of the server, for telling whether two scrapes are equal."""
        return {
            (name, frozenset(sample.labels.items())): sample.value
            for name, samples in self.samples.items()
            if name.endswith("_total")
            for sample in samples
        }


def parse_exposition(text: str) -> Exposition:
    """Keep ``vllm:`` metrics and the start time; ``*_created`` is ignored. Malformed text is refused."""
    samples: dict[str, list[Sample]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if _is_kept(sample.name):
                    samples.setdefault(sample.name, []).append(Sample(dict(sample.labels), sample.value))
    except ValueError as error:
        raise EvidenceRefused.of("metrics", f"not Prometheus text: {error}", "scrape a vLLM server") from error
    return Exposition({name: tuple(found) for name, found in samples.items()})


def _is_kept(name: str) -> bool:
    return name == START_TIME or (name.startswith(PREFIX) and not name.endswith("_created"))


def canary_facts(exposition: Exposition) -> CanaryFacts:
    """What a server that has answered its canary says of speculation so far."""
    if not exposition.has(DRAFT_TOKENS):
        return CanaryFacts(exposes_speculation=exposition.has(DRAFTS) or exposition.has(ACCEPTED_TOKENS))
    accepted = int(exposition.value(ACCEPTED_TOKENS)) if exposition.has(ACCEPTED_TOKENS) else None
    return CanaryFacts(exposes_speculation=True, drafted=int(exposition.value(DRAFT_TOKENS)), accepted=accepted)


def counter_deltas(before: Exposition, after: Exposition) -> CounterDeltas:
    """Differences over one run between two quiesced scrapes of one server.

    ``EvidenceRefused`` where a required metric is missing, a counter decreased, or the server restarted.
    """
    _refuse_restart(before, after)
    return CounterDeltas(
        prompt_tokens=_delta(before, after, PROMPT_TOKENS),
        generation_tokens=_delta(before, after, GENERATION_TOKENS),
        request_success=sum(_delta(before, after, REQUEST_SUCCESS, finished_reason=r) for r in _reasons(after)),
        num_preemptions=_delta(before, after, PREEMPTIONS),
        spec_decode_num_drafts=_optional_delta(before, after, DRAFTS),
        spec_decode_num_draft_tokens=_optional_delta(before, after, DRAFT_TOKENS),
        spec_decode_num_accepted_tokens=_optional_delta(before, after, ACCEPTED_TOKENS),
        spec_decode_num_accepted_tokens_per_pos=_per_position(before, after),
    )


def sampled(scrapes: Sequence[tuple[int, Exposition]]) -> tuple[Series, ...]:
    """Scrapes of one server as series; ``scrapes`` are (nanoseconds on the run's clock, scrape) in order of time.

    Histograms give their sum and count. Where a name is missing from a scrape its series has no sample there.
    """
    points: dict[SeriesKey, tuple[list[int], list[float]]] = {}
    for at_ns, exposition in scrapes:
        for key, value in exposition.summed().items():
            at, values = points.setdefault(key, ([], []))
            at.append(at_ns)
            values.append(value)
    return tuple(
        Series(name=name, labels=dict(labels), at_ns=tuple(at), values=tuple(values))
        for (name, labels), (at, values) in sorted(points.items(), key=lambda item: (item[0][0], sorted(item[0][1])))
    )


def _refuse_restart(before: Exposition, after: Exposition) -> None:
    if before.has(START_TIME) and after.has(START_TIME) and before.value(START_TIME) != after.value(START_TIME):
        raise EvidenceRefused.of(START_TIME, "it changed between the scrapes: the server restarted", "repeat the run")


def _reasons(after: Exposition) -> list[str]:
    exposed = after.label_values(REQUEST_SUCCESS, "finished_reason")
    return [reason for reason in SERVED_REASONS if reason in exposed] or [SERVED_REASONS[0]]


def _delta(before: Exposition, after: Exposition, name: str, **labels: str) -> int:
    delta = after.value(name, **labels) - before.value(name, **labels)
    if delta < 0:
        raise EvidenceRefused.of(name, f"the counter went backwards by {-delta:g}", "repeat the run on one server")
    if not delta.is_integer():
        raise EvidenceRefused.of(name, f"the counter moved by a fraction ({delta})", "check the server's version")
    return int(delta)


def _optional_delta(before: Exposition, after: Exposition, name: str) -> int | None:
    return _delta(before, after, name) if before.has(name) or after.has(name) else None


def _per_position(before: Exposition, after: Exposition) -> tuple[int, ...] | None:
    positions = after.label_values(ACCEPTED_PER_POSITION, "position")
    if not positions:
        return None
    expected = [str(position) for position in range(len(positions))]
    if positions != frozenset(expected):
        raise EvidenceRefused.of(ACCEPTED_PER_POSITION, f"positions are {sorted(positions)}", "they must count from 0")
    return tuple(_delta(before, after, ACCEPTED_PER_POSITION, position=position) for position in expected)
