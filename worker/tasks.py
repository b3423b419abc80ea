"""What the queue may ask of a worker: to look into Postgres for blocks to conduct."""

import asyncio
import os
import socket

from app.queue import WAKE
from app.settings import Settings
from worker.celery_app import celery
from worker.conductor import conduct_queue
from worker.leaving import leaving


@celery.task(name=WAKE)
def wake() -> None:
    """Conduct blocks until none is queued; returns at once when there is nothing to claim."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    asyncio.run(conduct_queue(Settings(), worker, leaving=leaving))
