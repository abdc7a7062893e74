"""Backups, restores and copies that an admin requests over HTTP: queued, run, cancelled."""

import asyncio
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.backup import creating, dumps
from tenantry.backup.archive import ArchiveWriter, Keys
from tenantry.backup.copying import Copying
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import job_queue, tenants
from tenantry.catalog import jobs as job_rows
from tenantry.catalog.job_queue import BACKUP, MOVE, JobEnded
from tenantry.catalog.job_states import CANCELLED, INTERRUPTED, JobState
from tenantry.db.sessions import Session
from tenantry.db.statements import Statement
from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work import ledger
from tenantry.work.progress import Progress
from tenantry.work.running import PROGRESS_SECONDS, JobCancelled, running
from testkit import raw_sql
from testkit.faults import Faults
from tests.conftest import World, provision
from tests.integration.engines import on_sqlite
from tests.integration.queued import JOBS, TENANTS, WAIT_SECONDS, done, ended

COUNT = "SELECT count(*) FROM tenantry_post"
ARCHIVES = "/api/admin/archives"


@pytest.fixture(name="admin")
async def _admin(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with await world.admin() as client:
        yield client


@pytest.fixture(name="archive")
async def _archive(world: World, admin: httpx.AsyncClient) -> str:
    """The name of an archive of acme, which has lost its only post since."""
    job = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/backup")
    raw_sql.run(url_of(world, world.acme.tenant.database_name), "DELETE FROM tenantry_post")
    return Path(str(job["archive"])).name


@pytest.fixture(name="idle")
async def _idle(settings: Settings) -> AsyncIterator[Services]:
    """A process that runs no jobs."""
    changed = settings.model_copy(update={"job_concurrency": 0})
    async with open_services(changed, works=False) as services:
        yield services


def url_of(world: World, database_name: str) -> str:
    tenant = world.acme.tenant
    return world.services.databases.server(tenant.server_name).url(database_name)


async def databases(world: World) -> set[str]:
    names = await world.services.databases.server("default").names("tenantry_")
    return {name for name in names if "template" not in name}


class TestBackup:
    async def test_makes_an_archive_in_the_target_of_the_settings(
        self, world: World, admin: httpx.AsyncClient
    ):
        job = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/backup")

        assert (job["kind"], job["state"], job["tenantName"]) == ("backup", "done", "acme")
        assert job["bytesDone"] > 0
        (archive,) = (await admin.get(ARCHIVES)).json()["data"]["items"]
        folder = world.services.settings.data_dir / "backups"
        assert archive["tenantId"] == str(world.acme.tenant.id)
        assert job["archive"] == str(folder / archive["name"])

    async def test_is_in_the_audit_log_with_the_admin(self, world: World, admin: httpx.AsyncClient):
        job = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/backup")

        entries = (await admin.get("/api/admin/audit-log")).json()["data"]["items"]
        found = [one for one in entries if one["target"] == job["id"]]
        assert [one["action"] for one in found] == ["backup.create", "backup.queue"]
        assert {one["actor"] for one in found} == {"ada@example.com"} == {job["actor"]}
        assert len({one["requestId"] for one in found}) == 1

    async def test_of_every_tenant_has_a_job_for_each_and_for_the_catalog(
        self, admin: httpx.AsyncClient
    ):
        answer = await admin.post("/api/admin/backups", json={})

        assert (answer.status_code, answer.json()["data"]) == (202, {"count": 3})
        listed = (await admin.get(JOBS)).json()["data"]["items"]
        made = [await ended(admin, one["id"]) for one in listed]
        assert [one["state"] for one in made] == ["done"] * 3
        archives = (await admin.get(ARCHIVES)).json()["data"]["items"]
        assert {one["tenantName"] for one in archives} == {"acme", "globex", None}

    async def test_says_whose_newest_backup_is_the_oldest(
        self, world: World, admin: httpx.AsyncClient
    ):
        async def oldest() -> tuple[Any, ...]:
            found = (await admin.get("/api/admin/backups")).json()["data"]
            return found["oldestCustomerName"], found["oldestAt"], found["withoutCount"]

        assert await oldest() == (None, None, 2)
        path = f"{TENANTS}/{world.acme.tenant.id}/backup"
        first = await done(admin, path)
        assert await oldest() == ("acme", first["finishedAt"], 1)
        await done(admin, f"{TENANTS}/{world.globex.tenant.id}/backup")
        again = await done(admin, path)
        assert (await oldest())[0] == "globex"
        assert (await oldest())[1] < again["finishedAt"]

    async def test_of_some_tenants_leaves_the_others_out(
        self, world: World, admin: httpx.AsyncClient
    ):
        chosen = [str(world.globex.tenant.id), str(new_id())]

        answer = await admin.post("/api/admin/backups", json={"tenantIds": chosen})

        assert answer.json()["data"] == {"count": 1}
        assert (await admin.post("/api/admin/backups", json={"tenantIds": []})).json()["data"] == {
            "count": 0
        }

    async def test_is_queued_only_once_for_each_tenant(self, idle: Services):
        ctx = system_context("test")
        made = await provision(idle, "acme")

        assert await idle.queue.back_up(ctx, [made.tenant.id]) == 1
        assert await idle.queue.back_up(ctx, [made.tenant.id]) == 0
        # The catalog, and then nothing.
        assert await idle.queue.back_up(ctx, None) == 1
        assert await idle.queue.back_up(ctx, None) == 0

    async def test_of_one_tenant_is_queued_only_once(self, idle: Services):
        ctx = system_context("test")
        acme, globex = [(await provision(idle, name)).tenant for name in ("acme", "globex")]

        first = await idle.queue.add(ctx, BACKUP, tenant=acme)
        other = await idle.queue.add(ctx, BACKUP, tenant=globex)

        assert await idle.queue.add(ctx, BACKUP, tenant=acme) == first
        assert other.tenant_id == globex.id

    async def test_that_cannot_be_written_names_the_reason_of_the_file_system(
        self, world: World, admin: httpx.AsyncClient
    ):
        """And not that the database cannot be reached."""
        (world.services.settings.data_dir / "backups").touch()

        answer = await admin.post(f"{TENANTS}/{world.acme.tenant.id}/backup", json={})

        job = await ended(admin, answer.json()["data"]["id"])
        assert (job["state"], job["error"]) == (
            "failed",
            "A file cannot be read or written: File exists.",
        )

    async def test_that_fails_because_the_disk_is_full_does_not_blame_the_database(
        self, world: World, admin: httpx.AsyncClient, faults: Faults
    ):
        def fill_the_disk(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        faults.before(ArchiveWriter, "add_chunk", fill_the_disk)

        answer = await admin.post(f"{TENANTS}/{world.acme.tenant.id}/backup", json={})

        job = await ended(admin, answer.json()["data"]["id"])
        assert job["error"] == "A file cannot be read or written: No space left on device."


class TestArchives:
    async def test_are_found_by_the_name_of_the_tenant(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        await done(admin, f"{TENANTS}/{world.globex.tenant.id}/backup")

        found = (await admin.get(ARCHIVES, params={"search": "ACME"})).json()["data"]
        newest = (await admin.get(ARCHIVES, params={"pageSize": 1})).json()["data"]

        assert [one["name"] for one in found["items"]] == [archive]
        assert (newest["totalCount"], len(newest["items"])) == (2, 1)

    @pytest.mark.parametrize(
        "path",
        ["{file}", "../backups/{name}", "./{name}", "/etc/passwd", "", ".", "a\x1b.tar", "{name}/"],
    )
    async def test_are_opened_by_name_and_not_by_path(
        self, world: World, admin: httpx.AsyncClient, archive: str, path: str
    ):
        file = world.services.settings.data_dir / "backups" / archive
        body = {"archive": path.format(file=file, name=archive)}

        for answer in (
            await admin.post(f"{ARCHIVES}/verify", json=body),
            await admin.post(f"{ARCHIVES}/restore", json=body | {"name": "New"}),
            await admin.post(
                f"{TENANTS}/{world.acme.tenant.id}/restore", json=body | {"name": "acme"}
            ),
        ):
            assert (answer.status_code, answer.headers["x-error-code"]) == (
                404,
                "archive_not_found",
            )

    async def test_of_another_installation_are_rejected(
        self, world: World, admin: httpx.AsyncClient
    ):
        copying = world.services.copying
        theirs = Copying(
            **{
                **{name: getattr(copying, name) for name in copying.__dataclass_fields__},
                "keys": Keys(["the secret key of another installation"]),
            }
        )
        job = await creating.back_up(
            system_context("test"),
            theirs,
            world.acme.tenant,
            FolderTarget(world.services.settings.data_dir / "backups"),
            progress=Progress(),
        )
        (listed,) = (await admin.get(ARCHIVES)).json()["data"]["items"]
        body = {"archive": Path(str(job.archive)).name, "name": "New"}

        answer = await admin.post(f"{ARCHIVES}/restore", json=body)

        assert listed["fault"] == "another secret key"
        assert (answer.status_code, answer.headers["x-error-code"]) == (409, "archive_foreign")

    async def test_that_cannot_be_read_are_listed_and_not_used(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        path = world.services.settings.data_dir / "backups" / "broken.tar"
        path.symlink_to("/proc/self/mem")  # reading it is an I/O error

        listed = (await admin.get(ARCHIVES)).json()["data"]["items"]
        answer = await admin.post(f"{ARCHIVES}/verify", json={"archive": path.name})

        assert [(one["name"], one["fault"]) for one in listed] == [
            (archive, None),
            (path.name, "cannot be read"),
        ]
        assert (answer.status_code, answer.headers["x-error-code"]) == (503, "target_unavailable")


class TestVerify:
    async def test_leaves_nothing(self, world: World, admin: httpx.AsyncClient, archive: str):
        before = await databases(world)

        job = await done(admin, f"{ARCHIVES}/verify", archive=archive)

        assert (job["kind"], job["tenantName"]) == ("verify", "acme")
        assert await databases(world) == before

    async def test_fails_if_the_archive_is_damaged(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        before = await databases(world)
        path = world.services.settings.data_dir / "backups" / archive
        path.write_bytes(path.read_bytes()[:-3000])

        queued = await admin.post(f"{ARCHIVES}/verify", json={"archive": archive})

        job = await ended(admin, queued.json()["data"]["id"])
        assert job["state"] == "failed"
        assert "damaged" in job["error"]
        assert await databases(world) == before


class TestPruneArchives:
    async def test_removes_old_archives_and_keeps_the_newest_of_each_tenant(
        self, world: World, admin: httpx.AsyncClient
    ):
        for _ in range(3):
            await done(admin, f"{TENANTS}/{world.acme.tenant.id}/backup")
        await done(admin, f"{TENANTS}/{world.globex.tenant.id}/backup")
        before = (await admin.get(ARCHIVES)).json()["data"]["items"]

        kept = await done(admin, f"{ARCHIVES}/prune", keepDays=1, keepLast=1)
        job = await done(admin, f"{ARCHIVES}/prune", keepDays=0, keepLast=2)

        left = (await admin.get(ARCHIVES)).json()["data"]["items"]
        assert [one["tenantName"] for one in left].count("acme") == 2
        assert [one["tenantName"] for one in left].count("globex") == 1
        (removed,) = [one for one in before if one not in left]
        assert (kept["bytesDone"], job["bytesDone"]) == (0, removed["size"])
        assert (job["kind"], job["tenantName"]) == ("prune", None)
        entries = (await admin.get("/api/admin/audit-log")).json()["data"]["items"]
        found = [one for one in entries if one["target"] == job["id"]]
        assert [one["action"] for one in found] == ["backup.prune", "prune.queue"]
        assert found[0]["changes"] == [{"field": "archives", "old": 4, "new": 3}]

    @pytest.mark.parametrize("body", [{}, {"keepDays": 0}, {"keepDays": -1, "keepLast": 1}])
    async def test_needs_a_rule(self, admin: httpx.AsyncClient, body: dict[str, int]):
        answer = await admin.post(f"{ARCHIVES}/prune", json=body)

        assert answer.status_code == 400


class TestRestore:
    async def test_makes_a_new_tenant_without_a_key(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        job = await done(admin, f"{ARCHIVES}/restore", archive=archive, name="Yesterday")

        made = (await admin.get(f"{TENANTS}/{job['tenantId']}")).json()["data"]
        assert (made["name"], made["isActive"]) == ("Yesterday", True)
        assert made["id"] != str(world.acme.tenant.id)
        keys = (await admin.get(f"{TENANTS}/{job['tenantId']}/api-keys")).json()["data"]["items"]
        assert keys == []
        assert raw_sql.rows(url_of(world, made["databaseName"]), COUNT) == [(1,)]

    async def test_fails_if_the_name_is_in_use(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        before = await databases(world)
        body = {"archive": archive, "name": "globex"}

        queued = (await admin.post(f"{ARCHIVES}/restore", json=body)).json()["data"]

        assert (await ended(admin, queued["id"]))["state"] == "failed"
        assert await databases(world) == before

    async def test_brings_a_purged_tenant_back(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        path = f"{TENANTS}/{world.acme.tenant.id}"
        await admin.patch(path, json={"isActive": False})
        await admin.delete(path, params={"name": "acme"})
        await admin.delete(
            f"/api/admin/deleted-tenants/{world.acme.tenant.id}", params={"name": "acme"}
        )

        await done(admin, f"{ARCHIVES}/restore", archive=archive)

        assert (await admin.get(path)).json()["data"]["name"] == "acme"
        async with world.public(world.acme) as client:
            posts = (await client.get("/api/public/blog/posts")).json()["data"]["items"]
        assert len(posts) == 1

    async def test_in_place_needs_the_name_and_keeps_the_old_database(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        path = f"{TENANTS}/{world.acme.tenant.id}"
        wrong = await admin.post(f"{path}/restore", json={"archive": archive, "name": "globex"})
        other = await admin.post(
            f"{TENANTS}/{world.globex.tenant.id}/restore",
            json={"archive": archive, "name": "globex"},
        )

        job = await done(admin, f"{path}/restore", archive=archive, name="acme")

        assert (wrong.status_code, wrong.headers["x-error-code"]) == (400, "wrong_name")
        assert (other.status_code, other.headers["x-error-code"]) == (409, "archive_of_other")
        assert "--" not in other.json()["message"]
        assert (job["state"], job["databaseName"]) == ("kept", world.acme.tenant.database_name)
        assert (await admin.get(path)).json()["data"]["isActive"]
        assert world.acme.tenant.database_name in await databases(world)
        assert (await admin.post(f"{path}/confirm-restore", json={})).status_code == 200
        assert world.acme.tenant.database_name not in await databases(world)
        assert (await admin.post(f"{path}/confirm-restore", json={})).status_code == 404


class TestClone:
    async def test_copies_a_tenant_without_a_key(self, world: World, admin: httpx.AsyncClient):
        path = f"{TENANTS}/{world.acme.tenant.id}/clone"

        job = await done(admin, path, name="Staging")

        made = (await admin.get(f"{TENANTS}/{job['tenantId']}")).json()["data"]
        assert made["name"] == job["tenantName"] == "Staging"
        assert raw_sql.rows(url_of(world, made["databaseName"]), COUNT) == [(1,)]
        keys = (await admin.get(f"{TENANTS}/{job['tenantId']}/api-keys")).json()["data"]["items"]
        assert keys == []


class TestCancel:
    async def test_ends_a_queued_job(self, idle: Services):
        ctx = system_context("test")
        made = await provision(idle, "acme")
        job = await idle.queue.add(ctx, BACKUP, tenant=made.tenant)

        await idle.queue.cancel(ctx, job.id)

        found = await job_rows.get(idle.catalog, job.id)
        assert (found.state, found.error) == ("failed", CANCELLED)
        with pytest.raises(JobEnded):
            await idle.queue.cancel(ctx, job.id)

    @pytest.mark.slow
    async def test_stops_a_running_job_and_removes_what_it_has_begun(
        self, world: World, admin: httpx.AsyncClient
    ):
        services, name = world.services, "tenantry_" + "e" * 32
        server = services.databases.server("default")
        progress = Progress()
        job = ledger.new_job(system_context("test"), "verify", progress, database=("default", name))

        created = asyncio.Event()

        async def run() -> None:
            async with running(services.copying.ledger, job, progress):
                await server.create(name)
                created.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(run())
        await asyncio.wait_for(created.wait(), WAIT_SECONDS)
        answer = await admin.post(f"{JOBS}/{job.id}/cancel", json={})

        assert answer.status_code == 202
        with pytest.raises(JobCancelled):
            await asyncio.wait_for(task, WAIT_SECONDS)
        found = await ended(admin, str(job.id))
        assert (found["state"], found["error"]) == ("failed", CANCELLED)
        assert name not in await databases(world)

    @pytest.mark.slow
    @pytest.mark.parametrize("is_named", [False, True], ids=["before", "after"])
    async def test_of_a_backup_counts_until_its_archive_has_its_name(
        self, world: World, admin: httpx.AsyncClient, faults: Faults, *, is_named: bool
    ):
        """A complete archive has an entry in the audit log, which a cancelled job has not."""

        async def cancel(*_: object, **__: object) -> None:
            (job,) = (await admin.get(JOBS)).json()["data"]["items"]
            await admin.post(f"{JOBS}/{job['id']}/cancel", json={})
            # Before that, the cancellation ends the wait.
            await asyncio.sleep(2 * PROGRESS_SECONDS if is_named else WAIT_SECONDS)

        if is_named:
            faults.before(creating, "finish_audited", cancel)
        else:
            faults.after(dumps, "dump", cancel)
        queued = await admin.post(f"{TENANTS}/{world.acme.tenant.id}/backup")
        job = await ended(admin, queued.json()["data"]["id"])

        archives = (await admin.get(ARCHIVES)).json()["data"]["items"]
        assert (job["error"] is None, len(archives)) == (is_named, is_named)

    async def test_ends_every_queued_job(self, idle: Services):
        ctx = system_context("test")
        assert await idle.queue.back_up(ctx, None) == 1

        assert await idle.queue.cancel_queued(ctx) == 1

        (job,) = (await job_rows.page(idle.catalog, Window(1, 9))).items
        assert job.state == JobState.FAILED


class TestJobWorker:
    @pytest.mark.slow
    async def test_runs_what_another_process_has_queued(
        self, world: World, idle: Services, admin: httpx.AsyncClient
    ):
        job = await idle.queue.add(system_context("test"), BACKUP, tenant=world.acme.tenant)

        assert (await ended(admin, str(job.id)))["state"] == "done"

    async def test_ends_the_jobs_of_a_process_that_was_killed_and_runs_the_others(
        self, idle: Services, settings: Settings
    ):
        ctx, dead = system_context("test"), new_id()
        await idle.queue.back_up(ctx, None)
        await job_queue.claim(idle.catalog, BACKUP, worker_id=dead, now=utc_now())
        await idle.queue.back_up(ctx, None)

        async with open_services(settings) as services:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    found = (await job_rows.page(services.catalog, Window(1, 9))).items
                    if all(one.finished_at for one in found):
                        break
                    await asyncio.sleep(0.05)

        assert [(one.state, one.error) for one in found] == [
            ("done", None),
            ("failed", INTERRUPTED),
        ]

    async def test_queues_a_backup_again_when_its_process_is_stopped(self, idle: Services):
        made = await provision(idle, "acme")
        job = await idle.queue.add(system_context("test"), BACKUP, tenant=made.tenant)
        worker_id, progress = idle.heartbeat.worker_id, Progress(job.id)
        await job_queue.claim(idle.catalog, BACKUP, worker_id=worker_id, now=utc_now())
        begun = asyncio.Event()

        async def run() -> None:
            new = ledger.new_job(system_context("test"), "backup", progress)
            async with running(idle.copying.ledger, new, progress):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(run())
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        found = await job_rows.get(idle.catalog, job.id)
        assert (found.state, found.error, found.finished_at) == (JobState.QUEUED, None, None)

    async def test_gives_back_what_it_has_not_begun_when_it_is_stopped(self, idle: Services):
        made = await provision(idle, "acme")
        job = await idle.queue.add(system_context("test"), BACKUP, tenant=made.tenant)
        worker_id = idle.heartbeat.worker_id
        await job_queue.claim(idle.catalog, BACKUP, worker_id=worker_id, now=utc_now())

        working = asyncio.create_task(idle.job_worker.work())
        await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

        assert (await job_rows.get(idle.catalog, job.id)).state == JobState.QUEUED

    async def test_gives_back_what_it_holds_and_does_not_run(self, idle: Services):
        """The response to a claim can be lost."""
        made = await provision(idle, "acme")
        job = await idle.queue.add(system_context("test"), BACKUP, tenant=made.tenant)
        worker_id = idle.heartbeat.worker_id
        await job_queue.claim(idle.catalog, BACKUP, worker_id=worker_id, now=utc_now())

        await job_queue.give_back(idle.catalog, worker_id=worker_id, running=[job.id])
        assert (await job_rows.get(idle.catalog, job.id)).state == JobState.RUNNING
        await job_queue.give_back(idle.catalog, worker_id=worker_id, running=[])

        assert (await job_rows.get(idle.catalog, job.id)).state == JobState.QUEUED

    async def test_claims_none_that_it_has_lost_and_still_runs(self, idle: Services):
        """Another process has queued it again: the first result would count for the second run."""
        made = await provision(idle, "acme")
        job = await idle.queue.add(system_context("test"), BACKUP, tenant=made.tenant)

        claim = partial(
            job_queue.claim, idle.catalog, BACKUP, worker_id=idle.heartbeat.worker_id, now=utc_now()
        )

        left_out, claimed = await claim(busy=[job.id]), await claim()

        assert left_out is None
        assert claimed is not None


class TestPlan:
    """Processes read the queue every second, and remove old jobs every five."""

    @on_sqlite
    @pytest.mark.parametrize("lane", [BACKUP, MOVE])
    async def test_of_a_claim_reads_only_the_job_that_it_takes(
        self, services: Services, faults: Faults, lane: str
    ):
        """There can be a job for every tenant in these two lanes."""
        async with services.catalog.begin() as session:
            plans = _plans_of(services, session, faults)
            await job_queue.is_waiting(session, lane)
            await job_queue.claim(session, lane, worker_id=new_id(), now=utc_now())

        assert len(plans) == 2
        for steps in plans:
            assert any("ix_job_queued (kind=?)" in one for one in steps), steps
            # The ids of a parameter, of what this process runs, are a table, too.
            read = [one for one in steps if "SCAN json_each" not in one]
            assert not any("SCAN" in one or "TEMP B-TREE" in one for one in read), steps

    @on_sqlite
    async def test_of_a_backup_of_every_tenant_reads_the_queue_once(
        self, services: Services, faults: Faults
    ):
        async with services.catalog.begin() as session:
            plans = _plans_of(services, session, faults)
            await job_queue.to_back_up(session, None)

        [steps] = plans
        assert not any("CORRELATED" in one for one in steps), steps
        assert any("queued" in one and "AUTOMATIC" in one for one in steps), steps

    @on_sqlite
    async def test_of_a_removal_reads_only_the_jobs_that_it_removes(
        self, services: Services, faults: Faults
    ):
        async with services.catalog.begin() as session:
            plans = _plans_of(services, session, faults)
            await job_rows.prune(session, before=utc_now())

        [steps] = plans
        assert any("ix_job_finished_at (finished_at<?)" in one for one in steps), steps
        assert not any("ix_job_state" in one for one in steps), steps


def _plans_of(services: Services, session: Session[Any], faults: Faults) -> list[list[str]]:
    """Return a list that gets, for each statement of a session, how SQLite executes it."""
    plans: list[list[str]] = []

    def explain(statement: Statement[Any], values: Mapping[str, object]) -> None:
        plans.append(_plan(services.settings, statement, **values))

    faults.before(session, "fetch", explain)
    return plans


def _plan(settings: Settings, statement: Statement[Any], **values: object) -> list[str]:
    """Return how SQLite executes a statement on the catalog."""
    compiled = statement.sqlite
    with sqlite3.connect(str(sqlite_path(settings.catalog))) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", compiled.arguments(values))
        return [str(row[3]) for row in rows]


class TestPrune:
    async def test_removes_ended_jobs_and_keeps_those_that_keep_a_database(
        self, world: World, admin: httpx.AsyncClient, archive: str
    ):
        tenant = world.acme.tenant
        await done(admin, f"{TENANTS}/{tenant.id}/restore", archive=archive, name="acme")
        catalog = world.services.catalog

        await job_rows.prune(catalog, before=utc_now() - timedelta(days=1))
        assert len((await job_rows.page(catalog, Window(1, 9))).items) == 2
        await job_rows.prune(catalog, before=utc_now() + timedelta(days=1))

        (left,) = (await job_rows.page(catalog, Window(1, 9), tenant_id=tenant.id)).items
        assert left.state == JobState.KEPT
        assert await tenants.get(catalog, tenant.id)
