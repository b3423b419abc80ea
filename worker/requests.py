"""From a trace to the exact bytes that every arm is sent."""

import json

from app.domain.canonical import digest
from app.domain.launch import LaunchSpec
from app.domain.manifest import Sampling
from app.domain.trace import TraceRequest
from app.domain.vocabulary import NS_PER_S, WARMUP
from worker.replay.plan import ReplayPlan, ReplayRequest

COMPLETIONS_PATH = "/v1/completions"
DRAIN_TIMEOUT_NS = 120 * NS_PER_S
LEAD_IN_NS = NS_PER_S // 2


def replay_plan(
    requests: tuple[TraceRequest, ...], sampling: Sampling, *, salt: str, server: LaunchSpec, cores: tuple[int, ...]
) -> ReplayPlan:
    """The replay of one load point's requests (or of the warm-up's) against the server of ``server``."""
    return ReplayPlan(
        socket_path=server.socket_path,
        host=None,
        port=None,
        path=COMPLETIONS_PATH,
        requests=tuple(
            ReplayRequest(
                request_id=r.request_id,
                due_ns=r.due_ns,
                body=completion_body(r, server.served_model_name, sampling, salt),
            )
            for r in requests
        ),
        drain_timeout_ns=DRAIN_TIMEOUT_NS,
        cores=cores,
        lead_in_ns=LEAD_IN_NS,
    )


def completion_body(request: TraceRequest, model: str, sampling: Sampling, salt: str) -> bytes:
    """The JSON body of one completion request; nothing in it depends on the arm."""
    body = {
        "model": model,
        "prompt": list(request.prompt_token_ids),
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "ignore_eos": sampling.ignore_eos,
        "stop": list(request.stop),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "cache_salt": salt,
    }
    return json.dumps(body, separators=(",", ":")).encode()


def cache_salt(experiment_id: str, block: int, workload: str, load: str = WARMUP) -> str:
    """The same in every arm of a block, fresh for each load point: no prefix survives from one run to the next."""
    return digest(f"{experiment_id}/{block}/{workload}/{load}".encode())[:32]
