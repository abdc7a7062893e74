"""Random interleavings of plans with deployments and changes of tenants, in real processes.

In each, a plan is made, and things happen before its start, during the start, and in the middle of
its run. Whatever happens, a tenant only gets what was in the plan. ``TENANTRY_TEST_SEED`` repeats
the interleaving that a failure has printed, or without its number, all of a seed.
``TENANTRY_TEST_COUNT`` plays more of them: 100 for a proof.
"""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.access import admins
from tenantry.access.principal import Person, Role
from tenantry.catalog import tenants
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from tests.acceptance.deployments import KINDS, LIVE, Process, Project, start
from tests.acceptance.support import HISTORY, MIGRATE_ALL, TENANTS, ok
from tests.conftest import PASSWORD
from tests.integration.gates import url_of

SEED = "7"
SEED_VARIABLE = "TENANTRY_TEST_SEED"
COUNT_VARIABLE = "TENANTRY_TEST_COUNT"
RUNS = "/api/admin/migration-runs"
TENANT_COUNT = 3
WAIT_SECONDS_MAX = 60.0
POLL_SECONDS = 0.02
DELAY_SECONDS_MAX = 0.1


@dataclass(frozen=True)
class Change:
    """Something that has happened since the plan was made.

    Attributes:
        words: One of them is in a message that names it; without words, the first process must not
            notice it.
        is_of_files: Whether another change can take it back: the files are again those of the plan.
    """

    words: Sequence[str] = ()
    is_of_files: bool = False


@dataclass
class Stage:
    """Two projects, a process with the files of each, and some tenants.

    Attributes:
        first: The project whose process makes and starts the plans.
        urls: The database of each tenant that was ever created, by its id.
        names: The tenants that are active, by their ids.
    """

    settings: Settings
    services: Services
    token: str
    first: Project
    second: Project
    processes: dict[Path, Process] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def admin(self) -> httpx.AsyncClient:
        return self.processes[self.first.path].admin

    async def restart(self, project: Project, by: signal.Signals = signal.SIGTERM) -> None:
        """Start the process of a project; end the one before first."""
        await self.end(project, by)
        self.processes[project.path] = await start(self.settings, project, self.token)

    async def end(self, project: Project, by: signal.Signals = signal.SIGTERM) -> None:
        if project.path in self.processes:
            await self.processes.pop(project.path).end(by)

    async def create_tenant(self, name: str) -> None:
        owner = {"email": "owner@example.com", "fullName": "Owner", "password": PASSWORD}
        answer = await self.admin.post(TENANTS, json={"name": name, "owner": owner})
        if answer.status_code == 503:
            return  # the revisions cannot be read, or were replaced
        made = ok(answer, 201)
        tenant = await tenants.get(self.services.catalog, UUID(made["id"]))
        self.urls[made["id"]] = url_of(self.services, tenant)
        self.names[made["id"]] = name

    async def delete_tenant(self, tenant_id: str) -> None:
        path, name = f"{TENANTS}/{tenant_id}", self.names.pop(tenant_id)
        ok(await self.admin.patch(path, json={"isActive": False}))
        deleted = await self.admin.delete(path, params={"name": name})
        assert deleted.status_code in {200, 409}, deleted.text  # it is being migrated

    async def run_of(self, plan_id: str) -> Any:
        """Return the run of a plan; None if there is none."""
        items = ok(await self.admin.get(RUNS, params={"pageSize": 5}))["items"]
        return next((one for one in items if one.get("planId") == plan_id), None)

    async def reset(self) -> None:
        """Let every tenant be at the first revision, and have as many as at the beginning."""
        for tenant_id in self.names:
            raw_sql.run(
                self.urls[tenant_id],
                "UPDATE alembic_version SET version_num = 'begin'",
                "DELETE FROM evidence",
            )
        while len(self.names) > TENANT_COUNT:
            await self.delete_tenant(next(reversed(self.names)))
        while len(self.names) < TENANT_COUNT:
            await self.create_tenant(f"tenant{len(self.urls):03}")


@asynccontextmanager
async def staged(settings: Settings, folder: Path) -> AsyncIterator[Stage]:
    project = Project(folder / "first", folder / "gate")
    project.begin()
    planned = settings.model_copy(update={"tenant_migrations": project.migrations})
    async with open_services(planned, works=False) as services:
        account = await admins.create(
            system_context("test"),
            services.catalog,
            services.passwords,
            email="ada@example.com",
            password=PASSWORD,
        )
        person = Person(account.id, account.email, Role.ADMIN, account.generation)
        token = (await services.tokens.issue(person, now=utc_now())).token
        second = project.copy_to(folder / "second")
        stage = Stage(settings, services, token, project, second)
        try:
            await stage.restart(project)
            yield stage
        finally:
            for one in stage.processes.values():
                await one.end(signal.SIGKILL)


class Interleaving:
    """One plan, and what happens until its run has ended.

    Attributes:
        told: What has happened, for the message of a failure.
        changes: What has happened since the plan was made.
    """

    def __init__(self, stage: Stage, number: int, random: Random) -> None:
        self.stage = stage
        self.name = f"r{number}"
        self.random = random
        self.told: list[str] = []
        self.changes: list[Change] = []
        self._kinds: dict[str, str] = {}
        self._creating: list[asyncio.Task[None]] = []

    async def play(self) -> str:
        """Return how it ended: refused, held or run."""
        stage, random = self.stage, self.random
        clean = stage.first.files()
        stage.first.gate.touch()
        stage.first.last, stage.first.tokens = "begin", {}
        for number in range(random.randint(1, 3)):
            self._kinds[f"{self.name}k{number}"] = kind = random.choice(KINDS)
            stage.first.add(f"{self.name}k{number}", kind)
        if random.random() < 0.3:
            await self._second_process()
        plan, planned = await self._plan()
        files, tokens = stage.first.files(), dict(stage.first.tokens)
        for _ in range(random.choice([0, 0, 1, 2])):
            await self._change()
        # `_more` leaves a line in this file, which alone changes nothing that would run.
        ini = {Path("alembic.ini"): b""}
        is_as_planned = stage.first.files() | ini == files | ini
        must_refuse = any(
            one.words and not (one.is_of_files and is_as_planned) for one in self.changes
        )
        stage.first.close_gate()
        clicked = asyncio.create_task(self._click(plan))
        if random.random() < 0.5:
            await asyncio.sleep(random.uniform(0, DELAY_SECONDS_MAX))
            await self._change(is_started=True)
        if LIVE in self._kinds.values() and not must_refuse:
            await self._until_in_the_middle(clicked)
            for _ in range(random.choice([0, 1, 2])):
                await self._change(is_started=True)
        stage.first.gate.touch()
        await asyncio.gather(*self._creating)
        end = await self._end(clicked, plan, files, must_refuse=must_refuse)
        await self._check(plan, planned, tokens)
        stage.first.restore(clean)
        await stage.reset()
        return end

    async def _plan(self) -> tuple[str, dict[str, list[str]]]:
        """Make a plan; return its id, and what each tenant is to get."""
        body: dict[str, object] = {"dryRun": True}
        if LIVE not in self._kinds.values() and self.random.random() < 0.3:
            body["rehearse"] = True
        if self.random.random() < 0.5:
            body["waves"] = [1, "100%"]
        self.told.append(f"revisions {self._kinds}, plan {body}")
        made = ok(await self.stage.admin.post(MIGRATE_ALL, json=body))["plan"]
        plan = ok(await self.stage.admin.get(f"/api/admin/plans/{made['id']}"))
        pending = {
            one["customerId"]: [name for name in one["pendingMigrations"].split(",") if name]
            for one in plan["details"]
        }
        assert set(pending) == set(self.stage.names)
        return made["id"], pending

    async def _click(self, plan: str) -> httpx.Response | None:
        """Start the plan, and return the answer; None if the process was ended first."""
        with contextlib.suppress(httpx.TransportError, RuntimeError):
            return await self.stage.admin.post(MIGRATE_ALL, json={"plan": plan})
        return None

    async def _change(self, *, is_started: bool = False) -> None:
        """Let something happen."""
        happen: list[Callable[[], Any]] = [
            self._edit,
            self._edit,
            self._add,
            self._remove,
            self._more,
            self._create_tenant,
            self._delete_tenant,
            self._migrate_by_hand,
            self._second_process,
            self._deploy_second,
        ]
        if is_started:
            happen.append(self._restart_first)
        chosen = self.random.choice(happen)
        self.told.append(chosen.__name__)
        words = chosen()
        is_of_files = not asyncio.iscoroutine(words)
        self.changes.append(Change(words if is_of_files else (await words) or (), is_of_files))

    def _edit(self, project: Project | None = None) -> list[str]:
        revision = self.random.choice(list(self._kinds))
        project = project or self.stage.first
        if not list(project.migrations.glob(f"*/{revision}.py")):
            return self._add()
        return [project.replace(revision, self._kinds[revision])]

    def _add(self, below: str = "versions") -> list[str]:
        revision = f"{self.name}x{len(self.changes)}"
        self.stage.first.add(revision, below=below)
        return [revision, "the head is"]

    def _remove(self) -> list[str]:
        project = self.stage.first
        files = list(project.migrations.glob(f"*/{project.last}.py"))
        if project.last == "begin" or not files:
            return self._add()
        text = files[0].read_text()
        revision, project.last = project.last, text.split("down_revision = '")[1].partition("'")[0]
        files[0].unlink()
        return [revision, "the head is"]

    def _more(self) -> list[str]:
        """Move the head with ``alembic.ini`` alone, but for a file in a folder that it names."""
        ini = self.stage.first.path / "alembic.ini"
        if "migrations/more" in ini.read_text():
            return self._add()
        words = self._add(below="more")
        ini.write_text(ini.read_text() + "  %(here)s/migrations/more\n")
        return words

    async def _create_tenant(self) -> list[str]:
        name = f"new{len(self.stage.urls):03}"
        creating = asyncio.create_task(self._try_to_create(name))
        self._creating.append(creating)
        if self.stage.first.gate.exists():
            await creating
        return [name]

    async def _try_to_create(self, name: str) -> None:
        with contextlib.suppress(httpx.TransportError, RuntimeError):  # the process was ended
            await self.stage.create_tenant(name)

    async def _delete_tenant(self) -> list[str]:
        tenant_id = self.random.choice(list(self.stage.names))
        name = self.stage.names[tenant_id]
        await self.stage.delete_tenant(tenant_id)
        return [name, "suspended or deleted"]

    def _migrate_by_hand(self) -> list[str]:
        """Alembic migrates a tenant: no row of the catalog, and no log, knows that."""
        tenant_id = self.random.choice(list(self.stage.names))
        moved = f"UPDATE alembic_version SET version_num = '{next(iter(self._kinds))}'"
        with contextlib.suppress(Exception):  # SQLite: it is locked by its migration
            raw_sql.run(self.stage.urls[tenant_id], moved)
            return [self.stage.names[tenant_id]]
        return []

    async def _second_process(self) -> None:
        """Start another process, or end it; its files are those of now, or others."""
        stage, random = self.stage, self.random
        if stage.second.path in stage.processes and random.random() < 0.3:
            await stage.end(stage.second, self._signal())
            return
        await stage.end(stage.second, self._signal())
        stage.second = stage.first.copy_to(stage.second.path)
        if random.random() < 0.3:
            self._edit(stage.second)
        await stage.restart(stage.second)

    def _deploy_second(self) -> list[str]:
        revision = self.random.choice(list(self._kinds))
        second = self.stage.second
        if revision in second.tokens and list(second.migrations.glob(f"*/{revision}.py")):
            second.replace(revision, self._kinds[revision])
        return []

    async def _restart_first(self) -> None:
        await self.stage.restart(self.stage.first, self._signal())

    def _signal(self) -> signal.Signals:
        """Return how a process ends; it is not asked to finish what waits at the gate."""
        is_open = self.stage.first.gate.exists()
        return self.random.choice([signal.SIGTERM, signal.SIGKILL]) if is_open else signal.SIGKILL

    async def _until_in_the_middle(self, clicked: "asyncio.Task[Any]") -> None:
        """Wait until a tenant is at the gate, or nothing will come there."""
        for _ in range(int(2 / POLL_SECONDS)):
            if clicked.done() or self.stage.first.has_arrived():
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _end(
        self,
        clicked: "asyncio.Task[Any]",
        plan: str,
        files: dict[Path, bytes],
        *,
        must_refuse: bool,
    ) -> str:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            run = None
            while run is None or not (run["finishedAt"] or "heldBecause" in run):
                run = await self.stage.run_of(plan)
                if run is None and clicked.done():
                    break
                await asyncio.sleep(POLL_SECONDS)
            if run is None:
                answer = await clicked
                run = await self.stage.run_of(plan)
            if run is None:
                return self._refused(answer)
            assert not must_refuse, "it was started"
            if not run["finishedAt"]:
                self._is_named(run["heldBecause"])
                await self._release(run, files)
                await clicked
                return "held"
            await clicked
        return "run"

    def _refused(self, answer: httpx.Response | None) -> str:
        if answer is None:
            return "not started"
        assert (answer.status_code, answer.headers.get("x-error-code")) == (409, "plan_changed")
        self._is_named(answer.json()["message"])
        return "refused"

    def _is_named(self, message: str) -> None:
        self.told.append(message)
        words = [word for one in self.changes for word in one.words]
        # A second process can hold a run that the first has left.
        words += [*self._kinds, "text_", "help_"] if "No running process" in message else []
        assert any(word in message for word in words), message

    async def _release(self, run: Any, files: dict[Path, bytes]) -> None:
        """End a held run: undo the deployment, or cancel it."""
        if self.random.random() < 0.5:
            self.stage.first.restore(files)
            # What it has imported stays in a process.
            await self.stage.restart(self.stage.first)
        else:
            answer = await self.stage.admin.post(f"{HISTORY}/{run['id']}/cancel")
            assert answer.status_code in {202, 409}, answer.text  # it has ended
        path = f"{RUNS}/{run['id']}"
        while not ok(await self.stage.admin.get(path))["finishedAt"]:  # noqa: ASYNC110 - by others
            await asyncio.sleep(POLL_SECONDS)

    async def _check(
        self, plan: str, planned: dict[str, list[str]], tokens: dict[str, str]
    ) -> None:
        """Check that each tenant has got all that was planned for it, or nothing."""
        run = await self.stage.run_of(plan)
        results = {}
        if run is not None:
            history = ok(await self.stage.admin.get(f"{RUNS}/{run['id']}/tenants"))["items"]
            results = {one["customerId"]: one for one in history}
        for tenant_id, url in self.stage.urls.items():
            if tenant_id not in self.stage.names and tenant_id not in planned:
                continue
            got = _applied(url, run and run["id"])
            told = f"{results.get(tenant_id)} has got {got} of {planned.get(tenant_id)}"
            assert got in ([], planned.get(tenant_id)), told
            status = results.get(tenant_id, {}).get("status", "Failed").lower()
            assert (status == "success") == (got != []), told
            evidence = dict(raw_sql.rows(url, "SELECT revision, token FROM evidence"))
            assert {one: evidence[one] for one in got} == {one: tokens[one] for one in got}


def _applied(url: str, run_id: str | None) -> list[str]:
    """Return the revisions that a run has applied, in order."""
    sql = """
        SELECT revision, run_id FROM tenantry_migration_log
        WHERE stream NOT LIKE 'closed %' ORDER BY position
    """
    found = raw_sql.rows(url, sql)
    return [name for name, of in found if run_id and UUID(str(of)) == UUID(run_id)]


async def play(settings: Settings, folder: Path, count: int) -> None:
    """Play some interleavings, of one seed or that of the environment."""
    seed = os.environ.get(SEED_VARIABLE) or SEED  # noqa: TID251
    seed, _, only = seed.partition(":")
    ends: list[str] = []
    async with staged(settings, folder) as stage:
        await stage.reset()
        for number in [int(only)] if only else range(count):
            one = Interleaving(stage, number, Random(f"{seed} {number}"))  # noqa: S311 - repeatable
            try:
                ends.append(await one.play())
            except BaseException as error:
                told = "\n".join(one.told)
                error.add_note(f"{SEED_VARIABLE}={seed}:{number}:\n{told}")
                raise
    print(f"{SEED_VARIABLE}={seed}: {Counter(ends)}")  # noqa: T201


class TestPlan:
    @pytest.mark.timeout(300)
    async def test_runs_as_reviewed_or_not_at_all(self, settings: Settings, tmp_path: Path) -> None:
        await play(settings, tmp_path, 2)

    @pytest.mark.slow
    @pytest.mark.timeout(7200)
    async def test_runs_as_reviewed_or_not_at_all_many_times(
        self, settings: Settings, tmp_path: Path
    ) -> None:
        count = int(os.environ.get(COUNT_VARIABLE) or 15)  # noqa: TID251
        await play(settings, tmp_path, count)
