"""Structured logs on stderr: JSON for machines, text for a terminal. Never a secret.

What is logged are named values that the code chose: no header, no body, no query string.
"""

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["auto", "json", "text"]


def configure(*, log_format: LogFormat, level: str) -> None:
    """Set up the logs of this process, ours and those of the libraries.

    Args:
        log_format: ``auto`` is text on a terminal, and JSON elsewhere.
        level: The least important event that is logged.
    """
    as_json = writes_json(log_format)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.dict_tracebacks
                if as_json
                else structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer()
                if as_json
                else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # They speak of statements and connections, and their text may hold values.
    for chatty in ("aiosqlite", "asyncio", "alembic", "sqlalchemy"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def writes_json(log_format: LogFormat) -> bool:
    """Tell whether logs are JSON: when asked for, or when nobody watches."""
    return log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
