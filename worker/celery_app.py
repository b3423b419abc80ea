"""The queue: Celery only wakes workers; what to do is in Postgres.

Start a worker with ``celery --app worker.celery_app worker --beat``: one prefork child for each accelerator, and
a periodic wake so that a lost message costs only delay. Each kind of accelerator has a queue of its own.
"""

import logging
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_ready

from app.logging import configure
from app.queue import WAKE, queue_of
from app.settings import Settings
from worker.accelerators import offered
from worker.engine.containment import sweep_orphans
from worker.scratch import sweep_scratch

_settings = Settings()
_offered = offered(_settings)

celery = Celery("verdraft", broker=_settings.redis_url.get_secret_value(), include=["worker.tasks"])
celery.conf.update(
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=False,  # the lease in Postgres is the guard
    task_default_queue=queue_of(_offered.kind),
    worker_prefetch_multiplier=1,
    worker_concurrency=len(_offered.names),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    beat_schedule={
        "wake": {"task": WAKE, "schedule": _settings.wake_period_s, "options": {"expires": _settings.wake_period_s}},
    },
)


@setup_logging.connect
def _log_like_the_web(**_: Any) -> None:
    """One JSON object a line, in the parent and its children; that an idle worker looked is no news."""
    configure(_settings.log_level)
    for noisy in ("celery.beat", "celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


@worker_ready.connect
def _sweep(**_: Any) -> None:
    """What an earlier worker of this host left behind when it was killed."""
    sweep_orphans()
    sweep_scratch()
