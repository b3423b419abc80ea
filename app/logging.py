"""The service's own log: one JSON object a line on stderr, with what is bound to the context."""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Route structlog and the standard library through one renderer; call once per process."""
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in ("uvicorn", "uvicorn.error"):  # its own handlers would write plain lines between ours
        server = logging.getLogger(name)
        server.handlers.clear()
        server.propagate = True
    logging.getLogger("httpx").setLevel(logging.WARNING)  # one line per request of ours is noise
