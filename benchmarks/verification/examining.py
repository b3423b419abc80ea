"""An arm held to target-only by the product's own phase, diagnosis and domain, on servers that are up already."""

import tempfile
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from app.domain.correctness import Correctness, greedy_evidence, verify
from app.domain.evidence import ExperimentEvidence, SessionEvidence
from app.domain.greedy import Prompt
from app.domain.greedy_classes import MismatchClass
from app.domain.greedy_mismatch import Mismatch
from app.domain.greedy_tables import tallies
from app.domain.launch import LaunchSpec
from app.domain.lifecycle import SessionState
from app.domain.manifest import Manifest, Sampling
from app.domain.pairing import complete_blocks
from app.domain.verified import VerificationRecord
from app.domain.vocabulary import BASELINE_ARM
from worker.replay.process import ReplayClient
from worker.verification.asking import Asker, Prompts
from worker.verification.diagnosis import Asked, answers_of, choose_again, diagnose
from worker.verification.phase import verify_greedily

_SALTS = count()


@dataclass(frozen=True, slots=True)
class Examined:
    """What the product says of one arm after one block."""

    correctness: Correctness
    mismatches: tuple[Mismatch, ...]
    record: VerificationRecord
    again: "Block"

    @property
    def defects(self) -> int:
        """Prompts with an answer that is a defect."""
        return self.correctness.classes.get(MismatchClass.SPEC_DEFECT, 0)


@contextmanager
def asking(client: ReplayClient, server: LaunchSpec, sampling: Sampling) -> Generator[Asker]:
    """Whoever asks ``server``; nothing that it was asked before shares a prefix with what is asked now."""
    with tempfile.TemporaryDirectory(prefix="vd-") as directory:
        yield Asker(client, server, sampling, Path(directory), salt=f"{server.socket_path}/{next(_SALTS)}")


@dataclass(frozen=True, slots=True)
class Reference:
    """Target-only with its answers, to which the arm called ``arm`` is held."""

    manifest: Manifest
    arm: str
    prompts: Prompts
    target: Asker
    theirs: VerificationRecord

    async def examine(self, ours: Asker) -> Examined:
        """The phase on the arm's server, and the diagnosis on both wherever it answers otherwise."""
        record = await verify_greedily(ours, self.prompts)
        block = {BASELINE_ARM: self.theirs, self.arm: record}
        asked = choose_again(differing(self.manifest, self.arm, block), seed=self.arm)
        again = await self._again(ours, record, asked) if asked.prompts else {}
        correctness, mismatches = judged(self.manifest, self.arm, [block], [again])
        return Examined(correctness, mismatches, record, again)

    async def _again(self, ours: Asker, record: VerificationRecord, asked: Asked) -> "Block":
        chosen = _chosen(self.prompts, asked.prompts)
        answers = answers_of([record]), answers_of([self.theirs])
        by_target, by_arm = await diagnose(self.target, ours, chosen, *answers, raw_logits=False)
        return {BASELINE_ARM: by_target, self.arm: by_arm.model_copy(update={"left_out": asked.left_out})}


Block = dict[str, VerificationRecord]
"""Arm → what its server was asked."""


def judged(
    manifest: Manifest, arm: str, blocks: Sequence[Block], again: Sequence[Block]
) -> tuple[Correctness, tuple[Mismatch, ...]]:
    """What the domain makes of these blocks, each a process of either arm."""
    evidence = _evidence(manifest, arm, blocks, again)
    (correctness,), mismatches = verify(evidence, complete_blocks(evidence))
    return correctness, mismatches


def differing(manifest: Manifest, arm: str, block: Block) -> frozenset[Prompt]:
    """The prompts that the arm answered otherwise."""
    evidence = _evidence(manifest, arm, [block], [])
    found = tallies(greedy_evidence(evidence, complete_blocks(evidence)), arm).values()
    return frozenset(difference.prompt for tally in found for difference in tally.differences)


def _evidence(manifest: Manifest, arm: str, blocks: Sequence[Block], again: Sequence[Block]) -> ExperimentEvidence:
    kept = tuple(a for a in manifest.arms if a.name in {BASELINE_ARM, arm})
    return ExperimentEvidence(
        manifest=manifest.model_copy(update={"arms": kept, "blocks": len(blocks)}),
        labels={},
        content_valid={},
        sessions=_sessions(blocks, diagnosing=False),
        runs=(),
        diagnoses=_sessions(again, diagnosing=True),
    )


def _sessions(blocks: Sequence[Block], *, diagnosing: bool) -> tuple[SessionEvidence, ...]:
    return tuple(
        SessionEvidence(
            block=index,
            arm=arm,
            position=position,
            state=SessionState.SUCCEEDED,
            diagnosing=diagnosing,
            verification=record,
        )
        for index, block in enumerate(blocks)
        for position, (arm, record) in enumerate(block.items())
    )


def _chosen(prompts: Prompts, wanted: Collection[Prompt]) -> Prompts:
    return {
        workload: tuple(r for r in requests if Prompt(workload, r.request_id) in wanted)
        for workload, requests in prompts.items()
    }
