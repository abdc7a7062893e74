"""Releases of the operator's revisions: plans, waves, undos, and processes that end."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from harness.api import HISTORY, MIGRATE_ALL
from harness.states.machine import Content, Tenant, TenantStates
from harness.states.service import Service
from harness.world import settings_of

RELEASES_MAX = 6
COMMAND_MS_MAX = 2_000
PAGE = f"{HISTORY}?details=none&pageSize=100"


@dataclass(frozen=True)
class Plan:
    """A plan, and what it is of.

    Attributes:
        id: Its id.
        released: How many revisions there were.
        contents: What the databases of its tenants contained, by the id of the tenant.
    """

    id: str
    released: int
    contents: Mapping[str, tuple[Content, int]]


@dataclass(frozen=True)
class Run:
    """A run that has applied revisions.

    Attributes:
        id: Its id.
        head: How many revisions the databases have after it.
        contents: The databases that it has migrated, with the number before, by tenant.
    """

    id: str
    head: int
    contents: Mapping[str, tuple[Content, int]]


class ReleaseStates(TenantStates):
    """The steps of `TenantStates`, and those of an operator with revisions."""

    def __init__(self) -> None:
        """Start the service."""
        super().__init__()
        self.made: Plan | None = None
        self.last: Run | None = None
        self.has_crashed = False

    def written(self) -> dict[str, Tenant]:
        """Return the tenants that a run includes."""
        return {one.id: one for one in self.tenants if one.is_written}

    def behind(self) -> list[Tenant]:
        """Return those of them that have pending revisions."""
        return [one for one in self.written().values() if one.content.revision < self.released]

    def contents(self) -> dict[str, tuple[Content, int]]:
        """Return the databases that a run includes, and how many revisions they have."""
        return {key: (one.content, one.content.revision) for key, one in self.written().items()}

    @precondition(lambda self: self.released < RELEASES_MAX)
    @rule()
    def release(self) -> None:
        """Add a revision, and replace the process by one that knows it."""
        self.note("release")
        self.released += 1
        write_revision(Path(self.environment["TENANTRY_TENANT_MIGRATIONS"]), self.released)
        self.service.close()
        self.service = Service(settings_of(self.environment))

    @precondition(lambda self: self.steps[-1] != "migrate")
    @rule()
    def migrate(self) -> None:
        """Migrate every tenant; suspended and read-only ones are left out."""
        before = self.contents()
        super().migrate()
        self.remember(before)

    @precondition(lambda self: self.written())
    @rule(is_rehearsed=st.booleans())
    def plan(self, is_rehearsed: bool) -> None:  # noqa: FBT001 - hypothesis passes names
        """Plan a run."""
        self.note("plan")
        body = {"dryRun": True, "rehearse": is_rehearsed}
        answer = self.service.admin("POST", MIGRATE_ALL, body)
        assert answer.status == 200, answer.body
        self.made = Plan(answer.json()["data"]["plan"]["id"], self.released, self.contents())

    @precondition(lambda self: self.made)
    @rule()
    def start_the_plan(self) -> None:
        """Start the plan: it runs exactly as it was made, or nothing is changed."""
        assert self.made is not None
        self.note("start a plan")
        plan, self.made = self.made, None
        before = self.contents()
        answer = self.service.admin("POST", MIGRATE_ALL, {"plan": plan.id})
        if answer.status == 409:
            assert not _same(plan.contents, before) or plan.released != self.released, answer.body
            return
        assert answer.status == 200, answer.body
        assert plan.released == self.released, answer.body
        done = self.take(answer.json()["data"])
        assert set(done) <= set(plan.contents), answer.body
        for key, (content, revision) in plan.contents.items():
            found = before.get(key)
            if found is not None and found[0] is content and found[1] == revision:
                assert key in done, answer.body
        self.remember(before)

    @precondition(lambda self: len(self.behind()) > 1)
    @rule(continues=st.booleans())
    def hold(self, continues: bool) -> None:  # noqa: FBT001 - hypothesis passes names
        """Hold a run after its first wave, and continue or cancel it."""
        self.note("hold")
        before, behind = self.contents(), {one.id for one in self.behind()}
        body = {"waves": [1, "100%"], "hold": True, "onlyBehind": True}
        answer = self.service.admin("POST", MIGRATE_ALL, body)
        assert answer.status == 200, answer.body
        data = answer.json()["data"]
        assert (data["holdingWave"], data["success"]) == (1, 1), data
        first = self.take(data)
        assert len(first) == 1, data
        assert set(first) <= behind, data
        path = f"{HISTORY}/{data['runId']}"
        word, more = ("continue", {"wave": 1}) if continues else ("cancel", {})
        answer = self.service.admin("POST", f"{path}/{word}", more)
        assert answer.status in {200, 202}, answer.body
        self.wait_for_runs()
        if continues:
            for tenant in self.behind():
                tenant.content.revision = self.released
        self.remember(before)

    @precondition(lambda self: self.undoable())
    @rule()
    def undo(self) -> None:
        """Undo the last run."""
        assert self.last is not None
        self.note("undo")
        answer = self.service.admin("POST", f"{HISTORY}/{self.last.id}/undo", {})
        assert answer.status == 200, answer.body
        data = answer.json()["data"]
        assert data["failed"] == 0, data
        for content, revision in self.last.contents.values():
            content.revision = revision
        self.last = None

    def undoable(self) -> bool:
        """Return whether the databases of the last run are as it has left them."""
        if self.last is None:
            return False
        now = self.contents()
        wanted = {
            key: (content, self.last.head) for key, (content, _) in self.last.contents.items()
        }
        return _same(wanted, {key: now[key] for key in wanted if key in now})

    @precondition(lambda self: not self.has_crashed and self.behind())
    @rule(ms=st.integers(0, COMMAND_MS_MAX))
    def crash(self, ms: int) -> None:
        """Kill a command in a run: the other process, or the next run, ends it."""
        self.note("crash")
        self.has_crashed = True
        command = [sys.executable, "-m", "tenantry", "migrate", "all"]
        with subprocess.Popen(
            command,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(ms / 1000)
            except subprocess.TimeoutExpired:
                process.kill()
        self.wait_for_runs()
        self.migrate()

    def take(self, data: Any) -> list[str]:
        """Note what a run has done, and return the ids of the tenants that it has migrated."""
        done = [one["customerId"] for one in data["details"] if one["status"] == "success"]
        for tenant in self.tenants:
            if tenant.id in done:
                tenant.content.revision = self.released
        return done

    def remember(self, before: Mapping[str, tuple[Content, int]]) -> None:
        """Note the newest run, if the databases that were so *before* have more revisions now."""
        newest = self.service.admin("GET", PAGE).json()["data"]["items"][0]["id"]
        grown = {key: one for key, one in before.items() if one[0].revision > one[1]}
        self.last = Run(newest, self.released, grown) if grown else None

    def wait_for_runs(self) -> None:
        """Wait until each run has ended."""

        def is_over() -> bool:
            items = self.service.admin("GET", PAGE).json()["data"]["items"]
            return all(one["finishedAt"] is not None for one in items)

        self.service.run_until(is_over, "a run does not end")


def write_revision(folder: Path, number: int) -> None:
    """Write the revision *number* of the operator, which creates a table."""
    before = f'"{number - 1:04}"' if number > 1 else None
    (folder / "versions").mkdir(parents=True, exist_ok=True)
    (folder / "versions" / f"{number:04}_add_table.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f'revision, down_revision = "{number:04}", {before}\n\n\n'
        "def upgrade():\n"
        f'    op.create_table("made_{number}", sa.Column("id", sa.Integer, primary_key=True))\n\n\n'
        f'def downgrade():\n    op.drop_table("made_{number}")\n'
    )


def _same(one: Mapping[str, tuple[Content, int]], other: Mapping[str, tuple[Content, int]]) -> bool:
    """Return whether both are the same databases with the same revisions."""
    return one.keys() == other.keys() and all(
        content is other[key][0] and revision == other[key][1]
        for key, (content, revision) in one.items()
    )
