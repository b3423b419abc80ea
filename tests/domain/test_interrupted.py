"""Evidence of a block that was interrupted: a lost session and a lost run beside those that replaced them."""

import random

import pytest

from app.domain.condition import Condition
from app.domain.evidence import ExperimentEvidence, Failure, RunEvidence, SessionEvidence
from app.domain.lifecycle import RunState, SessionState
from app.domain.pairing import complete_blocks
from app.domain.report import build_report
from app.domain.vocabulary import FailureClass
from tests.domain.evidence_factory import STARTUP_FAILED, Dials, find_run, make_evidence, make_session, reasons

LOW, HIGH = (Condition("ngram", "copy", load) for load in ("low", "high"))
LOST = Failure(failure_class=FailureClass.INFRA, message="the lease of here:1 expired")


def lost_session(arm: str = "ngram", block: int = 1, **changes: object) -> SessionEvidence:
    facts = {"state": SessionState.LOST, "failure": LOST, "log_sha256": "e" * 64}
    return make_session(block, arm, 1, **{**facts, **changes})


def lost_run(evidence: ExperimentEvidence, arm: str = "ngram", block: int = 1, load: str = "high") -> RunEvidence:
    """Half of what its replacement measured."""
    whole = find_run(evidence, arm=arm, block=block, load=load)
    half = {"state": RunState.LOST, "failure": LOST, "counters": None, "observations": whole.observations[:5]}
    return whole.model_copy(update=half)


def interrupted(*, arm: str = "ngram", block: int = 1) -> ExperimentEvidence:
    """The arm's first server was lost while it measured ``high``; a second one measured it."""
    evidence = make_evidence()
    sessions = (*evidence.sessions, lost_session(arm, block))
    return evidence.model_copy(update={"sessions": sessions, "runs": (*evidence.runs, lost_run(evidence, arm, block))})


def shuffled(evidence: ExperimentEvidence, seed: int) -> ExperimentEvidence:
    chance = random.Random(seed)
    runs, sessions = (chance.sample(part, len(part)) for part in (evidence.runs, evidence.sessions))
    return evidence.model_copy(update={"runs": tuple(runs), "sessions": tuple(sessions)})


def gates(evidence: ExperimentEvidence, condition: Condition = HIGH) -> tuple[str, ...]:
    return reasons(evidence, condition)


@pytest.mark.parametrize("arm", ["ngram", "target-only"])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_lost_breaks_no_gate_and_takes_no_block_away(arm: str, seed: int) -> None:
    evidence = shuffled(interrupted(arm=arm), seed)
    assert complete_blocks(evidence).indices == (0, 1, 2, 3, 4)
    assert gates(evidence) == gates(evidence, LOW) == ()


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_what_was_lost_does_not_change_a_byte(seed: int) -> None:
    twice = interrupted()
    again = lost_session(failure=LOST.model_copy(update={"message": "its worker was asked to leave"}))
    twice = twice.model_copy(update={"sessions": (*twice.sessions, again)})
    assert build_report(shuffled(twice, seed)).model_dump_json() == build_report(twice).model_dump_json()


def test_no_number_counts_what_was_lost() -> None:
    whole, after = build_report(make_evidence()), build_report(interrupted())
    for part in ("results", "comparisons", "verdicts", "correctness", "mismatches", "reconciliations"):
        assert getattr(after, part) == getattr(whole, part)
    lost = [s for s in after.sessions if s.state == "LOST"]
    assert [(s.block, s.arm, s.failure) for s in lost] == [(1, "ngram", LOST.message)]


def test_an_arm_that_was_interrupted_after_its_last_run_has_ended() -> None:
    """Its server was being stopped, and nothing was left to measure when the block was resumed."""
    evidence = make_evidence()
    others = tuple(s for s in evidence.sessions if (s.arm, s.block) != ("ngram", 1))
    evidence = evidence.model_copy(update={"sessions": (*others, lost_session())})
    assert complete_blocks(evidence).indices == (0, 1, 2, 3, 4)
    assert gates(evidence) == gates(evidence, LOW) == ()


def test_an_arm_whose_every_server_was_lost_half_way_has_not_ended() -> None:
    evidence = interrupted()
    others = tuple(s for s in evidence.sessions if (s.arm, s.block) != ("ngram", 1))
    evidence = evidence.model_copy(
        update={
            "sessions": (*others, lost_session()),
            "runs": tuple(
                r for r in evidence.runs if (r.arm, r.block, r.load) != ("ngram", 1, "high") or r.state is RunState.LOST
            ),
        }
    )
    assert complete_blocks(evidence).indices == (0, 2, 3, 4)


@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_failed_after_one_that_was_lost_is_a_finding(seed: int) -> None:
    evidence = interrupted()
    failed = {"state": SessionState.FAILED, "failure": STARTUP_FAILED}
    evidence = evidence.model_copy(
        update={
            "sessions": tuple(
                s.model_copy(update=failed) if (s.arm, s.block, s.state) == ("ngram", 1, SessionState.SUCCEEDED) else s
                for s in evidence.sessions
            ),
            "runs": tuple(
                r
                for r in evidence.runs
                if (r.arm, r.block, r.load, r.state) != ("ngram", 1, "high", RunState.SUCCEEDED)
            ),
        }
    )
    assert gates(shuffled(evidence, seed), LOW) == ()
    assert gates(shuffled(evidence, seed)) == (
        "block 2: the session of ngram did not complete (CONFIG: Unsupported speculative method: 'mtp')",
    )


def test_servers_of_one_arm_that_resolved_otherwise_are_both_compared() -> None:
    odd = make_session(1, "ngram", 1).resolved_config | {"model_config.max_model_len": "512"}
    evidence = make_evidence(Dials())
    evidence = evidence.model_copy(update={"sessions": (lost_session(resolved_config=odd), *evidence.sessions)})
    expected = ("resolved configuration differs in model_config.max_model_len: target-only None, ngram 512",)
    assert gates(evidence) == expected
    assert gates(shuffled(evidence, 3)) == expected
