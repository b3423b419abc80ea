"""One case on one server, and what it raised as a cell of the matrix."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from app.domain.errors import EvidenceRefused
from worker.engine.scrape import ScrapeFailed
from worker.regression.bench import Bench
from worker.regression.case import Case
from worker.regression.verdicts import (
    Broken,
    Cell,
    EngineErred,
    EngineGone,
    EngineRefused,
    NotApplicable,
    Status,
    excerpt,
)
from worker.replay.process import ReplayFailed

CASE_TIMEOUT_S = 600.0
DYING_S = 3.0
"""For the engine to finish writing why it died."""
GONE = "no answer"
"""How the words of a cell begin whose server gave none."""
ERRED = "an error of the engine"
"""How they begin where it answered that it is at fault itself: what it answers after that is no evidence."""


async def run_case(bench: Bench, case: Case, last_words: Callable[[], str]) -> Cell:
    """The cell of the case; ``last_words`` are the log's, of a server that gave no answer."""
    told: dict[str, Any]
    try:
        await asyncio.wait_for(case.check(bench), CASE_TIMEOUT_S)
        told = {"status": Status.PASSED, "words": "; ".join(bench.notes)}
    except Broken as broken:
        told = {"status": Status.FAILED, "words": broken.what, "expected": broken.expected, "found": broken.found}
    except EngineRefused as refused:
        told = {"status": Status.REFUSED, "words": str(refused)}
    except NotApplicable as reason:
        told = {"status": Status.NOT_APPLICABLE, "words": str(reason)}
    except EngineErred as erred:
        words = f"{ERRED}: {erred}; its log: {last_words() or 'nothing'}"
        told = {"status": Status.FAILED, "words": excerpt(words), "expected": "an answer"}
    except (EngineGone, ScrapeFailed, ReplayFailed, EvidenceRefused, httpx.HTTPError, TimeoutError) as gone:
        await asyncio.sleep(DYING_S)
        cause = last_words() or f"{type(gone).__name__}: {gone}"
        told = {"status": Status.FAILED, "words": f"{GONE}: {excerpt(cause)}", "expected": "an answer"}
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as malformed:
        words = f"an answer of a strange form: {type(malformed).__name__}: {malformed}"
        told = {"status": Status.FAILED, "words": excerpt(words), "expected": "an answer in the API's form"}
    return Cell(case=case.name, **told, **_evidence(bench))


def _evidence(bench: Bench) -> dict[str, Any]:
    last = bench.exchanges[-1] if bench.exchanges else None
    seen = {} if last is None else {"request": last.request, "response": excerpt(last.response)}
    return {"requests": len(bench.exchanges), **seen}
