"""The queue: Celery only wakes workers; what to do is in Postgres.

Start a worker with ``celery --app worker.celery_app worker --beat --concurrency 1``: one prefork
child per accelerator slot, and a periodic wake so that a lost message costs only delay.
"""

from celery import Celery

from app.settings import Settings

WAKE = "blocks.wake"
WAKE_PERIOD_S = 15

celery = Celery("verdraft", broker=Settings().redis_url.get_secret_value(), include=["worker.tasks"])
celery.conf.update(
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=False,  # the lease in Postgres is the guard
    task_default_queue="blocks",
    worker_prefetch_multiplier=1,
    worker_concurrency=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    beat_schedule={
        "wake": {"task": WAKE, "schedule": WAKE_PERIOD_S, "options": {"expires": WAKE_PERIOD_S - 1}},
    },
)
