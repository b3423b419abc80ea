"""Wake the workers. The message carries nothing: what to do is in Postgres, where workers also look by themselves."""

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from app.settings import Settings

WAKE = "blocks.wake"
QUEUE = "blocks"
EXPIRES_S = 60

log = structlog.stdlib.get_logger()


def wake(settings: Settings) -> None:
    """Ask a worker to look for queued blocks; call after the commit. A dead broker costs only delay."""
    sender = Celery("verdraft", broker=settings.redis_url.get_secret_value(), set_as_current=False)
    sender.conf.update(broker_transport_options={"socket_connect_timeout": 2, "socket_timeout": 2, "max_retries": 0})
    try:
        sender.send_task(WAKE, queue=QUEUE, expires=EXPIRES_S, ignore_result=True, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("workers were not woken; they will look by themselves", error=str(error))
    finally:
        sender.close()
