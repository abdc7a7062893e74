"""A move of a tenant to a server of the other engine: every type of value, and what is refused."""

import asyncio
import datetime as dt
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tenantry.backup import creating, moving, replacing, restoring
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.loading import RevisionsNotConfigured, WrongEngine
from tenantry.backup.moving import NotMoved
from tenantry.backup.other_engine import TenantBehind
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import tenant_list, tenants
from tenantry.catalog.job_queue import REPLACE
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying.row_values import kind_of
from tenantry.db.copying.table_plan import NotCarried
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.postgres import find_binaries
from tests.conftest import SECRET_KEY, provision

pytestmark = pytest.mark.slow

FILES, SERVER = "files", "server"
REVISION = """
import sqlalchemy as sa

revision = "u1"
down_revision = None


def upgrade(op):
    op.create_table(
        "parent",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("boss_id", sa.Integer, sa.ForeignKey("parent.id")),
        sa.Column("flag", sa.Boolean, nullable=False),
        sa.Column("big", sa.BigInteger),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("ratio", sa.Float),
        sa.Column("name", sa.String(20)),
        sa.Column("body", sa.Text),
        sa.Column("data", sa.LargeBinary),
        sa.Column("day", sa.Date),
        sa.Column("hour", sa.Time),
        sa.Column("local", sa.DateTime),
        sa.Column("instant", sa.DateTime(timezone=True)),
        sa.Column("uid", sa.Uuid),
        sa.Column("doc", sa.JSON),
        sa.Column("size", sa.Enum("small", "large", name="size")),
    )
    op.create_table(
        "child",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("parent_id", sa.Integer, sa.ForeignKey("parent.id"), nullable=False),
    )
    op.create_table("seed", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("INSERT INTO seed VALUES (1)")
"""
# In SQLite's notation: times of SQLAlchemy, of SQLite itself, and with a zone.
ROWS = (
    """INSERT INTO parent VALUES (7, 7, 1, 9007199254740993, 1234567.89, 0.1, 'ä😀', '', x'00ff',
    '2024-02-29', '23:59:59.999999', '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00',
    '0123456789abcdef0123456789abcdef', '{"b": [1, 1.50, null], "a": "ü"}', 'small')""",
    """INSERT INTO parent VALUES (3, 7, 0, -1, -0.01, -1e300, NULL, 'line\nline\\.', x'', NULL,
    NULL, NULL, '2024-02-29T13:00:00.5+01:00', NULL, '17', NULL)""",
    "INSERT INTO child VALUES (1, 3), (2, 7)",
    "DELETE FROM seed",
    "INSERT INTO seed VALUES (41)",
)
UTC = dt.UTC
NOON = dt.datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


@pytest.fixture(name="migrations")
def _migrations(tmp_path: Path) -> Path:
    versions = tmp_path / "migrations" / "versions"
    versions.mkdir(parents=True)
    (versions / "u1_create_parent.py").write_text(REVISION)
    return versions.parent


@pytest.fixture(name="both")
async def _both(tmp_path: Path, migrations: Path, postgres_url: str) -> AsyncIterator[Services]:
    """Services with a server of each engine, and the catalog on SQLite."""
    servers = {FILES: {"url": f"sqlite:///{tmp_path / 'files'}"}, SERVER: {"url": postgres_url}}
    settings = Settings(
        data_dir=tmp_path / "data",
        secret_key=SECRET_KEY,
        tenant_servers=servers,
        tenant_migrations=migrations,
        pg_tools=find_binaries(),
    )
    async with open_services(settings) as services:
        yield services


@pytest.fixture(name="acme")
async def _acme(both: Services) -> Tenant:
    """A tenant in a SQLite file with a row of every type."""
    made = await provision(both, "acme")
    moved = await move(both, made.tenant, FILES)
    raw_sql.run(url_of(both, moved), *ROWS)
    return moved


async def move(services: Services, tenant: Tenant, to: str) -> Tenant:
    moved = await moving.move(
        system_context("test"), services.copying, tenant, server_name=to, progress=Progress()
    )
    return moved.tenant


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


async def databases(services: Services) -> set[str]:
    return {
        name
        for server in (FILES, SERVER)
        for name in await services.databases.server(server).names("tenantry_")
        if "template" not in name
    }


class TestMoveToPostgresql:
    async def test_carries_every_type_of_value(self, both: Services, acme: Tenant):
        moved = await move(both, acme, SERVER)

        (small, large) = raw_sql.rows(url_of(both, moved), "SELECT * FROM parent ORDER BY id")
        assert large[:4] == (7, 7, True, 9007199254740993)
        assert [str(large[4]), large[5], large[6], large[7]] == ["1234567.89", 0.1, "ä😀", ""]
        assert bytes(large[8]) == b"\x00\xff"
        assert large[9:11] == (dt.date(2024, 2, 29), dt.time(23, 59, 59, 999999))
        assert large[11] == dt.datetime(2024, 2, 29, 12, 0, 0, 1)  # noqa: DTZ001
        assert large[12].astimezone(UTC) == NOON
        assert large[13].hex == "0123456789abcdef0123456789abcdef"
        assert large[14] == {"b": [1, 1.5, None], "a": "ü"}
        assert (large[15], small[15]) == ("small", None)
        assert small[5] == -1e300
        assert small[7] == "line\nline\\."
        assert small[12].astimezone(UTC) == NOON + dt.timedelta(seconds=0.5)
        assert small[14] == 17

    async def test_replaces_the_rows_that_revisions_insert(self, both: Services, acme: Tenant):
        moved = await move(both, acme, SERVER)

        assert raw_sql.rows(url_of(both, moved), "SELECT id FROM seed") == [(41,)]

    async def test_gives_new_rows_numbers_that_are_free(self, both: Services, acme: Tenant):
        moved = await move(both, acme, SERVER)

        url = url_of(both, moved)
        raw_sql.run(url, "INSERT INTO seed DEFAULT VALUES")
        assert raw_sql.rows(url, "SELECT max(id) FROM seed") == [(42,)]

    async def test_leaves_out_the_tables_of_litestream(self, both: Services, acme: Tenant):
        raw_sql.run(
            url_of(both, acme),
            "CREATE TABLE _litestream_lock (id INTEGER)",
            "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
            "INSERT INTO _litestream_seq VALUES (1, 17)",
        )

        moved = await move(both, acme, SERVER)

        tables = raw_sql.rows(url_of(both, moved), "SELECT tablename FROM pg_tables")
        assert not [name for (name,) in tables if "litestream" in name]

    async def test_keeps_the_migration_log_and_the_revision(self, both: Services, acme: Tenant):
        sql = "SELECT position, stream, revision FROM tenantry_migration_log ORDER BY position"
        before = raw_sql.rows(url_of(both, acme), sql)

        moved = await move(both, acme, SERVER)

        assert raw_sql.rows(url_of(both, moved), sql) == before
        assert moved.schema_revision == acme.schema_revision

    async def test_and_back_gives_the_same_rows(self, both: Services, acme: Tenant):
        sql = "SELECT id, boss_id, flag, big, price, ratio, name, body, data, uid FROM parent"
        before = raw_sql.rows(url_of(both, acme), sql)
        users = raw_sql.rows(url_of(both, acme), "SELECT * FROM tenantry_user")

        there = await move(both, acme, SERVER)
        back = await move(both, there, FILES)

        url = url_of(both, back)
        assert sorted(raw_sql.rows(url, sql)) == sorted(before)
        assert raw_sql.rows(url, "SELECT * FROM tenantry_user") == users
        raw_sql.run(url, "INSERT INTO seed VALUES (42)")

    @pytest.mark.parametrize(
        ("statement", "named"),
        [
            ("CREATE TABLE extra (id INTEGER)", "the table extra exists only in the data"),
            ("DROP TABLE child", "the table child is not in the data"),
            ("ALTER TABLE child ADD COLUMN more", "child.more exists only in the data"),
            ("UPDATE parent SET name = 'a' || char(0)", "parent.name has a text with the char"),
            (
                "UPDATE parent SET name = printf('%21d', 1)",
                "parent.name has a text of more than 20",
            ),
            ("UPDATE parent SET flag = 2", "parent.flag has a boolean that is neither 0 nor 1"),
            ("UPDATE parent SET boss_id = 3000000000", "parent.boss_id has a number"),
            ("UPDATE parent SET price = 0.001", "parent.price has a number with too many decimal"),
            ("UPDATE parent SET price = 123456789", "parent.price has a number with too many"),
            ("UPDATE parent SET body = x'00'", "parent.body has a value of the type bytes"),
            ("UPDATE parent SET instant = 'noon'", "parent.instant has a time in another notation"),
            ("UPDATE parent SET local = '2024-01-01 00:00:00Z'", "parent.local has a time with"),
            ("UPDATE parent SET doc = '{'", "parent.doc has a text that is no JSON"),
            ("UPDATE parent SET doc = '\"\\u0000\"'", "parent.doc has JSON with the character NUL"),
            ("UPDATE parent SET uid = 'x'", "parent.uid has a text that is no UUID"),
            ("UPDATE parent SET ratio = 'x'", "parent.ratio has a value of the type str"),
            ("UPDATE child SET parent_id = 99", "the table child cannot be read or written"),
        ],
    )
    async def test_refuses_by_name_what_cannot_be_carried(
        self, both: Services, acme: Tenant, statement: str, named: str
    ):
        raw_sql.run(url_of(both, acme), statement)
        before = await databases(both)

        with pytest.raises(NotCarried, match=named.replace(".", r"\.")):
            await move(both, acme, SERVER)

        assert await tenants.get(both.catalog, acme.id) == acme
        assert await databases(both) == before
        raw_sql.run(url_of(both, acme), "INSERT INTO seed VALUES (99)")

    async def test_refuses_a_generated_column(self, both: Services, acme: Tenant, migrations: Path):
        raw_sql.run(
            url_of(both, acme), "ALTER TABLE child ADD COLUMN twice INTEGER AS (2 * parent_id)"
        )
        source = REVISION.replace(
            'op.create_table("seed"',
            'op.execute("ALTER TABLE child ADD COLUMN twice INTEGER '
            'GENERATED ALWAYS AS (2 * parent_id) STORED")\n    op.create_table("seed"',
        )
        (migrations / "versions" / "u1_create_parent.py").write_text(source)

        with pytest.raises(NotCarried, match=r"child\.twice is generated"):
            await move(both, acme, SERVER)

    async def test_refuses_a_tenant_behind_the_head(
        self, both: Services, acme: Tenant, migrations: Path
    ):
        (migrations / "versions" / "u2_later.py").write_text(
            'revision = "u2"\ndown_revision = "u1"\n\n\ndef upgrade(op):\n    pass\n'
        )

        (planned,) = await moving.plan(both.copying, [acme], server_name=SERVER)
        with pytest.raises(TenantBehind):
            await move(both, acme, SERVER)

        assert isinstance(planned, NotMoved)
        assert isinstance(planned.error, TenantBehind)
        assert await tenants.get(both.catalog, acme.id) == acme


class TestMoveToSqlite:
    @pytest.mark.parametrize(
        ("statement", "named"),
        [
            ("UPDATE parent SET ratio = 'NaN'", "parent.ratio has the number NaN"),
            ("ALTER TABLE child ADD COLUMN parts integer[]", "child.parts exists only"),
            ("CREATE SCHEMA other; CREATE TABLE other.thing (id int)", "other.thing is in another"),
        ],
    )
    async def test_refuses_by_name_what_cannot_be_carried(
        self, both: Services, acme: Tenant, statement: str, named: str
    ):
        there = await move(both, acme, SERVER)
        raw_sql.run(url_of(both, there), *statement.split("; "))

        with pytest.raises(NotCarried, match=named.replace(".", r"\.")):
            await move(both, there, FILES)

        assert await tenants.get(both.catalog, acme.id) == there


async def archive_of(services: Services, tenant: Tenant, folder: Path) -> bytes:
    job = await creating.back_up(
        system_context("test"),
        services.copying,
        tenant,
        FolderTarget(folder / "archives"),
        progress=Progress(),
    )
    return await asyncio.to_thread(Path(str(job.archive)).read_bytes)


class TestArchiveFromBeforeAMove:
    async def replace(
        self, services: Services, tenant: Tenant, archive: bytes, server_name: str | None
    ) -> Tenant:
        reader = ArchiveReader(io.BytesIO(archive), services.copying.keys)
        restored = await replacing.replace(
            system_context("test"),
            services.copying,
            reader,
            tenant,
            server_name=server_name,
            progress=Progress(),
        )
        return restored.tenant

    async def test_moves_the_tenant_back_only_if_that_is_asked_for(
        self, both: Services, acme: Tenant, tmp_path: Path
    ):
        archive = await archive_of(both, acme, tmp_path)
        moved = await move(both, acme, SERVER)

        with pytest.raises(WrongEngine, match=rf"the tenant server {SERVER} is .*--server"):
            await self.replace(both, moved, archive, None)
        assert await tenants.get(both.catalog, acme.id) == moved

        assert (await self.replace(both, moved, archive, FILES)).server_name == FILES

    async def test_is_refused_before_a_restore_in_place_is_queued(
        self, both: Services, acme: Tenant
    ):
        ctx, copying = system_context("test"), both.copying
        target = await copying.archives.target()
        made = await creating.back_up(ctx, copying, acme, target, progress=Progress())
        moved = await move(both, acme, SERVER)

        name = Path(str(made.archive)).name
        with pytest.raises(WrongEngine, match=f"the tenant server {SERVER} is"):
            await both.queue.add(ctx, REPLACE, tenant=moved, archive=name, name=moved.name)


class TestArchiveOfAProject:
    async def test_is_refused_where_no_revisions_are_configured(
        self, both: Services, acme: Tenant, tmp_path: Path
    ):
        """It would be served at Tenantry's own revision, and never be migrated."""
        archive = await archive_of(both, acme, tmp_path)
        settings = Settings(data_dir=tmp_path / "other", secret_key=SECRET_KEY)
        async with open_services(settings, works=False) as services:
            copying = services.copying
            reader = ArchiveReader(io.BytesIO(archive), copying.keys)

            with pytest.raises(RevisionsNotConfigured, match=r"revision u1 .*TENANT_MIGRATIONS"):
                await restoring.restore(
                    system_context("test"),
                    copying,
                    reader,
                    name="acme",
                    server_name=None,
                    progress=Progress(),
                )

            assert (await tenant_list.page(services.catalog, Window(1, 1))).total_count == 0


class TestKinds:
    @pytest.mark.parametrize(
        "type_",
        [
            sa.Interval(),
            sa.ARRAY(sa.Integer),
            sa.Time(timezone=True),
            sa.dialects.postgresql.INET(),
            sa.dialects.postgresql.TSVECTOR(),
            sa.dialects.postgresql.DOMAIN("positive", sa.Integer),
            sa.types.NullType(),
        ],
    )
    def test_a_type_without_a_counterpart_has_none(self, type_: Any):
        assert kind_of(type_) is None
