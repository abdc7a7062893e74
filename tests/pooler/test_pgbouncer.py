"""PgBouncer between Tenantry and PostgreSQL: what holds behind it, and what is refused by name."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from tenantry.cli.doctor.findings import State
from tenantry.cli.doctor.postgres import check_poolers
from tenantry.db.database import Budget, Database
from tenantry.db.factory import open_server, single_connector
from tenantry.db.postgres import poolers
from tenantry.db.postgres.connections import SILENCE_SECONDS
from tenantry.db.postgres.connector import PostgresConnector, SettingMissing
from tenantry.db.postgres.poolers import Pooler
from tenantry.db.postgres_server import BehindPooler
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Count, Statement
from tenantry.fleet.lifecycle import ProvisioningFailed
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.acceptance.support import PROFILE, ok
from tests.conftest import SECRET_KEY, make_world, provision
from tests.integration.conftest import Rig
from tests.integration.engines import on_postgresql
from tests.pgbouncer import (
    KEEPS_STATEMENTS,
    POOL_SIZES,
    PgBouncer,
    configured,
    pgbouncer,
    version,
)

pytestmark = on_postgresql

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-pgbouncer.md"
SAMPLE = re.compile(r"^```ini\n(.*?)^```", re.DOTALL | re.MULTILINE)
STATEMENT_SECONDS = 0.5
# A statement that is not ended lasts 60 s, and the wait for a lock does not end.
LATE_SECONDS_MAX = 20.0
RECOVERY_SECONDS_MAX = 30.0
# Where it is no matter, also on a busy machine.
LONG_SECONDS = 60.0
ROWS = 30
BLOCK = "with op.get_context().autocommit_block():\n    op.execute('SELECT 1')"

COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(sa.table("t")), Count)
ADD = Statement[Any](sa.text("INSERT INTO t VALUES (1)"))

TIMEOUT_MS = Statement(
    sa.select(sa.cast(sa.column("setting"), sa.Integer).label("count"))
    .select_from(sa.table("pg_settings"))
    .where(sa.column("name") == sa.literal_column("'statement_timeout'")),
    Count,
)
SLEEP = Statement[Any](sa.text("SELECT pg_sleep(60)"))
SLEEP_SHORT = Statement[Any](sa.text("SELECT pg_sleep(0.2)"))


@pytest.fixture(name="mode", params=["session", "transaction"])
def _mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="bouncer")
def _bouncer(mode: str, engine: str, postgres_url: str) -> Iterator[PgBouncer]:
    assert engine == "postgresql"
    with pgbouncer(postgres_url, mode) as bouncer:
        yield bouncer


@pytest.fixture(name="direct")
def _direct(new_database: Callable[[], str]) -> str:
    """The URL of a database with a table, without the pooler."""
    url = new_database()
    raw_sql.run(url, "CREATE TABLE t (i integer)")
    return url


@asynccontextmanager
async def opened(
    url: str, connections: int = 4, statement_seconds: float = LONG_SECONDS
) -> AsyncIterator[Database[Any]]:
    connect, _ = single_connector(
        url,
        connections_max=connections,
        timeout_seconds=5,
        synchronous="FULL",
        statement_seconds=statement_seconds,
    )
    database: Database[Any] = Database(connect, Budget(connections), connections)
    try:
        yield database
    finally:
        await database.close()


def through_pooler(settings: Settings, bouncer: PgBouncer, *, admin: bool = True) -> Settings:
    """Return settings whose requests, and catalog, go through the pooler."""
    direct = settings.servers["default"].address
    server = {"url": bouncer.through(direct), **({"admin_url": direct} if admin else {})}
    return Settings(
        data_dir=settings.data_dir,
        catalog_url=bouncer.through(settings.catalog),
        tenant_servers={"default": server},
        secret_key=SECRET_KEY,
    )


class TestRequests:
    async def test_are_answered(self, settings: Settings, bouncer: PgBouncer):
        """Provisioning and migrations go to the server itself."""
        async with open_services(through_pooler(settings, bouncer)) as services:
            world = await make_world(services)
            async with await world.owner(world.acme) as owner:
                ok(await owner.get(PROFILE))

    async def test_of_many_connections_share_the_pool(self, bouncer: PgBouncer, direct: str):
        async with opened(bouncer.through(direct)) as database:

            async def add_and_count() -> None:
                async with database.begin() as session:
                    await session.execute(ADD)
                    await session.fetch_one(COUNT)

            await asyncio.gather(*(add_and_count() for _ in range(ROWS)))

            assert await database.fetch_one(COUNT) == Count(ROWS)

    async def test_prepare_again_after_a_migration(self, bouncer: PgBouncer, direct: str):
        """The pooler shares prepared statements, so the old one would be found again."""
        read = Statement(sa.select(sa.table("t", sa.column("i")).c.i.label("count")), Count)
        async with opened(bouncer.through(direct)) as database:
            await database.execute(ADD)
            for kind in ("bigint", "smallint", "integer"):
                raw_sql.run(direct, f"ALTER TABLE t ALTER COLUMN i TYPE {kind}")
                found = await asyncio.gather(*(database.fetch_all(read) for _ in range(8)))

                assert found == [[Count(1)]] * 8


class TestSettings:
    async def test_of_the_role_must_be_those_that_tenantry_needs(
        self, bouncer: PgBouncer, direct: str
    ):
        """The pooler's sessions are shared, so they cannot be set."""
        name = direct.rpartition("/")[2]
        raw_sql.run(
            direct, f"ALTER DATABASE {name} SET default_transaction_isolation = serializable"
        )
        async with opened(bouncer.through(direct)) as database:
            with pytest.raises(DatabaseUnavailable) as raised:
                await database.fetch_one(COUNT)

        assert isinstance(raised.value.__cause__, SettingMissing)
        assert "default_transaction_isolation of the role must be read committed" in explain(
            raised.value.__cause__
        )

    async def test_that_are_missing_do_not_mean_that_the_server_is_away(
        self, bouncer: PgBouncer, direct: str
    ):
        name = direct.rpartition("/")[2]
        raw_sql.run(
            direct, f"ALTER DATABASE {name} SET default_transaction_isolation = serializable"
        )
        server = open_server(
            bouncer.through(direct), connections_max=1, timeout_seconds=5, synchronous="FULL"
        )

        await server.probe()


class TestStatementTimeout:
    @pytest.mark.parametrize("statement", [SLEEP, ADD])
    async def test_ends_a_statement_on_the_server(
        self, bouncer: PgBouncer, direct: str, statement: Statement[Any]
    ):
        """The session is free again, and it is the only one of the pool."""
        with psycopg.connect(direct) as other:
            other.execute("LOCK TABLE t")
            url = bouncer.through(direct)
            async with opened(url, statement_seconds=STATEMENT_SECONDS) as database:
                began = time.monotonic()
                with pytest.raises(DatabaseUnavailable):
                    await database.execute(statement)
                took = time.monotonic() - began

                assert took < STATEMENT_SECONDS + SILENCE_SECONDS + LATE_SECONDS_MAX
                await _until_none_runs(direct)

    async def test_is_set_in_a_transaction_and_not_in_the_session(
        self, bouncer: PgBouncer, direct: str
    ):
        """A setting of a session would stay for the next client of the pool."""
        async with opened(bouncer.through(direct)) as database:
            async with database.begin() as session:
                await session.execute(ADD)
                found = await session.fetch_one(TIMEOUT_MS)
            assert found is not None
            assert found.count == LONG_SECONDS * 1000

            with psycopg.connect(bouncer.through(direct), autocommit=True) as other:
                assert other.execute("SHOW statement_timeout").fetchone() == ("0",)


class TestAdminUrl:
    async def test_is_needed_for_provisioning(self, settings: Settings, bouncer: PgBouncer):
        async with open_services(through_pooler(settings, bouncer, admin=False)) as services:
            with pytest.raises(ProvisioningFailed, match="set its admin_url"):
                await provision(services, "acme")

    async def test_is_needed_for_an_autocommit_block(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, bouncer: PgBouncer
    ):
        folder.add("u1_block", BLOCK)

        done = await rig.migrate(bouncer.through(tenant_url))

        assert done.error is not None
        assert "set admin_url of the server" in explain(done.error)
        assert done.applied == []

    async def test_must_not_be_a_poolers(self, bouncer: PgBouncer):
        server = open_server(bouncer.url, connections_max=1, timeout_seconds=5, synchronous="FULL")
        with pytest.raises(BehindPooler):
            await server.create(f"tenantry_{new_id().hex}")


class TestDoctor:
    async def test_names_the_mode(self, mode: str, bouncer: PgBouncer, direct: str):
        found = await poolers.find_pooler(bouncer.through(direct), timeout_seconds=5)

        assert found == Pooler(shares_sessions=mode == "transaction", keeps_statements=True)

    async def test_finds_none_on_a_direct_connection(self, direct: str):
        assert await poolers.find_pooler(direct, timeout_seconds=5) is None

    async def test_names_a_pooler_that_keeps_no_statements(
        self, settings: Settings, postgres_url: str
    ):
        """As do all before 1.21, and newer ones with this setting."""
        with pgbouncer(postgres_url, "transaction", max_prepared_statements=0) as old:
            found = await check_poolers(through_pooler(settings, old))

        assert [one.check for one in found] == [
            "pooler of catalog",
            "pooler of tenant server default",
        ]
        assert {one.state.value for one in found} == {"failed"}
        assert all("1.21" in (one.advice or "") for one in found)

    @pytest.mark.parametrize("mode", ["session"], indirect=True)
    async def test_finds_a_pool_that_is_too_small(
        self, settings: Settings, postgres_url: str, mode: str
    ):
        with pgbouncer(postgres_url, mode, default_pool_size=4) as small:
            pooled = through_pooler(settings, small)
            catalog, tenants = await check_poolers(pooled)
            fewer = pooled.model_copy(update={"catalog_connections": 4})
            enough, _ = await check_poolers(fewer)

        assert (catalog.state, tenants.state) == (State.FAILED, State.OK)
        assert catalog.detail == "Its pool serves 4 of the 8 connections of one process."
        assert (enough.state, enough.detail) == (State.OK, "Session mode.")

    @pytest.mark.parametrize("mode", ["session"], indirect=True)
    async def test_counts_the_sessions_of_running_processes(
        self, bouncer: PgBouncer, direct: str, mode: str
    ):
        """A pool that they nearly use up is not too small."""
        most, url = POOL_SIZES[mode], bouncer.through(direct)
        async with opened(url, most - 1) as database:
            await asyncio.gather(*(database.fetch_one(SLEEP_SHORT) for _ in range(most - 1)))

            assert await poolers.count_served(url, most, timeout_seconds=5) == most


class TestPage:
    def test_has_a_configuration_of_each_mode_that_starts(
        self, mode: str, postgres_url: str, direct: str, tmp_path: Path
    ):
        if mode == "transaction" and version() < KEEPS_STATEMENTS:
            pytest.skip("before 1.21, it keeps no prepared statements")
        (sample,) = [one for one in SAMPLE.findall(PAGE.read_text()) if f"= {mode}\n" in one]
        with configured(sample, postgres_url, tmp_path) as bouncer:
            assert raw_sql.rows(bouncer.through(direct), "SELECT count(*) FROM t") == [(0,)]


class TestUnsuitablePooler:
    async def test_is_unavailable(self, postgres_url: str, direct: str):
        """A request gets no other error than that of a database that is down."""
        with pgbouncer(
            postgres_url, "transaction", max_prepared_statements=0, default_pool_size=2
        ) as old:
            async with opened(old.through(direct)) as database:
                answers = await asyncio.gather(
                    *(database.fetch_one(COUNT) for _ in range(ROWS)), return_exceptions=True
                )
        assert {type(one) for one in answers} <= {Count, DatabaseUnavailable}


class TestConnector:
    async def test_remembers_a_pooler(self, bouncer: PgBouncer, direct: str):
        connector = PostgresConnector(bouncer.through(direct), timeout_seconds=5)
        raw = await connector.connect(session={"statement_timeout": "500"})
        try:
            assert connector.is_pooled
        finally:
            await raw.close()

    async def test_takes_a_direct_server_at_once(self, direct: str):
        connector = PostgresConnector(direct, timeout_seconds=5)
        raw = await connector.connect(session={"statement_timeout": "500"})
        try:
            assert not connector.is_pooled
            assert await raw.fetchval("SHOW statement_timeout") == "500ms"
        finally:
            await raw.close()


async def _until_none_runs(url: str) -> None:
    """Wait until no other statement runs in the database at *url*."""
    active = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    active += " AND state = 'active' AND pid <> pg_backend_pid()"
    ends = time.monotonic() + RECOVERY_SECONDS_MAX
    while raw_sql.rows(url, active) != [(0,)]:
        assert time.monotonic() < ends
        await asyncio.sleep(0.05)
