"""A request whose answer had begun and then stood still when the client gave up has an outcome of its own."""

from collections.abc import Sequence

from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

CHECK = "ck_observation_outcome"
BEFORE = (
    "success",
    "http_error",
    "stream_error",
    "truncated",
    "deadline_miss",
    "client_cancel",
    "connect_refused",
    "not_sent",
)
SINCE = (*BEFORE[:5], "stall", *BEFORE[5:])


def upgrade() -> None:
    _allow(SINCE)


def downgrade() -> None:
    # What it was called before; its chunks and its end, which say that it stalled, stay.
    op.execute("UPDATE observation SET outcome = 'deadline_miss' WHERE outcome = 'stall'")
    _allow(BEFORE)


def _allow(words: Sequence[str]) -> None:
    op.drop_constraint(op.f(CHECK), "observation", type_="check")
    op.create_check_constraint(op.f(CHECK), "observation", f"outcome IN ({', '.join(map(repr, words))})")
