"""Refuse what a revision would do outside the process while it is recorded.

Python announces such actions with audit events, before they happen. The hook is called for those
of the whole process, and looks only at threads that record. It cannot be removed again.

Source: https://docs.python.org/3/library/audit_events.html
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

# The first part of the names of events. Other modules of Python use these.
_OUTSIDE = frozenset(
    {"ctypes", "fcntl", "mmap", "os", "pty", "resource", "signal", "socket", "sqlite3"}
    | {"subprocess", "syslog"}
)
_READS = frozenset(
    {"os.fwalk", "os.getxattr", "os.listdir", "os.listxattr", "os.scandir", "os.walk"}
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_recording = threading.local()


@contextmanager
def refused(refuse: Callable[[], object]) -> Iterator[None]:
    """Call *refuse*, which raises, before this thread acts outside the process.

    Files may be read. What other threads do is not noticed.
    """
    _install()
    _recording.refuse = refuse
    try:
        yield
    finally:
        del _recording.refuse


@cache
def _install() -> None:
    sys.addaudithook(_watch)


def _watch(event: str, arguments: Sequence[Any]) -> None:
    refuse = getattr(_recording, "refuse", None)
    if refuse is not None and _is_effect(event, arguments):
        refuse()


def _is_effect(event: str, arguments: Sequence[Any]) -> bool:
    if event == "open":
        _path, _mode, flags = arguments
        return bool(flags & _WRITING)
    return event.partition(".")[0] in _OUTSIDE and event not in _READS
