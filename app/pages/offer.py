"""What the form may offer: what workers have published and which traces are stored, never guessed."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue

from app.domain.capability import HostCapability, ModelFacts, RuntimeCapability
from app.domain.preflight.case import called
from app.domain.preflight.methods import dedicated_method
from app.domain.proposer import METHODS_OFFERED
from app.domain.serving import Hardware, Software
from app.domain.trace import TraceHeader, TraceLoad
from app.domain.vocabulary import Method

MILLION = 1_000_000


class Choice(BaseModel):
    """One option of a select."""

    model_config = ConfigDict(frozen=True)

    value: str
    text: str

    @property
    def pair(self) -> tuple[str, str]:
        """As a select's macro takes it."""
        return self.value, self.text


class RuntimeChoice(Choice):
    """A runtime with the methods that it says it has; none where it could not be asked."""

    methods: tuple[str, ...] = ()


class KnownTrace(BaseModel):
    """A stored trace that the form may choose."""

    model_config = ConfigDict(frozen=True)

    digest: str
    header: TraceHeader


class Offer(BaseModel):
    """What can be asked for here."""

    model_config = ConfigDict(frozen=True)

    runtimes: tuple[RuntimeChoice, ...] = ()
    models: tuple[Choice, ...] = ()
    target: str = ""
    """The model that the form first proposes as target; empty without models."""
    draft: str = ""
    """The draft that the form first proposes for it; empty where none suits."""
    hosts: dict[str, dict[str, JsonValue]] = {}
    """Runtime → the ``hardware`` and ``software`` of the worker that has it."""
    traces: tuple[KnownTrace, ...] = ()

    def loads(self) -> dict[str, TraceLoad]:
        """Every load point of a stored trace by name: open loops by rate, then closed ones by clients."""
        found = {p.name: p for t in self.traces for p in t.header.loads}
        return dict(
            sorted(found.items(), key=lambda item: (item[1].rate_rps is None, item[1].rate_rps or item[1].clients))
        )

    def methods(self) -> tuple[str, ...]:
        """Every method that some runtime has, in the manifest's order; all of them where none could be asked."""
        known = {method for runtime in self.runtimes for method in runtime.methods}
        return tuple(str(m) for m in METHODS_OFFERED if not known or m in known)


def offer_of(hosts: Iterable[HostCapability], traces: Sequence[KnownTrace]) -> Offer:
    """The union of what hosts have."""
    runtimes: dict[str, RuntimeChoice] = {}
    models: dict[str, ModelFacts] = {}
    described: dict[str, dict[str, JsonValue]] = {}
    for host in hosts:
        models |= {model.ref: model for model in host.models}
        for runtime in host.runtimes:
            runtimes[runtime.ref] = _runtime_choice(runtime)
            described[runtime.ref] = _pinned(host)
    target = default_target(models.values())
    draft = None if target is None else default_draft(target, models.values())
    return Offer(
        runtimes=tuple(runtimes.values()),
        models=tuple(Choice(value=ref, text=_model_text(model)) for ref, model in models.items()),
        target="" if target is None else target.ref,
        draft="" if draft is None else draft.ref,
        hosts=described,
        traces=tuple(traces),
    )


def default_target(models: Iterable[ModelFacts]) -> ModelFacts | None:
    """The largest model that is no head and does not say that it was made for another one."""
    known = list(models)
    of_their_own = [m for m in known if dedicated_method(m) is None]
    plain = [m for m in of_their_own if "target_revision" not in m.provenance] or of_their_own or known
    return max(plain, key=lambda m: (_size(m), m.ref), default=None)


def default_draft(target: ModelFacts, models: Iterable[ModelFacts]) -> ModelFacts | None:
    """The smallest model of the target's vocabulary that is smaller than it and no head."""
    suitable = [
        m
        for m in models
        if m.vocabulary_sha256 is not None
        and m.vocabulary_sha256 == target.vocabulary_sha256
        and _size(m) < _size(target)
        and dedicated_method(m) is None
    ]
    return min(suitable, key=lambda m: (_size(m), m.ref), default=None)


def _pinned(host: HostCapability) -> dict[str, JsonValue]:
    """What a manifest says of its host; a worker may publish more."""
    return {
        "hardware": {name: host.hardware[name] for name in Hardware.model_fields if name in host.hardware},
        "software": {name: host.software[name] for name in Software.model_fields if name in host.software},
    }


def _size(model: ModelFacts) -> int:
    return model.parameters if model.parameters is not None else model.weights_bytes


def _runtime_choice(runtime: RuntimeCapability) -> RuntimeChoice:
    unasked = "" if runtime.unavailable is None else " (could not be asked)"
    text = f"{runtime.name}: {runtime.package} {runtime.version}{unasked}"
    offered = tuple(m for m in runtime.methods if m in METHODS_OFFERED)
    without_library = () if runtime.suffix_decoding is not False else (Method.SUFFIX,)
    return RuntimeChoice(value=runtime.ref, text=text, methods=tuple(m for m in offered if m not in without_library))


def _model_text(model: ModelFacts) -> str:
    size = "" if model.parameters is None else f", {model.parameters / MILLION:,.3g} M"
    made_for = dedicated_method(model)
    kind = "" if made_for is None else f", {made_for[0]} head"
    return f"{called(model)}{size}{kind}"
