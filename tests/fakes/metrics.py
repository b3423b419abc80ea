"""The fake engine's ``/metrics``: vLLM's names, labels and types, in its own exposition format."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SPECULATION = "vllm:spec_decode"
"""What the names of all speculative metrics begin with."""
REASONS = ("stop", "length", "abort", "error", "repetition")


class EngineMetrics:
    """Counters and gauges of one engine. ``num_spec_tokens`` of 0: speculation is off and its metrics absent.

    Metrics whose names begin with one of ``hides`` are counted and not exposed.
    """

    def __init__(self, model_name: str, num_spec_tokens: int, hides: Sequence[str] = ()) -> None:
        self._hides = tuple(hides)
        self._registry = CollectorRegistry()
        self._labels = {"engine": "0", "model_name": model_name}
        ProcessCollector(registry=self._registry)
        self.running = self._gauge("num_requests_running", "Number of requests in model execution batches.")
        self.waiting = self._gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self.kv_cache_usage = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        self.preemptions = self._counter("num_preemptions", "Cumulative number of preemption from the engine.")
        self._counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.")
        self._counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.")
        self.prompt_tokens = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        self.generation_tokens = self._counter("generation_tokens", "Number of generation tokens processed.")
        success = Counter("vllm:request_success", "Count of successfully processed requests.",
                          [*sorted([*self._labels, "finished_reason"])], registry=self._registry)  # fmt: skip
        self.success = {reason: success.labels(**self._labels, finished_reason=reason) for reason in REASONS}
        self.ttft = self._histogram("time_to_first_token_seconds", SECONDS)
        self.inter_token = self._histogram("inter_token_latency_seconds", SECONDS)
        self.e2e = self._histogram("e2e_request_latency_seconds", SECONDS)
        self.queue = self._histogram("request_queue_time_seconds", SECONDS)
        self.iteration_tokens = self._histogram("iteration_tokens_total", TOKENS)
        if num_spec_tokens:
            self._add_speculation(num_spec_tokens)

    def _add_speculation(self, num_spec_tokens: int) -> None:
        self._drafts = self._counter("spec_decode_num_drafts", "Number of spec decoding drafts.")
        self._drafted = self._counter("spec_decode_num_draft_tokens", "Number of draft tokens.")
        self.accepted = self._counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.")
        per_position = Counter("vllm:spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.",
                               [*self._labels, "position"], registry=self._registry)  # fmt: skip
        self._positions = [per_position.labels(**self._labels, position=str(j)) for j in range(num_spec_tokens)]

    def count_draft(self, drafted: int, accepted: int) -> None:
        """One step that had a draft."""
        self._drafts.inc()
        self._drafted.inc(drafted)
        self.accepted.inc(accepted)
        for position in self._positions[:accepted]:
            position.inc()

    def exposition(self) -> bytes:
        lines = generate_latest(self._registry).decode().splitlines(keepends=True)
        return "".join(line for line in lines if not self._is_hidden(line)).encode()

    def _is_hidden(self, line: str) -> bool:
        name = line.split(maxsplit=3)[2] if line.startswith("#") else line
        return bool(self._hides) and name.startswith(self._hides)

    def _counter(self, name: str, documentation: str) -> Counter:
        return Counter(f"vllm:{name}", documentation, [*self._labels], registry=self._registry).labels(**self._labels)

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(f"vllm:{name}", documentation, [*self._labels], registry=self._registry).labels(**self._labels)

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        metric = Histogram(f"vllm:{name}", f"Histogram of {name}.", [*self._labels], registry=self._registry,
                           buckets=buckets)  # fmt: skip
        return metric.labels(**self._labels)
