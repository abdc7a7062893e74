"""``tenantry serve`` as an operator runs it, and calls of its API."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from harness import wire
from testkit.programs import Program, free_port, running

START_SECONDS_MAX = 60
START_TRIES_MAX = 5
OK = 200
RUN_SECONDS_MAX = 120
MIGRATE_ALL = "/api/admin/tenants/migrate-all"
HISTORY = "/api/admin/tenants/migration-history"


class NotServing(Exception):
    """A server does not answer; the message holds the end of what it wrote."""


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        url: Where.
        port: Of it.
        program: What runs.
    """

    url: str
    port: int
    program: Program

    @property
    def said(self) -> str:
        """All that it has written."""
        return self.program.stdout + self.program.stderr


@contextmanager
def serving(folder: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """Run a server until the block ends.

    Raises:
        NotServing: It has ended, or did not answer in time.
    """
    with ExitStack() as stack:
        yield _start(stack, folder, environment)


def _start(stack: ExitStack, folder: Path, environment: Mapping[str, str]) -> Server:
    for tried in range(1, START_TRIES_MAX + 1):
        port = free_port()
        program = stack.enter_context(running(folder, "serve", "--port", str(port), **environment))
        server = Server(f"http://127.0.0.1:{port}", port, program)
        if _answers(server):
            return server
        # Another process may have taken the port.
        if tried == START_TRIES_MAX or "is taken" not in server.said:
            raise NotServing(server.said[-2000:])
    raise AssertionError("not reached")


def admin(server: Server, token: str) -> httpx.AsyncClient:
    """Return a client for an admin's calls."""
    return httpx.AsyncClient(
        base_url=server.url,
        headers={"authorization": f"Bearer {token}"},
        timeout=RUN_SECONDS_MAX,
        verify=False,  # noqa: S501 - it would read the certificates of the world each time
    )


async def newest_runs(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """Return the newest runs, with their details."""
    items: list[dict[str, Any]] = []
    size = min(count, 100)
    for page in range(1, (count - 1) // size + 2):
        answer = await client.get(HISTORY, params={"page": page, "pageSize": size})
        items += answer.raise_for_status().json()["data"]["items"]
    return items[:count]


def _answers(server: Server) -> bool:
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until and server.program.process.poll() is None:
        try:
            if wire.ask(server.port, wire.request("GET", "/readyz")).status == OK:
                return True
        except OSError:
            time.sleep(0.05)
    return False
