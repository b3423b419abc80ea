"""What a calibration of the client found: a host on which two cells passed and a third did not."""

from typing import Any

from app.domain.client_range import ClientAttempt, ClientCell, ClientHost, ClientRange, Spread

NS_PER_MS = 1_000_000


def make_spread(p50_ms: float = 0.05, p99_ms: float = 0.2, max_ms: float = 0.9) -> Spread:
    """Times in milliseconds; what is not said is well within a millisecond."""
    return Spread(p50_ns=round(p50_ms * NS_PER_MS), p99_ns=round(p99_ms * NS_PER_MS), max_ns=round(max_ms * NS_PER_MS))


def make_attempt(**fields: Any) -> ClientAttempt:
    """An attempt that kept time: 40 in flight, 6,400 chunks/s."""
    document = {
        "requests": 200,
        "unserved": 0,
        "damaged": 0,
        "concurrency": 40,
        "chunks_per_s": 6400.0,
        "achieved_share": 1.0,
        "true_ttft_p50_ns": 20 * NS_PER_MS,
        "lateness": make_spread(),
        "sent_lateness": make_spread(),
        "receive_error": make_spread(),
    }
    return ClientAttempt.model_validate(document | fields)


def make_late(**fields: Any) -> ClientAttempt:
    """An attempt whose client sent late."""
    late = make_spread(p99_ms=3.5)
    return make_attempt(**{"lateness": late, "sent_lateness": late, **fields})


def make_cell(rate_rps: float = 100, *, passed: bool = True, **fields: Any) -> ClientCell:
    """A cell that two attempts agree on; ``fields`` change both."""
    one = make_attempt(**fields) if passed else make_late(**fields)
    return ClientCell(shape="stream", rate_rps=rate_rps, attempts=(one, one))


def make_client_host(**fields: Any) -> ClientHost:
    """A host of two cores."""
    document = {
        "cpu_model": "chip",
        "client_cores": (1,),
        "engine_cores": (0,),
        "kernel": "6.1",
        "python": "3.11.2",
        "real_time": True,
        "client_digest": "7" * 64,
    }
    return ClientHost.model_validate(document | fields)


def make_client_range(*cells: ClientCell, **fields: Any) -> ClientRange:
    """Unless said otherwise: 100/s at 6,400 chunks/s and a crowd of 256 at 64/s passed; 200/s did not."""
    known = cells or (
        make_cell(),
        make_cell(64, concurrency=256, chunks_per_s=128),
        make_cell(200, passed=False, concurrency=80, chunks_per_s=12_800),
    )
    document = {
        "measured_at": "2026-11-30T04:05:06Z",
        "quick": False,
        "priority": "real-time",
        "host": make_client_host(),
        "cells": known,
    }
    return ClientRange.model_validate(document | fields)
