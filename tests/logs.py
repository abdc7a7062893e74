"""The logs of the test run, while a test configures logging in this process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def logs_kept() -> Iterator[None]:
    """Restore the configuration of logging after the block.

    The defaults of structlog are no substitute: they render each traceback with all local
    variables, which takes seconds in the event loop, and in a long test run a minute.
    """
    root = logging.getLogger()
    handlers, level, ours = root.handlers[:], root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**ours)
