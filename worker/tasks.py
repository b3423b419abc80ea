"""What the queue may ask of a worker: to look into Postgres for blocks to conduct."""

import asyncio
import os
import socket

from app.settings import Settings
from worker.celery_app import WAKE, celery
from worker.conductor import conduct_queue


@celery.task(name=WAKE)
def wake() -> None:
    """Conduct blocks until none is queued; returns at once when there is nothing to claim."""
    asyncio.run(conduct_queue(Settings(), worker=f"{socket.gethostname()}:{os.getpid()}"))
