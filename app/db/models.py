"""Every table. Only repositories import this; everything else sees plain values.

Evidence (observation, series, artifact) hangs on a run or session, which carries the fence of the
attempt that wrote it; only what counts for the block's own fence is shown.
"""

from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import Double, ForeignKey, Index, LargeBinary, UniqueConstraint, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from app.db.access_models import owned_by_project
from app.db.base import Base, ExactText, Json, word
from app.domain.lifecycle import AcceleratorState, BlockState, ExperimentState, RunState, SessionState
from app.domain.startup import ConfigSource
from app.domain.vocabulary import Outcome

PARTITIONED_BY_EXPERIMENT = {"postgresql_partition_by": "LIST (experiment)"}
FAILURES = "ix_{}_failures"
"""Few rows failed, and the operations page asks for the newest of them every few seconds."""


class TraceRow(Base):
    """A frozen workload; ``body`` is its canonical JSON Lines under zstd."""

    __tablename__ = "trace"

    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    header: Mapped[Json]
    requests: Mapped[int]
    summary: Mapped[Json | None]
    """Sizes of strata, lengths and arrivals, so that no page reads a large trace again."""
    body: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ExperimentRow(Base):
    """One immutable manifest and the state of its execution; ``version`` grows with every visible change."""

    __tablename__ = "experiment"
    __table_args__ = (Index(None, "created_at", "digest"), Index(None, "tags", postgresql_using="gin"))

    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    state: Mapped[ExperimentState] = mapped_column(word(ExperimentState, "state"))
    manifest: Mapped[Json]
    owner: Mapped[str] = mapped_column(server_default="local")
    """Who gets a fair share of the accelerators; no part of the manifest."""
    priority: Mapped[int] = mapped_column(server_default="0")
    project: Mapped[str] = owned_by_project()
    tags: Mapped[list[str]] = mapped_column(server_default="{}")
    """To find it by, like ``archived``; no part of the manifest."""
    archived: Mapped[bool] = mapped_column(server_default="false")
    version: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]


class BlockRow(Base):
    """The unit of lease. ``fence`` grows with each claim; a write that carries an older one changes nothing."""

    __tablename__ = "block"
    __table_args__ = (
        UniqueConstraint("experiment_id", "index"),
        Index(None, "state", "accelerator"),
        Index(FAILURES.format("block"), "finished_at", postgresql_where=text("failure IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    experiment_id: Mapped[str] = mapped_column(ForeignKey(ExperimentRow.digest, ondelete="CASCADE"))
    index: Mapped[int]
    state: Mapped[BlockState] = mapped_column(word(BlockState, "state"))
    accelerator: Mapped[str]
    """The kind that the manifest pins: the queue in which the block waits."""
    accelerator_count: Mapped[int] = mapped_column(server_default="1")
    not_before: Mapped[datetime | None]
    attempt: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    accelerators: Mapped[list[str]] = mapped_column(server_default="{}")
    """``host/name`` of each accelerator of the newest attempt."""
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    failure: Mapped[Json | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class SessionRow(Base):
    """One fresh server of one arm in one attempt of a block; ``fence`` is the attempt's that wrote it.

    ``adopted_fence`` is the newest attempt that took it over: one that resumes counts what was finished before.
    """

    __tablename__ = "session"
    __table_args__ = (
        UniqueConstraint("block_id", "fence", "position"),
        Index(FAILURES.format("session"), "finished_at", postgresql_where=text("failure IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    block_id: Mapped[UUID] = mapped_column(ForeignKey(BlockRow.id, ondelete="CASCADE"))
    fence: Mapped[int]
    adopted_fence: Mapped[int | None]
    attempt: Mapped[int]
    accelerators: Mapped[list[str]] = mapped_column(server_default="{}")
    arm: Mapped[str]
    position: Mapped[int]
    state: Mapped[SessionState] = mapped_column(word(SessionState, "state"))
    failure: Mapped[Json | None]
    startup_ns: Mapped[int | None]
    argv: Mapped[list[str]] = mapped_column(default=list)
    log_sha256: Mapped[str | None]
    resolved_config: Mapped[Json] = mapped_column(default=dict)
    memory: Mapped[Json] = mapped_column(default=dict)
    memory_breakdown: Mapped[Json | None]
    devices: Mapped[list[Json]] = mapped_column(default=list)
    """What each GPU's driver says of it; empty without one."""
    warnings: Mapped[list[Json]] = mapped_column(default=list)
    canary: Mapped[Json | None]
    flags_left_out: Mapped[Json] = mapped_column(default=dict)
    config_source: Mapped[ConfigSource | None] = mapped_column(word(ConfigSource, "config_source"))
    diagnosing: Mapped[bool] = mapped_column(server_default="false")
    """It measures nothing: it answers again what arms answered differently."""
    started_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    finished_at: Mapped[datetime | None]


class VerificationRow(Base):
    """What a session's server was asked beside its runs; ``document`` is canonical JSON under zstd."""

    __tablename__ = "verification"

    session_id: Mapped[UUID] = mapped_column(ForeignKey(SessionRow.id, ondelete="CASCADE"), primary_key=True)
    document: Mapped[bytes] = mapped_column(LargeBinary)


class RunRow(Base):
    """One replay of one workload at one load point in a session; ``attempt`` grows where one was void and repeated."""

    __tablename__ = "run"
    __table_args__ = (
        UniqueConstraint("session_id", "workload", "load", "attempt"),
        Index(FAILURES.format("run"), "finished_at", postgresql_where=text("failure IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    session_id: Mapped[UUID] = mapped_column(ForeignKey(SessionRow.id, ondelete="CASCADE"))
    fence: Mapped[int]
    workload: Mapped[str]
    load: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=1)
    state: Mapped[RunState] = mapped_column(word(RunState, "state"))
    failure: Mapped[Json | None]
    counters: Mapped[Json | None]
    summary: Mapped[Json | None]
    controls: Mapped[list[Json]] = mapped_column(default=list)
    """What was controlled in this run alone, each with its figure, threshold and outcome."""
    unobservable: Mapped[Json] = mapped_column(default=dict)
    """Sampled quantity → why it was missing at some time."""
    scorer: Mapped[str | None]
    scores: Mapped[Json] = mapped_column(default=dict)
    """Request id → score of its answer, 0 to 1."""
    started_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    finished_at: Mapped[datetime | None]


class ObservationRow(Base):
    """One offered request, in its experiment's partition.

    Whoever writes holds the run in the same transaction: a foreign key would look again for each of millions of rows.
    """

    __tablename__ = "observation"
    __table_args__ = (PARTITIONED_BY_EXPERIMENT,)

    experiment: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[UUID] = mapped_column(primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    outcome: Mapped[Outcome] = mapped_column(word(Outcome, "outcome"))
    due_ns: Mapped[int]
    sent_ns: Mapped[int | None]
    first_byte_ns: Mapped[int | None]
    end_ns: Mapped[int | None]
    chunk_ns: Mapped[list[int]]
    chunk_tokens: Mapped[list[int]]
    token_ids: Mapped[list[int]]
    text: Mapped[str] = mapped_column(ExactText)
    reasoning: Mapped[str] = mapped_column(ExactText, default="")
    tool_calls: Mapped[str] = mapped_column(ExactText, default="")
    """Canonical JSON of the assembled calls; empty without any."""
    logprobs: Mapped[list[float]] = mapped_column(ARRAY(Double), default=list)
    finish_reason: Mapped[str | None]
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    cached_tokens: Mapped[int | None]
    queue_time_ns: Mapped[int | None]
    num_spec_steps: Mapped[int | None]
    """This and the five below are all null where the request carried no speculation counts."""
    num_draft_tokens: Mapped[int | None]
    num_accepted_draft_tokens: Mapped[int | None]
    acceptance_histogram: Mapped[list[int] | None]
    per_step_accepted: Mapped[list[int] | None]
    per_step_drafted: Mapped[list[int] | None]
    http_status: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(ExactText)


class SeriesRow(Base):
    """A stretch of one sampled quantity of one run: times from the replay's start and values."""

    __tablename__ = "series"
    __table_args__ = (Index(None, "run_id"), PARTITIONED_BY_EXPERIMENT)

    experiment: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    run_id: Mapped[UUID]
    name: Mapped[str]
    chunk: Mapped[int]
    """Counts from 0; a long run's samples are in several rows."""
    labels: Mapped[Json]
    at_ns: Mapped[list[int]]
    values: Mapped[list[float]] = mapped_column(ARRAY(Double))


class ArtifactRow(Base):
    """A file under the artifact root, by content address, and what it belongs to."""

    __tablename__ = "artifact"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    sha256: Mapped[str] = mapped_column(index=True)
    kind: Mapped[str]
    session_id: Mapped[UUID | None] = mapped_column(ForeignKey(SessionRow.id, ondelete="CASCADE"), index=True)
    run_id: Mapped[UUID | None] = mapped_column(ForeignKey(RunRow.id, ondelete="CASCADE"), index=True)
    path: Mapped[str]
    bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ReportRow(Base):
    """A report by what it depends on: computed once, since it is a pure function of its key."""

    __tablename__ = "report"

    experiment: Mapped[str] = mapped_column(ForeignKey(ExperimentRow.digest, ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    """Digest over the committed blocks and the analysis version."""
    document: Mapped[bytes] = mapped_column(LargeBinary)
    """Canonical JSON under zstd."""
    glance: Mapped[Json | None]
    """Its verdicts in short, with the number of blocks and the version of the analysis that they rest on."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ImportedResultRow(Base):
    """A result of another tool, for reading side by side: nothing of it was controlled here."""

    __tablename__ = "imported_result"

    digest: Mapped[str] = mapped_column(primary_key=True)
    """Of the file's bytes."""
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey(ExperimentRow.digest, ondelete="SET NULL"), index=True)
    label: Mapped[str]
    tool: Mapped[str]
    project: Mapped[str] = owned_by_project()
    document: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AcceleratorRow(Base):
    """One place for an engine on one host: a GPU by its UUID, or a share of the processor."""

    __tablename__ = "accelerator"

    host: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    state: Mapped[AcceleratorState] = mapped_column(word(AcceleratorState, "state"))
    block_id: Mapped[UUID | None] = mapped_column(ForeignKey(BlockRow.id, ondelete="SET NULL"), index=True)
    reason: Mapped[str | None]
    """Why it is quarantined."""
    since: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CapabilityRow(Base):
    """What one worker says it can run; the web host may have no runtime of its own."""

    __tablename__ = "worker_capability"

    worker: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[Json]
    idle_because: Mapped[str | None]
    """Why this host takes no blocks at present, though it lives."""
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
