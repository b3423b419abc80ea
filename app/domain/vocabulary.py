"""The words of the product as types: ids, units and closed sets of names.

Nothing here has behaviour beyond a property; every other module may import it.
"""

from enum import StrEnum
from typing import Annotated, NewType

from pydantic import StringConstraints

Nanoseconds = NewType("Nanoseconds", int)

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

SHA256_PATTERN = r"^[0-9a-f]{64}$"
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"

Sha256 = Annotated[str, StringConstraints(pattern=SHA256_PATTERN)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A name a user chooses (arm, workload, load point): lower case, safe in URLs and paths."""

BASELINE_ARM = "target-only"
"""The reserved name of the first-class baseline arm: speculation absent."""

WARMUP = "warmup"
"""The reserved load name of a trace's warm-up segment; never measured."""


class Method(StrEnum):
    """vLLM's own names of the proposers, plus the absence of one."""

    TARGET_ONLY = "target_only"
    NGRAM = "ngram"
    NGRAM_GPU = "ngram_gpu"
    SUFFIX = "suffix"
    DRAFT_MODEL = "draft_model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MTP = "mtp"
    DFLASH = "dflash"
    DSPARK = "dspark"
    MEDUSA = "medusa"
    MLP_SPECULATOR = "mlp_speculator"
    EXTRACT_HIDDEN_STATES = "extract_hidden_states"
    CUSTOM_CLASS = "custom_class"
    """Loads a Python class by its dotted name; known, so that it can be refused by name."""


class RejectionSampling(StrEnum):
    """vLLM's ``rejection_sample_method``; which of them a runtime has is asked of the runtime."""

    STANDARD = "standard"
    BLOCK = "block"
    SYNTHETIC = "synthetic"
    FLY = "fly"

    @property
    def lossy(self) -> bool:
        """Whether tokens may come out that the target would not have chosen."""
        return self in {RejectionSampling.SYNTHETIC, RejectionSampling.FLY}


class DraftSampling(StrEnum):
    """vLLM's ``draft_sample_method``: how a draft model picks the tokens that it proposes."""

    GREEDY = "greedy"
    PROBABILISTIC = "probabilistic"


class Purpose(StrEnum):
    """What an experiment is for; only a verdict may recommend anything."""

    VERDICT = "verdict"
    OVERHEAD_PROFILING = "overhead_profiling"
    """Measures what speculation costs with lossy acceptance; nothing is claimed about outputs."""
    HOST_CALIBRATION = "host_calibration"
    """Target-only against itself (A/A): every difference is noise, and every HELPS or HURTS a false alarm."""


class RateKind(StrEnum):
    """How a load point offers requests."""

    OPEN_LOOP = "open_loop"
    """At its due time, whatever the server does."""
    CLOSED_LOOP = "closed_loop"
    """By a number of clients, each sending its next request when its last has ended."""


class Regime(StrEnum):
    """Which question a load point answers; both are required for a recommendation."""

    LATENCY = "latency"
    SERVING = "serving"


class Outcome(StrEnum):
    """How one offered request ended. Only ``SUCCESS`` counts as served."""

    SUCCESS = "success"
    HTTP_ERROR = "http_error"
    STREAM_ERROR = "stream_error"
    TRUNCATED = "truncated"
    DEADLINE_MISS = "deadline_miss"
    """The client gave up: at the request's own deadline, or when the replay's patience ended."""
    STALL = "stall"
    """The client gave up in the same way on an answer that had begun and then stood still."""
    CLIENT_CANCEL = "client_cancel"
    CONNECT_REFUSED = "connect_refused"
    NOT_SENT = "not_sent"


class FailureClass(StrEnum):
    """Why a block, session or run could not be completed."""

    CONFIG = "CONFIG"
    OOM = "OOM"
    ENGINE_DEAD = "ENGINE_DEAD"
    HANG = "HANG"
    INFRA = "INFRA"
    GENERATOR_LIMITED = "GENERATOR_LIMITED"
    CANCELED = "CANCELED"
    LOOK = "LOOK"
    """The block is complete; the planned look after it could not be taken."""
    NOT_NEEDED = "NOT_NEEDED"
    """No failure: an earlier look had settled every word, so the block was not begun."""


class VerdictWord(StrEnum):
    """The five words we publish."""

    HELPS = "HELPS"
    HURTS = "HURTS"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


class Saturation(StrEnum):
    """Whether a run's queue grew without bound (method A10)."""

    STABLE = "STABLE"
    SUSPECT = "SUSPECT"
    SATURATED = "SATURATED"
    UNDECIDED = "UNDECIDED"
