"""Each method's own sums beside the engine's counters: a few real prompts through the product's own client.

Streaming completions with per-request metrics, two scrapes at rest, and the functions that a report uses.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tokenizers import Tokenizer

from app.demo.workloads import build_traces, demo_loads
from app.domain.engine_version import PER_REQUEST_SPECULATION_FLAG
from app.domain.errors import DomainError
from app.domain.evidence import RunEvidence
from app.domain.exposition import counter_deltas
from app.domain.launch import LaunchSpec
from app.domain.lifecycle import RunState
from app.domain.manifest import Manifest
from app.domain.observation import RequestObservation
from app.domain.trace import TraceRequest
from app.domain.vocabulary import Method, Outcome
from worker.accelerators import whole_host
from worker.cores import split_cores
from worker.engine.scrape import quiesced
from worker.engine.server import VllmServer
from worker.matrix.cases import CASES, Case
from worker.matrix.conduct import HOME, Matrix, launch
from worker.matrix.reconciled import Reconciled, reconciled
from worker.matrix.trial import REQUEST_TIMEOUT_S, STARTUP_TIMEOUT_S
from worker.replay.process import ReplayClient
from worker.requests import replay_plan

PROMPTS = (12, 8)
"""Of the demo's two workloads: answers that mostly end by themselves, and answers that are cut off."""
CLIENTS = 4
"""So many requests share a step, as in a measurement."""
LOAD = "reconciliation"
RECONCILED = ("target_only", "ngram", "suffix", "draft_model", "eagle", "medusa", "mtp, target with a module")
"""Rows of the matrix; each is a way to draft that counts for itself."""


def cases_to_reconcile(matrix: Matrix, only: Sequence[str] = ()) -> tuple[Case, ...]:
    """The rows that this runtime can serve: suffix decoding only where its library is."""
    here = {Method.TARGET_ONLY, *matrix.capability.methods}
    if not matrix.runtime.has_suffix_decoding:
        here.discard(Method.SUFFIX)
    wanted = [case for case in CASES if case.name in RECONCILED and case.method in here]
    return tuple(case for case in wanted if not only or case.name in only or case.method in only)


async def reconcile_methods(matrix: Matrix, only: Sequence[str] = ()) -> list[Reconciled]:
    """Every row. Raises ``DomainError`` where an experiment holds the accelerator, ``StartupFailed`` for its engine."""
    with whole_host(matrix.settings) as ours:
        if not ours:
            raise DomainError.of("accelerator", "an experiment is running on this host", "wait for it, or cancel it")
        async with ReplayClient() as client:
            return [await _reconcile(matrix, case, client) for case in cases_to_reconcile(matrix, only)]


@dataclass(frozen=True, slots=True)
class _Served:
    """What one fresh server of a case was asked and counted."""

    run: RunEvidence
    k: int
    counts_per_request: bool


async def _reconcile(matrix: Matrix, case: Case, client: ReplayClient) -> Reconciled:
    matrix.say(f"starting {matrix.runtime.name} for {case.name}")
    with tempfile.TemporaryDirectory(prefix="vd-") as scratch:
        served = await _serve(matrix, case, client, Path(scratch))
    return reconciled(served.run, served.k, counts_per_request=served.counts_per_request)


async def _serve(matrix: Matrix, case: Case, client: ReplayClient, scratch: Path) -> _Served:
    spec, asked = launch(matrix, case, scratch)
    if asked is None:
        raise DomainError.of("case", f"no manifest can ask for {case.name}", "name another row")
    manifest, arm = asked
    async with _server(matrix, case, spec) as server:
        before = await quiesced(server.socket_path)
        observations = await _replay(
            manifest, server, client, scratch, prompts(matrix.settings.model_root / case.target)
        )
        counters = counter_deltas(before.exposition, (await quiesced(server.socket_path)).exposition)
    run = RunEvidence(
        block=0,
        arm=arm.name,
        workload=case.name,
        load=LOAD,
        state=RunState.SUCCEEDED,
        observations=observations,
        counters=counters,
    )
    told = PER_REQUEST_SPECULATION_FLAG not in spec.left_out
    return _Served(run, arm.speculation.num_speculative_tokens or 0, told)


def _server(matrix: Matrix, case: Case, spec: LaunchSpec) -> VllmServer:
    logs = matrix.settings.home / HOME / "logs" / matrix.runtime.name
    logs.mkdir(parents=True, exist_ok=True)
    return VllmServer(
        spec,
        logs / f"reconcile-{case.method}.log",
        tag=f"reconcile:{uuid4()}",
        startup_timeout_s=STARTUP_TIMEOUT_S,
        canary_timeout_s=REQUEST_TIMEOUT_S,
        model_facts_path=matrix.settings.home / "model-facts" / matrix.runtime.digest,
    )


async def _replay(
    manifest: Manifest,
    server: VllmServer,
    client: ReplayClient,
    scratch: Path,
    requests: tuple[TraceRequest, ...],
) -> tuple[RequestObservation, ...]:
    plan = replay_plan(
        requests, manifest.sampling, salt=LOAD, server=server.spec, cores=split_cores().client, clients=CLIENTS
    )
    observations = (await client.replay(plan, scratch / "replay")).observations
    failed = [o for o in observations if o.outcome is not Outcome.SUCCESS]
    if failed:
        words = f"{failed[0].request_id}: {failed[0].outcome}, {failed[0].error}"
        raise DomainError.of("engine", words, f"its log is {server.log_path}")
    return observations


def prompts(model: Path) -> tuple[TraceRequest, ...]:
    """The first requests of the demo's two workloads, all due at once: the clients take them in turn."""
    traces = build_traces(Tokenizer.from_file(str(model / "tokenizer.json")), demo_loads(2.0, 4.0))
    return tuple(
        request.model_copy(update={"request_id": f"{number}-{request.request_id}", "load": LOAD, "due_ns": 0})
        for number, (trace, count) in enumerate(zip(traces, PROMPTS, strict=True))
        for request in trace.of_load(trace.header.loads[0].name)[:count]
    )
