"""The verification phase of a session: after its last run, while its server is still up, and never timed."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from app.domain.canonical import digest
from app.domain.evidence import Failure
from app.domain.lifecycle import SessionState
from app.domain.verified import VERIFIED_BLOCKS, VerificationMode, VerificationRecord
from app.domain.vocabulary import FailureClass
from worker.bench import Bench, RunFailed
from worker.engine.scrape import Sampler
from worker.measurement import Serving, cause_of_end
from worker.replay.process import ReplayFailed
from worker.verification.asking import CLIENTS_MAX, Asker, Prompts, greedily
from worker.verification.choosing import choose
from worker.verification.sampled import sample_server
from worker.watchdog import Watch, WatchdogAlarm, under_watch

T = TypeVar("T")


async def verify(bench: Bench, serving: Serving) -> None:
    """Ask the session's server what is asked of every arm, in the first blocks only, and record its answers.

    Raises ``RunFailed`` after recording where the engine did not survive it: that is evidence against the arm.
    """
    if bench.block_index >= VERIFIED_BLOCKS:
        return
    await bench.recorder.move_session(serving.session_id, SessionState.VERIFYING)
    choice = await asyncio.to_thread(choose, bench.traces, bench.manifest.schedule_seed)
    asking = verify_greedily(asker_of(bench, serving), choice.prompts, choice.left_out)
    record = await watched(bench, serving, asking)
    if bench.manifest.sampling.temperature > 0 and serving.server.alive():
        record = merged(record, await watched(bench, serving, _sampled(bench, serving, choice.prompts)))
    await bench.recorder.record_verification(serving.session_id, record)
    if dead := cause_of_end(serving.server):
        raise RunFailed(dead)


async def _sampled(bench: Bench, serving: Serving, prompts: Prompts) -> VerificationRecord:
    seeds = f"{bench.experiment_id}/{bench.block_index}"
    asker = asker_of(bench, serving)
    return await sample_server(asker, prompts, serving.arm, bench.manifest.schedule_seed, seeds=seeds)


async def verify_greedily(
    asker: Asker, prompts: Prompts, left_out: Mapping[str, str] | None = None
) -> VerificationRecord:
    """Ask greedily, first several at once and then one at a time. Raises ``ReplayFailed``."""
    greedy = greedily(prompts)
    concurrent = await asker.ask(greedy, VerificationMode.CONCURRENT)
    single = await asker.ask(greedy, VerificationMode.SINGLE)
    return VerificationRecord(answers=(*concurrent, *single), left_out={**(left_out or {})})


def asker_of(bench: Bench, serving: Serving) -> Asker:
    """Whoever asks the session's server."""
    return Asker(
        client=bench.client,
        server=serving.server.spec,
        sampling=bench.manifest.sampling,
        directory=serving.scratch / "verification",
        salt=digest(f"{bench.experiment_id}/{bench.block_index}/verification".encode()),
        clients_max=min(CLIENTS_MAX, bench.manifest.serving.max_num_seqs),
        cores=bench.cores.client,
    )


async def watched(bench: Bench, serving: Serving, asking: Coroutine[Any, Any, T]) -> T:
    """Ask under the watch that measured runs are under. Raises ``RunFailed``."""
    server = serving.server
    async with Sampler(server.socket_path, []) as sampler:
        try:
            return await under_watch(asking, Watch(bench.limits, sampler.newest, server.flood))
        except WatchdogAlarm as alarm:
            raise RunFailed(alarm.failure) from alarm
        except ReplayFailed as error:
            message = f"the client failed while verifying: {error}"
            raise RunFailed(Failure(failure_class=FailureClass.INFRA, message=message)) from error


def merged(*records: VerificationRecord) -> VerificationRecord:
    """What one server was asked in several parts."""
    return VerificationRecord(
        answers=tuple(answer for record in records for answer in record.answers),
        choices=tuple(choice for record in records for choice in record.choices),
        scored=tuple(one for record in records for one in record.scored),
        raw_logits=any(record.raw_logits for record in records),
        left_out={what: why for record in records for what, why in record.left_out.items()},
        token_texts={token: text for record in records for token, text in record.token_texts.items()},
    )
