"""Programs for tests that need another process: one to be killed, or one that sees changes.

``python -m tests.integration.programs PROGRAM SETTINGS [ARGUMENT...]``
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from pydantic import SecretStr

from tenantry.fleet.run_options import RunOptions
from tenantry.kit import log
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser

ROOT = Path(__file__).parents[2]
LINE_SECONDS_MAX = 100


def _text(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class Program:
    """A program that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, seconds: float = LINE_SECONDS_MAX) -> str:
        """Return its next line; empty when it has ended."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            return (await self._process.stdout.readline()).decode().strip()

    async def begin(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")
        await self._process.stdin.drain()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self, seconds: float = LINE_SECONDS_MAX) -> tuple[int, str]:
        """Wait for its end; return its status, and what else it said."""
        async with asyncio.timeout(seconds):
            said, _ = await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode, said.decode()


@asynccontextmanager
async def running(
    name: str, settings: Settings, *arguments: object, waits: bool = False
) -> AsyncIterator[Program]:
    """Run a program; it is killed when the block ends.

    Args:
        name: One of `PROGRAMS`.
        settings: Its settings.
        arguments: Of the program.
        waits: It loads, and waits for `Program.begin`.
    """
    values = settings.model_dump(exclude_unset=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.integration.programs", name, json.dumps(values, default=_text)),
        *map(str, arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    if not waits:
        await program.begin()
    try:
        yield program
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def _write_line(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _migrate(services: Services) -> None:
    """Plan a run, print its id, wait for its end, and print its counts."""
    run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
    _write_line(run_id)
    run = await services.fleet.wait(run_id)
    _write_line(f"{run.success_count} {run.failed_count}")


async def _undo(services: Services, run_id: str) -> None:
    """Plan the undo of a run, print its id, wait for its end, and print its counts."""
    options = RunOptions(undoes=UUID(run_id))
    ctx = system_context("test")
    undo_id = await services.fleet.plan(ctx, triggered_by="test", options=options)
    _write_line(undo_id)
    run = await services.fleet.wait(undo_id)
    _write_line(f"{run.success_count} {run.failed_count}")


async def _work(_services: Services) -> None:
    """Work on every run until a signal comes."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    _write_line("ready")
    await stop.wait()


async def _provision(services: Services, *names: str) -> None:
    """Make tenants, one after the other."""
    _write_line("ready")
    for name in names:
        owner = NewUser(
            email="owner@example.com", full_name="Owner", password="correct horse battery"
        )
        await services.lifecycle.provision(
            system_context("test"), name=name, owner=owner, module_keys=None
        )
        _write_line(name)


async def _start(_services: Services) -> None:
    """Start, and end."""
    _write_line("started")


PROGRAMS: dict[str, Callable[..., Awaitable[None]]] = {
    "migrate": _migrate,
    "undo": _undo,
    "work": _work,
    "provision": _provision,
    "start": _start,
}


async def _main(name: str, settings: str, *arguments: str) -> None:
    log.configure(log_format="json", level="error")  # what it says is on standard output
    await asyncio.to_thread(sys.stdin.readline)
    async with open_services(Settings(**json.loads(settings))) as services:
        await PROGRAMS[name](services, *arguments)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
