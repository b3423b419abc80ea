"""A manifest beside what a host says of the things it names: what every check looks at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.domain.capability import HostCapability, ModelFacts, RuntimeCapability
from app.domain.manifest import Arm, Manifest
from app.domain.preflight.outcome import Check, Topic

NO_REQUESTED: Mapping[str, frozenset[str]] = {}
NO_ANSWERS: Mapping[str, Mapping[str, float]] = {}
NOWHERE = HostCapability(runtimes=(), models=(), hardware={}, software={}, cores=0, memory_bytes=0)
"""Stands for the host where none is known: it states nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """The whole experiment on one host. What the host does not have is ``None``."""

    manifest: Manifest
    host: HostCapability
    requested: Mapping[str, frozenset[str]]
    """Workload → names of the sampling parameters that its requests carry."""
    answers: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """Workload → load → mean tokens of an answer, at most; absent where the trace is not at hand."""

    @property
    def runtime(self) -> RuntimeCapability | None:
        """The named runtime, if the host has it and it could be asked."""
        found = self.stated_runtime
        return None if found is None or found.unavailable is not None else found

    @property
    def stated_runtime(self) -> RuntimeCapability | None:
        """The named runtime, asked or not."""
        return next((r for r in self.host.runtimes if r.ref == self.manifest.runtime), None)

    @property
    def device(self) -> str | None:
        """``cpu`` or ``cuda``."""
        return None if self.stated_runtime is None else self.stated_runtime.device

    @property
    def target(self) -> ModelFacts | None:
        """What the target's files say."""
        return self.model(self.manifest.target_model)

    @property
    def tokenizer(self) -> ModelFacts | None:
        """What the files of ``target_tokenizer`` say."""
        return self.model(self.manifest.target_tokenizer)

    def model(self, reference: str) -> ModelFacts | None:
        """What the files of a model say."""
        return next((m for m in self.host.models if m.ref == reference), None)


@dataclass(frozen=True, slots=True)
class ArmCase:
    """One arm of it."""

    case: Case
    index: int
    arm: Arm

    @property
    def draft(self) -> ModelFacts | None:
        """What the draft's files say; ``None`` without a draft, too."""
        return self.case.model(self.arm.draft_or_speculator)

    @property
    def has_draft(self) -> bool:
        """Whether the arm names a draft."""
        return self.arm.draft_or_speculator != "none"

    def field(self, part: str) -> str:
        """The dotted path of a field of this arm."""
        return f"arms[{self.index}].{part}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A named check of the whole experiment; it gives nothing where it does not apply."""

    name: str
    field: str
    judge: Callable[[Case, Topic], Check | None]

    def of(self, case: Case) -> Check | None:
        """The check, made."""
        return self.judge(case, Topic(self.name, None, self.field))


@dataclass(frozen=True, slots=True)
class ArmRule:
    """A named check of each arm; ``part`` is the field within the arm."""

    name: str
    part: str
    judge: Callable[[ArmCase, Topic], Check | None]

    def of(self, arm: ArmCase) -> Check | None:
        """The check, made."""
        return self.judge(arm, Topic(self.name, arm.arm.name, arm.field(self.part)))


def missing_draft(arm: ArmCase, topic: Topic) -> Check | None:
    """The answer where an arm names a draft of which this host knows nothing."""
    if not arm.has_draft or arm.draft is not None:
        return None
    return topic.cannot_say(f"{arm.arm.draft_or_speculator} is not among the models of this host")


def called(model: ModelFacts) -> str:
    """How a model is named in words: its alias here, or its whole reference."""
    return model.alias or model.ref
