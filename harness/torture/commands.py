"""Commands of Tenantry, each in a process that can be killed at any moment."""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

LENGTH_SECONDS_MAX = 60

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["harness.torture.commands", "tenantry.cli.backups", "tenantry.cli.tenants"]
)


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
    process = _context.Process(
        target=_run, args=(dict(environment), str(folder), arguments), daemon=False
    )
    process.start()
    process.join(LENGTH_SECONDS_MAX if kill_after is None else kill_after)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    return process.exitcode


def _run(environment: Mapping[str, str], folder: str, arguments: tuple[str, ...]) -> None:
    """Run a command of Tenantry in this process."""
    from tenantry.cli.main import cli  # noqa: PLC0415

    for name in [name for name in os.environ if name.startswith("TENANTRY_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.chdir(folder)
    with open(os.devnull, "w") as nothing, suppress(BrokenPipeError):  # noqa: PTH123
        sys.stdout = sys.stderr = nothing
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
        cli(list(arguments))
