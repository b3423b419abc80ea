"""How the children of a Celery worker learn that they must go: their parent was asked to stop, or is gone.

A block under way is then handed over: its engine is stopped, what it has measured counts, another worker goes on.
"""

import multiprocessing
import os
import signal
from typing import Any

from billiard.util import set_pdeathsig
from celery.signals import beat_embedded_init, worker_process_init, worker_shutting_down

_NO_SIGNAL = 0
_asked = multiprocessing.get_context("fork").Event()
_parents: list[int] = []


def leaving() -> bool:
    """Whether this process shall take no more work and hand over what it has."""
    return _asked.is_set() or (bool(_parents) and os.getppid() != _parents[0])


@worker_shutting_down.connect
def _ask(**_: Any) -> None:
    """In the parent, at SIGTERM; the event is shared with the children that were forked from it."""
    _asked.set()


@worker_process_init.connect
def _remember_parent(**_: Any) -> None:
    """In each child: one whose parent was killed can be stopped by nobody, so it must not go on alone.

    Celery would have the kernel kill it at once, which would lose what can be handed over in order.
    """
    set_pdeathsig(_NO_SIGNAL)
    _parents[:] = [os.getppid()]


@beat_embedded_init.connect
def _end_with_parent(**_: Any) -> None:
    """In the process that wakes periodically, which Celery would leave behind when the worker is killed."""
    set_pdeathsig(signal.SIGKILL)
