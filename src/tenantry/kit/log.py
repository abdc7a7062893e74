"""Structured logs on stderr: JSON for machines, text for a terminal.

Only named values that the code selects are logged: no header, no body, no query string, no secret.
"""

import logging
import sys
import traceback
from itertools import islice
from pathlib import Path
from typing import Literal

import structlog

from tenantry.kit.errors import chain_of

LogFormat = Literal["auto", "json", "text"]

EXCEPTIONS_MAX = 5
FRAMES_MAX = 12


def configure(*, log_format: LogFormat, level: str) -> None:
    """Set up the logs of this process, including those of libraries, from *level* upwards."""
    as_json = writes_json(log_format)
    # What cannot be logged would else be printed, with everything it holds.
    logging.raiseExceptions = False
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
                _add_location,
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
    for chatty in ("alembic", "sqlalchemy"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    asyncio_log = logging.getLogger("asyncio")
    asyncio_log.filters[:] = [_is_no_cut_connection]


def _is_no_cut_connection(record: logging.LogRecord) -> bool:
    """Suppress an error that asyncpg causes when a connection attempt is abandoned.

    Measured: a timeout, or a cancelled `asyncpg.connect`, leaves a future with this error,
    which asyncio then reports as never retrieved.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, ConnectionError) and "connection_lost() call" in str(error))


def _add_location(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replace an exception by its types and the lines of its traceback.

    Its message and the local variables are left out, because they can contain input such as
    a password.
    """
    info = event.pop("exc_info", None)
    error = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    seen: list[str] = []
    first = error if isinstance(error, BaseException) else None
    for one in islice(chain_of(first), EXCEPTIONS_MAX):
        frames = traceback.extract_tb(one.__traceback__)[-FRAMES_MAX:]
        lines = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        seen.append(" > ".join([*lines, type(one).__qualname__]))
    if seen:
        event["raised"] = seen
    return event


def writes_json(log_format: LogFormat) -> bool:
    """Return whether logs are JSON: by the setting, or because stderr is no terminal."""
    return log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
