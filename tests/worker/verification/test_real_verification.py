"""Asking again and forcing choices on the real vLLM: one target-only server that tells its logits."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.conversation import Message
from app.domain.greedy import Answer, Prompt
from app.domain.greedy_classes import Case, MismatchClass, classify
from app.domain.verified import ForcedChoice, VerificationMode, VerificationRecord
from tests.factories import make_manifest, make_trace
from tests.worker.engine.test_real_engine import spec
from worker.bench import LOGITS_FLAG, RAW_LOGITS
from worker.engine.server import VllmServer
from worker.replay.process import ReplayClient
from worker.verification.asking import Asker, Prompts
from worker.verification.diagnosis import answer_and_choose, answers_of
from worker.verification.phase import verify_greedily

pytestmark = pytest.mark.real_engine

IDS, TEXT, CHAT = (Prompt("kinds", name) for name in ("ids", "text", "chat"))
PLACE = 3


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Path(directory)


def prompts() -> Prompts:
    """One request of each way in which a prompt is given; each would sample if it were asked as it stands."""
    base = make_trace(max_tokens=12, sampling={"temperature": 1.5, "ignore_eos": True}).of_load("low")[0]
    plain = base.model_copy(update={"prompt_token_ids": ()})
    said = (Message(role="user", content="Copy: red lamps"),)
    return {
        "kinds": (
            base.model_copy(update={"request_id": "ids", "prompt_token_ids": (100, 200, 300, 400) * 4}),
            plain.model_copy(update={"request_id": "text", "prompt": "Ada has four red lamps. Ada has four"}),
            plain.model_copy(update={"request_id": "chat", "messages": said}),
        )
    }


def swapped(answer: Answer) -> Answer:
    """Another token at ``PLACE``."""
    ids = answer.token_ids
    return answer._replace(token_ids=(*ids[:PLACE], ids[PLACE] + 1, *ids[PLACE + 1 :]))


async def asked(scratch: Path) -> tuple[VerificationRecord, VerificationRecord]:
    launch = spec("target-only", scratch)
    launch = replace(launch, argv=(*launch.argv, LOGITS_FLAG, RAW_LOGITS))
    server = VllmServer(launch, scratch / "log", tag=f"real:{scratch.name}", startup_timeout_s=300)
    async with server, ReplayClient() as client:
        asker = Asker(client, launch, make_manifest().sampling, scratch / "asked", salt="s", clients_max=3)
        first = await verify_greedily(asker, prompts())
        said = answers_of([first])
        arms = {prompt: {swapped(answer) for answer in answers} for prompt, answers in said.items()}
        return first, await answer_and_choose(asker, prompts(), arms, said, raw_logits=True)


async def test_the_real_target_answers_again_and_tells_what_it_would_have_chosen(scratch: Path) -> None:
    first, again = await asked(scratch)
    assert not [a.error for a in (*first.answers, *again.answers) if a.error]
    assert not again.left_out
    said = answers_of([first, again])
    assert {prompt: len(answers) for prompt, answers in said.items()} == {IDS: 1, TEXT: 1, CHAT: 1}
    assert sum(a.mode is VerificationMode.SINGLE for a in again.answers) == 9
    assert len(again.choices) == 3
    for choice in again.choices:
        (answer,) = said[Prompt(choice.workload, choice.request_id)]
        assert choice.beginning == answer.token_ids[:PLACE]
        assert choice.alternatives[0].token_id == answer.token_ids[PLACE]
        assert choice.alternatives[0].logit > 0  # a logarithm of a probability never is
        assert choice.alternatives[0].token_id in again.token_texts
        assert defect(choice, answer) is MismatchClass.SPEC_DEFECT


def defect(choice: ForcedChoice, answer: Answer) -> MismatchClass:
    """What a swapped token is called, by the real target's logits."""
    case = Case(
        answer=swapped(answer),
        targets=frozenset({answer}),
        elsewhere=frozenset(),
        target_singles=(answer,),
        arm_singles=(swapped(answer),),
        choices={choice.beginning: choice.alternatives},
        dtype="float32",
        raw_logits=True,
    )
    return classify(case).mismatch_class
