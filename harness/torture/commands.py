"""Commands of Tenantry, each in a process that can be killed at any moment."""

import ctypes
import multiprocessing
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

LENGTH_SECONDS_MAX = 60
# With each kill that hits, the next one may come later.
LONGER = 1.05
NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET

# The start of a process also reads the exit status of those that have ended, and it can be read
# once: of two threads that do it at the same time, one would see 255.
_polls = threading.Lock()
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "harness.torture.commands",
        "tenantry.cli.backups",
        "tenantry.cli.fleet",
        "tenantry.cli.tenants",
    ]
)


def start_command(
    environment: Mapping[str, str],
    folder: Path,
    arguments: tuple[str, ...],
    *,
    network: Path | None = None,
) -> ForkServerProcess:
    """Start a command, and return its process.

    Args:
        environment: Its settings.
        folder: Where it runs.
        arguments: Of `tenantry`.
        network: The file of its network namespace; None for that of this process.
    """
    process = _context.Process(
        target=_run, args=(dict(environment), str(folder), arguments, network), daemon=False
    )
    with _polls:
        process.start()
    return process


def run_command(
    environment: Mapping[str, str],
    folder: Path,
    arguments: tuple[str, ...],
    *,
    kill_after: float | None = None,
) -> int | None:
    """Run a command; return its exit status, None if it was killed.

    Args:
        environment: Its settings.
        folder: Where it runs.
        arguments: Of `tenantry`.
        kill_after: When it is killed, in seconds.
    """
    process = start_command(environment, folder, arguments)
    return end_command(process, LENGTH_SECONDS_MAX if kill_after is None else kill_after)


def next_length(length: float, took: float | None) -> float:
    """Return how long the next command takes, in seconds, of which each moment may be its last.

    The newest measurement counts: a machine is busy at one time, and idle at another. A kill that
    hit says that the command takes longer; otherwise one short command, which had nothing left to
    do, would bring all later kills forward for good.

    Args:
        length: What the command before was expected to take, in seconds.
        took: What it took; None if it was killed.
    """
    return length * LONGER if took is None else took


def end_command(process: ForkServerProcess, seconds: float = LENGTH_SECONDS_MAX) -> int | None:
    """Return the exit status of a process; None if it is killed, after *seconds*."""
    if not wait([process.sentinel], seconds):
        process.kill()
        wait([process.sentinel])
        return None
    with _polls:
        return process.exitcode


def _run(
    environment: Mapping[str, str], folder: str, arguments: tuple[str, ...], network: Path | None
) -> None:
    """Run a command of Tenantry in this process."""
    from tenantry.cli.main import cli  # noqa: PLC0415

    if network is not None:
        _enter(network)
    for name in [name for name in os.environ if name.startswith("TENANTRY_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.chdir(folder)
    with open(os.devnull, "w") as nothing, suppress(BrokenPipeError):  # noqa: PTH123
        sys.stdout = sys.stderr = nothing
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
        cli(list(arguments))


def _enter(network: Path) -> None:
    """Move this process into a network namespace: `os.setns` is newer than our oldest Python."""
    with network.open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NETWORK_NAMESPACE):
            raise OSError(ctypes.get_errno(), str(network))
