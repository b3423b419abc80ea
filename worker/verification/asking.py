"""Ask one server, by the product's own client: the bytes are those of a measured request, only the load is our own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from app.domain.canonical import digest
from app.domain.greedy import Prompt
from app.domain.launch import LaunchSpec
from app.domain.manifest import Sampling
from app.domain.observation import RequestObservation
from app.domain.trace_request import SamplingOverrides, TraceRequest
from app.domain.verified import VerificationMode, VerifiedAnswer
from app.domain.vocabulary import Outcome
from worker.replay.plan import ReplayPlan, ReplayRequest
from worker.replay.process import ReplayClient
from worker.requests import replay_plan

CLIENTS_MAX = 8

Prompts = Mapping[str, tuple[TraceRequest, ...]]
"""Workload → the requests to be asked."""


@dataclass(frozen=True, slots=True)
class Asker:
    """One started server; ``salt`` is its own, so that no prefix survives from anything that it was asked before."""

    client: ReplayClient
    server: LaunchSpec
    sampling: Sampling
    """The experiment's."""
    directory: Path
    salt: str
    clients_max: int = CLIENTS_MAX
    cores: tuple[int, ...] = ()

    async def ask(self, prompts: Prompts, mode: VerificationMode, *, repeats: int = 1) -> tuple[VerifiedAnswer, ...]:
        """Every prompt ``repeats`` times, in a closed loop: of one client where ``mode`` is ``SINGLE``.

        Raises ``ReplayFailed``. A request that was not answered in full is an answer with an error.
        """
        if not any(prompts.values()):
            return ()
        clients = 1 if mode is VerificationMode.SINGLE else self.clients_max
        plan, asked = _together(list(self._plans(prompts, mode, repeats)), clients)
        record = await self.client.replay(plan, self._recording(mode))
        return tuple(_answer(mode, *asked[o.request_id], o) for o in record.observations)

    def _plans(self, prompts: Prompts, mode: VerificationMode, repeats: int) -> Iterator[tuple[str, int, ReplayPlan]]:
        for repeat in range(repeats):
            for workload, requests in prompts.items():
                if requests:
                    salt = digest(f"{self.salt}/{mode}/{workload}/{repeat}".encode())[:32]
                    plan = replay_plan(
                        requests, self.sampling, salt=salt, server=self.server, cores=self.cores, spin_ns=0, clients=1
                    )
                    yield workload, repeat, plan

    def _recording(self, mode: VerificationMode) -> Path:
        """A directory that no recording has used."""
        names = (self.directory / f"{mode.replace(' ', '-')}-{number}" for number in count())
        return next(path for path in names if not path.exists())


def greedily(prompts: Prompts) -> Prompts:
    """The same requests at temperature 0, whatever they or the manifest say; nothing else of them is changed."""
    return {workload: tuple(map(_greedy, requests)) for workload, requests in prompts.items()}


def _greedy(request: TraceRequest) -> TraceRequest:
    own = request.sampling or SamplingOverrides()
    return request.model_copy(update={"sampling": own.model_copy(update={"temperature": 0.0})})


def _together(
    plans: list[tuple[str, int, ReplayPlan]], clients: int
) -> tuple[ReplayPlan, dict[str, tuple[Prompt, int]]]:
    """One plan for all of them, since starting a replay costs more than a short answer; names are made to differ."""
    asked: dict[str, tuple[Prompt, int]] = {}
    requests: list[ReplayRequest] = []
    for workload, repeat, plan in plans:
        for request in plan.requests:
            name = f"{workload}/{repeat}/{request.request_id}"
            asked[name] = Prompt(workload, request.request_id), repeat
            requests.append(replace(request, request_id=name, due_ns=len(requests)))
    return replace(plans[0][2], requests=tuple(requests), clients=clients), asked


def _answer(mode: VerificationMode, prompt: Prompt, repeat: int, observation: RequestObservation) -> VerifiedAnswer:
    failed = None if observation.outcome is Outcome.SUCCESS else f"{observation.outcome}: {observation.error}"
    return VerifiedAnswer(
        mode=mode,
        workload=prompt.workload,
        request_id=prompt.request_id,
        repeat=repeat,
        token_ids=observation.token_ids,
        text=observation.text,
        finish_reason=observation.finish_reason,
        error=failed,
    )
