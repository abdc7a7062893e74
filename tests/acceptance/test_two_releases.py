"""The code of one release replaces that of another, process by process, in the middle of a run.

The next release is a second tree of the source code: it has one more revision of the catalog, and
one more of the tenants. Each release has its own processes, which run from their own tree.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from testkit.programs import Program, free_port, running
from testkit.raw_sql import rows
from testkit.revisions import AlembicFolder
from tests.acceptance.commands import ADA, Commands
from tests.acceptance.support import ADMIN_LOGIN, HISTORY, LOGIN, MIGRATE_ALL, OWN_POSTS
from tests.conftest import PASSWORD
from tests.integration.engines import on_postgresql

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SOURCE = Path(__file__).parents[2] / "src"
WITHOUT_COMPILED = shutil.ignore_patterns("__pycache__")
OWNER = "owner@example.com"
LOGGED = "SELECT revision FROM tenantry_migration_log WHERE revision LIKE 'u1%'"
REPLACED = "replaced"
TENANTS = 24
PROCESSES = 2
CLIENTS = 2
NEXT_HEAD = "0004"
WAIT_SECONDS_MAX = 120.0
LEAVE_SECONDS = 0.3
NEXT_REVISION = """
import sqlalchemy as sa

revision = "{next:04}"
down_revision = "{head:04}"


def upgrade(op):
    op.create_table("tenantry_of_the_next_release", sa.Column("id", sa.Integer, primary_key=True))
"""
# Live, and slow until every process is replaced: all tenants together take longer than the start
# of two processes on a busy machine, and one of them less than a process has for its end.
USER_REVISION = """
    for _ in range(60):
        if not pathlib.Path({path!r}).exists():
            time.sleep(0.1)
    op.create_table("note", sa.Column("id", sa.Integer, primary_key=True))
"""


@dataclass
class Served:
    """The processes that clients are sent to, as a load balancer knows them."""

    urls: list[str] = field(default_factory=list)
    programs: list[tuple[ExitStack, Program]] = field(default_factory=list)

    def start(self, folder: Path, source: Path, environment: dict[str, str]) -> None:
        port, stack = free_port(), ExitStack()
        program = stack.enter_context(
            running(folder, "serve", "--port", str(port), **environment, PYTHONPATH=str(source))
        )
        self.programs.append((stack, program))
        program.wait_for("^Tenantry answers at")
        self.urls.append(f"http://127.0.0.1:{port}")

    @contextmanager
    def serving(self) -> Iterator["Served"]:
        """End what is still running after the block."""
        try:
            yield self
        finally:
            for stack, _ in self.programs:
                stack.close()

    def stop_first(self) -> None:
        """Take the oldest process out of service, and end it."""
        stack, program = self.programs.pop(0)
        with stack:
            self.urls.pop(0)
            time.sleep(LEAVE_SECONDS)
            assert program.end() == 0, program.stderr


@dataclass
class Writers:
    """Clients that write one post after another, and count what is acknowledged."""

    served: Served
    api_key: str
    token: str
    acknowledged: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def writing(self) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._write, args=(number,)) for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in threads:
                thread.join()

    def _write(self, writer: int) -> None:
        headers = {"x-api-key": self.api_key, "authorization": f"Bearer {self.token}"}
        number = 0
        while not self._ends.is_set():
            number += 1
            title = f"Post {writer}-{number}"
            answer = httpx.post(
                f"{self.served.urls[number % len(self.served.urls)]}{OWN_POSTS}",
                json={"title": title, "content": "It rained.", "tags": []},
                headers=headers,
                timeout=60,
            )
            if answer.status_code == 201:
                self.acknowledged.append(title)
            elif answer.status_code != 503 or "retry-after" not in answer.headers:
                self.others.append(f"{answer.status_code} {answer.text}")
            time.sleep(0.02)


@dataclass(frozen=True)
class Caller:
    """A client with the tokens of an admin and of a user."""

    served: Served
    admin_token: str
    user_token: str
    api_key: str

    def migrate(self) -> str:
        """Return the id of a new run of all tenants."""
        return str(self._send("POST", MIGRATE_ALL, prefer="respond-async")["id"])

    def run(self, run_id: str) -> Any:
        """Return a run as it is now."""
        return self._send("GET", f"{HISTORY}/{run_id}")

    def ended(self, run_id: str) -> Any:
        """Return a run, as soon as it has ended."""
        ends = time.monotonic() + WAIT_SECONDS_MAX
        while not (run := self.run(run_id))["finishedAt"]:
            assert time.monotonic() < ends, run
            time.sleep(0.1)
        return run

    def post_count(self) -> int:
        """Return how many posts the user's tenant has."""
        headers = {"authorization": f"Bearer {self.user_token}", "x-api-key": self.api_key}
        answer = httpx.get(f"{self.served.urls[0]}{OWN_POSTS}", headers=headers, timeout=60)
        return int(answer.json()["data"]["totalCount"])

    def _send(self, method: str, path: str, **headers: str) -> Any:
        headers["authorization"] = f"Bearer {self.admin_token}"
        answer = httpx.request(method, f"{self.served.urls[0]}{path}", headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()["data"]


def next_release(folder: Path) -> Path:
    """Return a tree of the source code with one more revision in each stream."""
    shutil.copytree(SOURCE / "tenantry", folder / "tenantry", ignore=WITHOUT_COMPILED)
    for stream in ("catalog", "tenant"):
        versions = folder / "tenantry" / stream / "revisions" / "versions"
        head = max(int(one.name[:4]) for one in versions.glob("*.py"))
        text = NEXT_REVISION.format(next=head + 1, head=head)
        (versions / f"{head + 1:04}_create_table.py").write_text(text)
    return folder


def logged_in(served: Served, path: str, email: str, **headers: str) -> str:
    body = {"email": email, "password": PASSWORD}
    answer = httpx.post(f"{served.urls[0]}{path}", json=body, headers=headers, timeout=60)
    return str(answer.json()["data"]["token"])


@pytest.fixture(name="environment")
def _environment(tenantry: Commands, tmp_path: Path) -> dict[str, str]:
    revisions = AlembicFolder(tmp_path / "user")
    body = USER_REVISION.format(path=str(tmp_path / REPLACED))
    revisions.add("u1_create_note", body, head="import pathlib, time\nonline = True")
    return {
        **tenantry.environment,
        "TENANTRY_TENANT_MIGRATIONS": str(revisions.path),
        "TENANTRY_MIGRATE_CONCURRENCY": "1",
    }


@on_postgresql
def test_a_release_replaces_another_in_the_middle_of_a_run(
    tenantry: Commands, environment: dict[str, str], tmp_path: Path
) -> None:
    tenantry.create_admin()
    tenants = [tenantry.create_tenant(f"tenant{number}") for number in range(TENANTS)]
    api_key = tenants[0]["apiKey"]
    following = next_release(tmp_path / "next")
    with Served().serving() as served:
        for _ in range(PROCESSES):
            served.start(tmp_path, SOURCE, environment)
        admin_token = logged_in(served, ADMIN_LOGIN, ADA)
        user_token = logged_in(served, LOGIN, OWNER, **{"x-api-key": api_key})
        caller = Caller(served, admin_token, user_token, api_key)
        writers = Writers(served, api_key, user_token)
        with writers.writing():
            run_id = caller.migrate()
            for _ in range(PROCESSES):
                served.start(tmp_path, following, environment)
                served.stop_first()
            assert caller.run(run_id)["finishedAt"] is None
            (tmp_path / REPLACED).touch()
            run = caller.ended(run_id)
            last = caller.ended(caller.migrate())
        post_count = caller.post_count()

    assert (run["successCount"], run["failedCount"]) == (TENANTS, 0)
    assert (last["successCount"], last["failedCount"]) == (TENANTS, 0)
    assert writers.others == []
    assert post_count == len(writers.acknowledged) > 0
    server = tenantry.settings.tenant_server_url.get_secret_value()
    for tenant in tenants:
        url = f"{server.rpartition('/')[0]}/{tenant['databaseName']}"
        assert rows(url, "SELECT version_num FROM tenantry_version") == [(NEXT_HEAD,)]
        assert rows(url, "SELECT version_num FROM alembic_version") == [("u1",)]
        assert rows(url, LOGGED) == [("u1_create_note",)]
