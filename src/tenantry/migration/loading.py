"""Import the files of a project within a deadline: code on their module level can be endless."""

import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from tenantry.kit.threads import DaemonThreads

Loaded = TypeVar("Loaded")

LOAD_SECONDS_MAX = 60.0
"""For all files of a project. Their imports alone can take some seconds."""

# What has not ended, and where it was, by folder: a thread cannot be stopped, so there is only one.
_endless: dict[Path, tuple["Future[Any]", str]] = {}


class LoadingEndless(Exception):
    """The files were not imported in time; the text says where the import was."""


def load(work: Callable[[], Loaded], folder: Path, *, seconds: float) -> Loaded:
    """Return the result of *work*, which imports files in *folder*, in a thread.

    Raises:
        LoadingEndless: It takes longer than *seconds*, or an earlier one has not ended yet.
        Exception: What *work* raises.
    """
    earlier = _endless.get(folder)
    if earlier is not None and not earlier[0].done():
        raise LoadingEndless(earlier[1])
    thread, ids = DaemonThreads(1, "load"), list[int]()

    def run() -> Loaded:
        ids.append(threading.get_ident())
        return work()

    running = thread.submit(run)
    thread.shutdown()
    try:
        return running.result(seconds)
    except TimeoutError as error:
        if running.done():  # it is an error of a file
            raise
        said = (
            f"{_place(ids, folder)} was not imported within {seconds:g} s. "
            "Correct it, and start the process again"
        )
        _endless[folder] = running, said
        raise LoadingEndless(said) from error


def drop_caches(folders: Iterable[Path]) -> None:
    """Delete Python's caches of the files in *folders*, which it writes anew.

    Python before 3.13.2 keeps a cache that a full disk has cut off (its issue 126606): then each
    import raises an EOFError.

    Raises:
        OSError: One cannot be deleted.
    """
    for folder in folders:
        for cache in folder.rglob("__pycache__/*.pyc"):
            cache.unlink(missing_ok=True)


def _place(ids: list[int], folder: Path) -> str:
    """Return the innermost file in *folder* that the thread executes, and its line."""
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to see another thread
    frame: FrameType | None = frames.get(ids[0]) if ids else None
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.resolve().is_relative_to(folder.resolve()):
            return f"{path.name}, line {frame.f_lineno},"
        frame = frame.f_back
    return "a file"
