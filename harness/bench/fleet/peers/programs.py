"""Programs that migrate one tenant each, a few of them at once."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.processes import environment

PROGRAM_SECONDS_MAX = 300


class ProgramFailed(Exception):
    """A program has failed; the message holds the end of what it wrote."""


def in_turn(work: Callable[[str], None], urls: Sequence[str], *, at_once: int) -> float:
    """Return the seconds that *work* takes for all *urls*."""
    with ThreadPoolExecutor(at_once) as threads:
        began = time.perf_counter()
        for _ in threads.map(work, urls):
            pass
        return time.perf_counter() - began


def run(
    arguments: Sequence[str], *, folder: Path | None = None, added: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end; return what it wrote.

    Args:
        arguments: The program and what follows it.
        folder: Where it runs.
        added: To the environment.

    Raises:
        ProgramFailed: Its status is not 0.
    """
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment() | dict(added or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise ProgramFailed(f"{arguments}:\n{done.stdout[-2000:]}")
    return done.stdout
