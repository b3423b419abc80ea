"""What the API says of webhooks, and what a webhook is told."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.domain.lifecycle import ExperimentState
from app.domain.webhook import URL_MAX, DeliveryState, Event
from app.experiments.schemas import ArmWord

MESSAGE_FORMAT: Final = "verdraft/webhook/v0"


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class WebhookWish(BaseModel):
    """An address to tell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(max_length=URL_MAX, description="https, and reachable from other networks.")


class WebhookRead(_Read):
    """An address that is told when experiments of its project end."""

    id: UUID
    url: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_because: str | None = Field(description="Several messages in a row could not be delivered.")


class WebhookMade(WebhookRead):
    """A new webhook with its secret, which no later answer holds."""

    secret: str = Field(description="Signs each message; docs/webhooks.md says how to check it.")


class DeliveryRead(_Read):
    """One message and what became of it."""

    id: UUID = Field(description="The same at each attempt: whoever gets a message twice knows it by this.")
    event: Event
    experiment: str | None
    state: DeliveryState
    attempts: int
    due_at: datetime | None = Field(description="When it is sent next; null once it has an end.")
    last_status: int | None
    last_error: str | None
    created_at: datetime
    finished_at: datetime | None


class Told(_Read):
    """The experiment that ended."""

    id: str
    name: str
    state: ExperimentState
    finished_at: datetime | None
    verdicts: list[ArmWord] | None = Field(description="Null where it has no report.")
    page: str
    report: str


class Message(_Read):
    """The body that is sent."""

    format: Literal["verdraft/webhook/v0"] = MESSAGE_FORMAT
    id: UUID
    event: Event
    experiment: Told | None = Field(description="Null for a ping.")
