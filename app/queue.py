"""Wake the workers. The message carries nothing: what to do is in Postgres, where workers also look by themselves."""

import re

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from app.settings import Settings

WAKE = "blocks.wake"
EXPIRES_S = 60

log = structlog.stdlib.get_logger()


def queue_of(kind: str) -> str:
    """The queue of the workers that have accelerators of ``kind``."""
    return "blocks." + re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")


def wake(settings: Settings, kind: str) -> None:
    """Ask a worker to look for queued blocks of ``kind``; call after the commit. A dead broker costs only delay."""
    sender = Celery("verdraft", broker=settings.redis_url.get_secret_value(), set_as_current=False)
    sender.conf.update(broker_transport_options={"socket_connect_timeout": 2, "socket_timeout": 2, "max_retries": 0})
    try:
        sender.send_task(WAKE, queue=queue_of(kind), expires=EXPIRES_S, ignore_result=True, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("workers were not woken; they will look by themselves", error=str(error))
    finally:
        sender.close()
