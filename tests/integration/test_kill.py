"""Kill processes that migrate, and inspect the databases that they leave."""

import asyncio
import contextlib
import json
import random
import signal
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tenantry.catalog import runs
from tenantry.catalog.runs import MigrationState
from tenantry.catalog.tenants import Tenant
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Stream, Streams
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.raw_sql import Dump
from testkit.revisions import AlembicFolder
from tests.conftest import HEAD, UNDO_HEAD, provision
from tests.integration.engines import on_postgresql
from tests.integration.programs import Program, running
from tests.own_time import own_seconds

pytestmark = pytest.mark.slow

TENANTS = 30
PROVISIONED_AT_ONCE = 5
KILLS = 6
MOVE_SECONDS_MAX = 20.0
RESUMED_SECONDS_MAX = 150
"""Soon, also on a busy machine; a tenant that stays with a dead process is never migrated."""
HANDOVER_SECONDS_MAX = 4
"""Less than the silence after which others take over what a process holds."""
REVISIONS = {
    "create": """
        op.create_table("t{n}", sa.Column("id", sa.Integer, primary_key=True),
                        sa.Column("text", sa.String))
    """,
    "fill": """
        op.execute('''INSERT INTO t{n} (id, text)
            WITH RECURSIVE i(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM i WHERE k < 400)
            SELECT k, 'row ' || k FROM i''')
        time.sleep(0.01)
    """,
    "change": """
        count = op.get_bind().scalar(sa.text("SELECT count(*) FROM t{n}"))
        op.execute(f"UPDATE t{n} SET text = text || ' of {{count}}'")
        time.sleep(0.01)
    """,
}


# The first is recorded, so it does not wait; the others run live, one by its own wish.
HEADS = {"create": "", "fill": "import time\nonline = True", "change": "import time"}


INDEX = """
with op.get_context().autocommit_block():
    op.create_index("ix_note", "note", ["id"], postgresql_concurrently=True)
"""
INDEX_WORKS = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
AND query ILIKE 'CREATE INDEX CONCURRENTLY%'
"""


class Fleet:
    """Tenants, their databases, and the states that their databases may be in."""

    def __init__(self, settings: Settings, folder: AlembicFolder) -> None:
        self.settings = settings
        self.folder = folder
        self.urls: dict[UUID, str] = {}
        self.rounds = 0

    async def provision(self, services: Services, count: int) -> None:
        for start in range(0, count, PROVISIONED_AT_ONCE):
            numbers = range(start, min(start + PROVISIONED_AT_ONCE, count))
            for made in await asyncio.gather(
                *(provision(services, f"tenant{number}") for number in numbers)
            ):
                self.urls[made.tenant.id] = url_of(services, made.tenant)

    def add_revisions(self) -> None:
        """Add work: three revisions of the user's, and for every second tenant one of our own."""
        self.rounds += 1
        for number, (kind, body) in enumerate(REVISIONS.items()):
            name = f"r{self.rounds}{number}_{kind}"
            self.folder.add(name, body.format(n=self.rounds), head=HEADS[kind])
        for url in list(self.urls.values())[::2]:
            # A kill may have left it where the undo of the round before has put it.
            [[found]] = raw_sql.rows(url, "SELECT version_num FROM tenantry_version")
            if found == HEAD:
                raw_sql.run(url, *UNDO_HEAD)

    async def until_a_tenant_is_migrated(self) -> None:
        """Return when one of the tenants is migrated, and others are not."""
        url = random.choice(list(self.urls.values()))  # noqa: S311
        sql = "SELECT count(*) FROM tenantry_migration_log"
        before = raw_sql.rows(url, sql)
        ends = time.monotonic() + MOVE_SECONDS_MAX
        while raw_sql.rows(url, sql) == before and time.monotonic() < ends:  # noqa: ASYNC110 - the database knows, and no event
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311

    def dumps(self) -> dict[UUID, Dump]:
        return {tenant_id: raw_sql.dump(url) for tenant_id, url in self.urls.items()}

    def check_log(self, tenant_id: UUID) -> None:
        """Check that each revision of the user's is in a tenant's log once, in order."""
        sql = "SELECT revision FROM tenantry_migration_log WHERE stream = 'user' ORDER BY position"
        found = [name for (name,) in raw_sql.rows(self.urls[tenant_id], sql)]
        assert found == sorted(path.stem for path in self.folder.path.glob("versions/*.py"))

    def log(self, tenant_id: UUID) -> dict[UUID, str]:
        """Return what each run has applied to a tenant, by the tenant's own log."""
        sql = """
            SELECT run_id, revision FROM tenantry_migration_log
            WHERE stream NOT LIKE 'closed %' ORDER BY position
        """
        applied: dict[UUID, list[str]] = {}
        for run_id, revision in raw_sql.rows(self.urls[tenant_id], sql):
            applied.setdefault(UUID(str(run_id)), []).append(revision)
        return {run_id: ",".join(names) for run_id, names in applied.items()}


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


async def reference(services: Services, folder: AlembicFolder, url: str) -> Dump:
    """Return what a database without people and posts holds after a migration in peace."""
    raw_sql.run(url, *UNDO_HEAD)
    scripts = RunScripts(Streams(STREAM, Stream("user", folder.path)))
    done = await services.migrator.migrate(url, scripts, run_id=new_id())
    assert done.error is None
    return raw_sql.dump(url)


def with_data_of(reference: Dump, own: Dump) -> Dump:
    """Return *reference* with the people and posts that a tenant has, if it has any."""
    kept = {n for n in own.data if n.startswith("tenantry_") and n != "tenantry_version"}
    rows = {name: _with_new_columns(own.data[name], reference.data[name]) for name in kept}
    return Dump(reference.schema, reference.data | rows)


def _with_new_columns(rows: list[tuple[Any, ...]], reference: list[tuple[Any, ...]]) -> Any:
    """Return *rows* with the columns that only *reference* has, which has their defaults."""
    if not (rows and reference):
        return rows
    if not isinstance(reference[0][0], str) or not reference[0][0].startswith("{"):
        return [one + reference[0][len(one) :] for one in rows]
    new = json.loads(reference[0][0])
    # As PostgreSQL writes it: shorter keys are first.
    merged = [dict(sorted((new | json.loads(one[0])).items(), key=_by_length)) for one in rows]
    return [(json.dumps(one, ensure_ascii=False),) for one in merged]


def _by_length(item: tuple[str, object]) -> tuple[int, str]:
    return len(item[0]), item[0]


@pytest.fixture(name="fleet_settings")
def _fleet_settings(settings: Settings, folder: AlembicFolder) -> Settings:
    return settings.model_copy(
        update={"tenant_migrations": folder.begin(), "migrate_concurrency": 3}
    )


@pytest.fixture(name="processes")
async def _processes(fleet_settings: Settings) -> AsyncIterator[list[Program]]:
    """Processes that wait to plan a run and to work on it."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running("migrate", fleet_settings, waits=True))
            for _ in range(KILLS)
        ]


class TestKill:
    async def test_leaves_each_tenant_before_or_after_and_the_runs_go_on(
        self, fleet_settings: Settings, folder: AlembicFolder, processes: list[Program]
    ):
        """SIGKILL at random moments, with migrations of many tenants under way."""
        fleet = Fleet(fleet_settings, folder)
        async with open_services(fleet_settings) as services:
            await fleet.provision(services, TENANTS)
            model = (await provision(services, "model")).tenant
            await services.lifecycle.update(
                system_context("test"), model, name="model", is_active=False
            )
            model_url = url_of(services, model)
        planned = []
        landed = 0
        before = after = {}
        for process in processes:
            fleet.add_revisions()
            before = fleet.dumps()
            await process.begin()
            planned.append(UUID(await process.line()))
            await fleet.until_a_tenant_is_migrated()
            process.signal(signal.SIGKILL)
            await asyncio.sleep(0.1)  # the server notices that the client is gone
            after = await self._model(fleet_settings, folder, model_url)

            found = fleet.dumps()
            for tenant_id, dump in found.items():
                allowed = (before[tenant_id], with_data_of(after, before[tenant_id]))
                assert dump in allowed, "half migrated"
            moved = sum(found[tenant_id] != before[tenant_id] for tenant_id in found)
            landed += 0 < moved < TENANTS

        started = time.monotonic()
        async with open_services(fleet_settings) as services:
            for run_id in planned:
                async with asyncio.timeout(RESUMED_SECONDS_MAX + started - time.monotonic()):
                    await services.fleet.wait(run_id)
                await self._check(services, fleet, run_id)
            again = await services.fleet.plan(system_context("test"), triggered_by="test")
            last = await services.fleet.wait(again)

        assert (last.success_count, last.failed_count) == (TENANTS, 0)
        for tenant_id, dump in fleet.dumps().items():
            assert dump == with_data_of(after, before[tenant_id])
            fleet.check_log(tenant_id)
        assert landed >= 1, "no kill has hit the middle of a run; the test says nothing"

    async def _model(self, settings: Settings, folder: AlembicFolder, url: str) -> Dump:
        async with open_services(settings) as services:
            await services.worker.stop()
            return await reference(services, folder, url)

    async def _check(self, services: Services, fleet: Fleet, run_id: UUID) -> None:
        run = await runs.get(services.catalog, run_id)
        items = await runs.ended(services.catalog, run_id)
        counts = (run.total_count, run.success_count, run.failed_count)
        assert counts == (TENANTS, TENANTS, 0), [one.error for one in items if one.error]
        assert len(items) == TENANTS
        for item in items:
            assert item.state == MigrationState.SUCCESS
            assert item.applied == fleet.log(item.tenant_id).get(run_id), "by the tenant's log"


@on_postgresql
class TestKillOutside:
    @pytest.mark.parametrize("branches", [1, 2])
    async def test_a_transaction_is_continued_by_the_next_run(
        self, fleet_settings: Settings, folder: AlembicFolder, branches: int
    ):
        """The server goes on with the index of a dead client; the next run continues."""
        folder.add("u1_create", "op.create_table('note', sa.Column('id', sa.Integer))")
        fleet = Fleet(fleet_settings, folder)
        async with open_services(fleet_settings) as services:
            await fleet.provision(services, 1)
        ((tenant_id, url),) = fleet.urls.items()
        folder.add("u2_fill", "op.execute('INSERT INTO note VALUES (1)')")
        if branches == 2:
            folder.add("v2_branch", "op.execute('INSERT INTO note VALUES (2)')", down="u1")
        index = folder.add("u3_index", INDEX)
        index.write_text(index.read_text().replace("= 'v2'", "= ('u2', 'v2')"))
        folder.add("u4_later", "op.create_table('later', sa.Column('id', sa.Integer))")
        with psycopg.connect(url) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT 1")  # an old snapshot, for which the index waits
            async with running("migrate", fleet_settings) as process:
                run_id = UUID(await process.line())
                while not raw_sql.rows(url, INDEX_WORKS):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.02)
                process.signal(signal.SIGKILL)
        at = raw_sql.rows(url, "SELECT version_num FROM alembic_version")
        async with open_services(fleet_settings) as services:
            run = await services.fleet.wait(run_id)
            (item,) = await runs.ended(services.catalog, run_id)

        assert (run.success_count, run.failed_count) == (1, 0), item.error
        assert len(at) == branches
        assert item.applied == fleet.log(tenant_id)[run_id]
        done = set(item.applied.split(","))
        assert done - {"v2_branch"} == {"u2_fill", "u3_index", "u4_later"}
        valid = "SELECT indisvalid FROM pg_index WHERE indrelid = 'note'::regclass"
        assert raw_sql.rows(url, valid) == [(True,)]


class TestTerminate:
    async def test_ends_the_tenants_in_work_and_releases_the_rest(
        self, fleet_settings: Settings, folder: AlembicFolder
    ):
        """Nothing is half done or unrecorded, and no other worker has to wait."""
        fleet = Fleet(fleet_settings, folder)
        async with open_services(fleet_settings) as services:
            await fleet.provision(services, 20)
        fleet.add_revisions()
        before = fleet.dumps()
        async with running("work", fleet_settings) as process:
            assert await process.line() == "ready"
            async with open_services(fleet_settings) as services:
                await services.worker.stop()  # the other process is to do the work
                run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
                async with asyncio.timeout(RESUMED_SECONDS_MAX):
                    while not await runs.ended(services.catalog, run_id):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                process.signal(signal.SIGTERM)
                status, _ = await process.ended()
                ended = await runs.ended(services.catalog, run_id)
        moved = {one for one, dump in fleet.dumps().items() if dump != before[one]}
        held = raw_sql.rows(
            fleet_settings.catalog, "SELECT worker_id FROM tenant_migration WHERE state = 'Pending'"
        )

        assert status == 0
        assert {item.tenant_id for item in ended} == moved
        assert 0 < len(ended) < 20
        assert held == [(None,)] * (20 - len(ended))
        with own_seconds() as seconds:
            async with open_services(fleet_settings) as services:
                while len(await runs.ended(services.catalog, run_id)) == len(ended):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                resumed = seconds()
                run = await services.fleet.wait(run_id)
        assert (run.success_count, run.failed_count) == (20, 0)
        assert resumed < HANDOVER_SECONDS_MAX, "no process waits for the heartbeat of a stopped one"
