"""Queued moves, and a SIGKILL of the process that runs them."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tenantry.catalog.job_states import INTERRUPTED
from tenantry.db.factory import open_server
from tenantry.db.servers import Server
from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from testkit.programs import Program, free_port, running
from tests.acceptance.commands import ADA, Commands
from tests.conftest import PASSWORD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NEAR, FAR = "default", "far"
NAMES = ("Ash", "Birch", "Cedar", "Elm", "Fir", "Oak")
ROWS = 20_000
# Most kills hit a move before its end; one of so many does.
KILLS_MAX = 10
# After the first move has begun.
KILLED_WITHIN_SECONDS = 0.3
ENDED_SECONDS_MAX = 120
CREATE = "CREATE TABLE note (id INTEGER PRIMARY KEY, body VARCHAR(200) NOT NULL)"
FILL = (
    "INSERT INTO note WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
    f"WHERE i < {ROWS}) SELECT i, 'some text of a note, again and again' FROM n"
)


@pytest.fixture(name="far_url")
def _far_url(tenantry: Commands) -> str:
    """Another folder; or the same server of PostgreSQL under another name."""
    url = tenantry.settings.servers["default"].address
    return url if sqlite_path(url) is None else f"sqlite:///{tenantry.folder / 'far'}"


@pytest.fixture(name="servers")
def _servers(tenantry: Commands, far_url: str) -> dict[str, Server]:
    tenantry.environment["TENANTRY_TENANT_SERVERS"] = json.dumps({FAR: far_url})
    urls = {NEAR: tenantry.settings.servers["default"].address, FAR: far_url}
    return {
        name: open_server(url, connections_max=1, timeout_seconds=5, synchronous="FULL")
        for name, url in urls.items()
    }


@pytest.fixture(name="fleet")
def _fleet(tenantry: Commands, servers: dict[str, Server]) -> Commands:
    """A fleet of tenants with tables of their own."""
    tenantry.create_admin()
    for name in NAMES:
        made = tenantry.create_tenant(name)
        raw_sql.run(servers[NEAR].url(made["databaseName"]), CREATE, FILL)
    return tenantry


@contextmanager
def served(fleet: Commands) -> Iterator[tuple[Program, httpx.Client]]:
    """Serve the fleet, and yield the process with an admin's client."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {**fleet.environment, "TENANTRY_PORT": str(port)}
    with (
        running(fleet.folder, "serve", **variables) as program,
        httpx.Client(base_url=url, timeout=60) as admin,
    ):
        program.wait_for(url)
        login = admin.post("/api/admin/auth/login", json={"email": ADA, "password": PASSWORD})
        admin.headers["Authorization"] = f"Bearer {login.json()['data']['token']}"
        yield program, admin


def items(admin: httpx.Client, path: str) -> list[Any]:
    answer = admin.get(path, params={"pageSize": 100})
    return list(answer.raise_for_status().json()["data"]["items"])


def ended_jobs(admin: httpx.Client) -> list[Any]:
    """Return all jobs when they have ended."""
    until = time.monotonic() + ENDED_SECONDS_MAX
    while any(one["finishedAt"] is None for one in items(admin, "/api/admin/jobs")):
        assert time.monotonic() < until, items(admin, "/api/admin/jobs")
        time.sleep(0.1)
    return items(admin, "/api/admin/jobs")


def wait_for_first(admin: httpx.Client) -> None:
    """Wait until a process runs a job, or has run it."""
    while all(one["state"] == "queued" for one in items(admin, "/api/admin/jobs")):
        time.sleep(0.01)


def move_all(admin: httpx.Client, *, to: str) -> None:
    body = {"fromServer": NEAR if to == FAR else FAR, "toServer": to}
    admin.post("/api/admin/tenants/move-all", json=body).raise_for_status()


def check(fleet: Commands, servers: dict[str, Server], admin: httpx.Client) -> list[str]:
    """Check that each tenant has one complete, writable database; return their servers."""
    found = items(admin, "/api/admin/tenants")
    assert {one["name"] for one in found} == set(NAMES)
    assert [one["name"] for one in found if one["isReadOnly"] or not one["isActive"]] == []
    for one in found:
        url = servers[one["serverName"]].url(one["databaseName"])
        assert raw_sql.rows(url, "SELECT count(*) FROM note") == [(ROWS,)]
        raw_sql.run(url, "UPDATE note SET body = 'written' WHERE id = 1")
    existing = {
        name for server in servers.values() for name in asyncio.run(server.names("tenantry_"))
    }
    listed = {one["databaseName"] for one in found}
    assert {name for name in existing if "template" not in name} == listed
    assert [
        job for job in fleet("backup", "jobs", "--json").data["items"] if job["databaseName"]
    ] == []
    return [one["serverName"] for one in found]


class TestKill:
    def test_of_the_process_leaves_each_tenant_on_one_server(
        self, fleet: Commands, servers: dict[str, Server]
    ):
        """The moves that had not begun are run by the next process."""
        chance, interrupted = random.Random(), 0  # noqa: S311 - it chooses moments
        for kill in range(KILLS_MAX):
            to = (FAR, NEAR)[kill % 2]
            with served(fleet) as (program, admin):
                move_all(admin, to=to)
                wait_for_first(admin)
                time.sleep(chance.uniform(0, KILLED_WITHIN_SECONDS))
                program.process.kill()

            with served(fleet) as (_, admin):
                jobs = ended_jobs(admin)
                assert {one["error"] for one in jobs} <= {None, INTERRUPTED}
                interrupted = sum(one["error"] is not None for one in jobs)
                check(fleet, servers, admin)
                move_all(admin, to=to)
                assert ended_jobs(admin)[0]["error"] is None
                assert check(fleet, servers, admin) == [to] * len(NAMES)
            if interrupted:
                return
        pytest.fail("No kill was before the end of a move.")
