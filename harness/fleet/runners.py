"""Processes that work on a fleet, and can be killed.

They are forked from one that has imported everything, so that hundreds of them can be
started; each opens services of its own, as any process of Tenantry does.
"""

import asyncio
import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from uuid import UUID

import uvloop

from harness.world import settings_of
from tenantry.kit import log
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings

START_SECONDS_MAX = 60
ANSWER_SECONDS_MAX = 60
PLAN = "plan"

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["harness.fleet.runners"])


class NoAnswer(Exception):
    """A process has not said what was awaited."""


class Runner:
    """A process that works on a fleet until it is killed.

    Args:
        environment: Its settings.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, theirs = _context.Pipe()
        self._process = _context.Process(target=_run, args=(dict(environment), theirs), daemon=True)
        self._process.start()
        theirs.close()

    def wait_ready(self) -> None:
        """Wait until the process has started."""
        self._receive(START_SECONDS_MAX)

    def begin_plan(self) -> None:
        """Ask the process to plan a run."""
        self._ours.send(PLAN)

    def planned(self) -> UUID:
        """Return the id of the planned run."""
        return UUID(self._receive(ANSWER_SECONDS_MAX))

    def planned_if_reported(self) -> UUID | None:
        """Return the id of the planned run if it was reported already, else None."""
        return self.planned() if self._ours.poll() else None

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end of the process."""
        self._process.kill()
        self._process.join()
        self._ours.close()

    def _receive(self, seconds: float) -> str:
        if not self._ours.poll(seconds):
            raise NoAnswer(f"nothing within {seconds} s")
        try:
            return str(self._ours.recv())
        except EOFError as error:
            raise NoAnswer("the process has ended") from error


def _run(environment: dict[str, str], to_parent: Connection) -> None:
    log.configure(log_format="json", level="error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings_of(environment), to_parent))


async def _work(settings: Settings, to_parent: Connection) -> None:
    async with open_services(settings) as services:
        to_parent.send("ready")
        while await asyncio.to_thread(_next, to_parent) == PLAN:
            to_parent.send(str(await _plan(services)))


async def _plan(services: Services) -> UUID:
    return await services.fleet.plan(system_context("torture"), triggered_by="torture")


def _next(to_parent: Connection) -> str:
    try:
        return str(to_parent.recv())
    except EOFError:
        os._exit(1)  # the parent process is gone
