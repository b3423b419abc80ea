"""What every session of a block shares: resolved paths, parsed traces, split cores and the pen."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.domain.engine_version import EngineSchema
from app.domain.evidence import Failure
from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Arm, Manifest
from app.domain.vocabulary import Method
from worker.accelerators import Held
from worker.cores import CoreSplit
from worker.prompts import ReplayTrace
from worker.recorder import Recorder
from worker.replay.process import ReplayClient
from worker.watchdog import Limits

LOGITS_FLAG = "--logprobs-mode"
RAW_LOGITS = "raw_logits"


class RunFailed(Exception):
    """A run, or the warm-up before it, could not be completed; the session cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Interrupted(Exception):
    """What this service or its host broke; the block stops here and what is left of it is measured again."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Bench:
    """One block's working place."""

    experiment_id: str
    block_index: int
    manifest: Manifest
    traces: dict[str, ReplayTrace]
    """Workload → its trace."""
    executable: Path
    model_paths: dict[str, Path]
    """Model reference → directory, digest verified."""
    model_facts_path: Path
    serve_flags: tuple[str, ...] | None
    """What the runtime says that it knows; ``None`` where it could not be asked."""
    schema: EngineSchema
    startup_timeout_s: float
    limits: Limits
    cores: CoreSplit
    held: Held
    client: ReplayClient
    recorder: Recorder
    client_range_path: Path
    """What the calibration of this host's client left, if it was ever calibrated."""
    live_url: str | None
    """The database through which pages are told of the run under way; ``None``: they are not."""

    def arm(self, name: str) -> Arm:
        """The manifest's arm of that name."""
        return next(arm for arm in self.manifest.arms if arm.name == name)

    def may_repeat(self, arm_name: str) -> bool:
        """Whether a replay leaves nothing in the server that would help its repetition.

        Prefixes do not survive a change of salt, but the suffix proposer remembers earlier answers.
        """
        speculation = self.arm(arm_name).speculation
        return speculation.method is not Method.SUFFIX or speculation.suffix_decoding_max_cached_requests == 0

    @property
    def can_tell_logits(self) -> bool:
        """Whether the runtime can give logits as they are instead of log probabilities."""
        return self.serve_flags is not None and LOGITS_FLAG in self.serve_flags

    def launch(self, arm_name: str, scratch: Path, *, tells_logits: bool = False) -> LaunchSpec:
        """How to start the arm's server with its socket and caches under ``scratch``; measured ones tell no logits."""
        spec = self._launch(arm_name, scratch)
        return replace(spec, argv=(*spec.argv, LOGITS_FLAG, RAW_LOGITS)) if tells_logits else spec

    def _launch(self, arm_name: str, scratch: Path) -> LaunchSpec:
        arm = self.arm(arm_name)
        draft = self.model_paths.get(arm.draft_or_speculator)
        return launch_spec(
            self.manifest,
            arm,
            executable=str(self.executable),
            target_path=str(self.model_paths[self.manifest.target_model]),
            tokenizer_path=str(self.model_paths[self.manifest.target_tokenizer]),
            draft_path=None if draft is None else str(draft),
            socket_path=str(scratch / "vllm.sock"),
            cache_root=str(scratch / "cache"),
            engine_cores=",".join(map(str, self.cores.engine)),
            tree_cores=self.cores.engine_tree,
            devices=self.held.gpus,
            serve_flags=self.serve_flags,
        )
