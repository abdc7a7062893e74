"""A move between two servers of PostgreSQL while the tenant is written to."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import psycopg
import pytest

from tenantry.backup import dumps, moving, online
from tenantry.backup.dumps import CopyDiffers
from tenantry.backup.moving import MoveFailed
from tenantry.backup.online import MoveLimits, NotCaughtUp, PauseTooLong, SchemaChanged, Way
from tenantry.backup.replacing import TenantChanged
from tenantry.catalog import jobs as job_rows
from tenantry.catalog import tenants
from tenantry.catalog.tenants import Tenant
from tenantry.catalog.workers import NO_WORKER
from tenantry.cli.doctor.findings import State
from tenantry.cli.doctor.leftovers import check_slots
from tenantry.db.copying import move_obstacles, replication
from tenantry.db.copying.change_copy import ChangeCopy, TooManyChanges
from tenantry.db.copying.change_writer import ChangeDiffers
from tenantry.db.write_fence import DatabaseBusy
from tenantry.fleet.claims import POLL_SECONDS
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work import ledger
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.faults import Faults
from testkit.postgres import Server, find_binaries
from tests.conftest import SECRET_KEY, provision
from tests.integration.online import (
    FAR,
    NEAR,
    WRITTEN,
    is_writable,
    left_over,
    move,
    newest_job,
    slots,
    two_servers,
    url_of,
    writing,
)

pytestmark = pytest.mark.slow

TABLES = (
    WRITTEN,
    """CREATE TABLE parent (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text,
    big text, price numeric(12, 4), doc json, at timestamptz, data bytea, gap interval,
    ratio float8, code char(5), flags boolean[],
    total numeric GENERATED ALWAYS AS (price * 2) STORED)""",
    "ALTER TABLE parent ALTER big SET STORAGE EXTERNAL",
    """CREATE TABLE child (id serial PRIMARY KEY,
    parent_id integer REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE)""",
    "CREATE TABLE event (line text, doc json, amount numeric)",
    "ALTER TABLE event REPLICA IDENTITY FULL",
    """CREATE TABLE "odd ""na%me" ("a%s" text, "b $1" integer, PRIMARY KEY ("a%s", "b $1"))""",
    "CREATE TABLE emptied (id integer PRIMARY KEY)",
    "CREATE TABLE part (id integer PRIMARY KEY, body text) PARTITION BY RANGE (id)",
    "CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE part_high PARTITION OF part FOR VALUES FROM (100) TO (200)",
    "CREATE TABLE swapped (id integer PRIMARY KEY, at integer UNIQUE DEFERRABLE)",
    "CREATE TABLE coded (id integer PRIMARY KEY, code text NOT NULL UNIQUE, body text)",
    "ALTER TABLE coded REPLICA IDENTITY USING INDEX coded_code_key",
    "CREATE TABLE sent_whole (id integer PRIMARY KEY, body text)",
    "ALTER TABLE sent_whole REPLICA IDENTITY FULL",
    "CREATE SEQUENCE numbers START 1000 INCREMENT 7",
    "CREATE TABLE history (id serial PRIMARY KEY, parent_id integer)",
    """CREATE FUNCTION note_parent() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO history (parent_id) VALUES (NEW.id); RETURN NEW; END $$""",
    "CREATE TRIGGER noting AFTER INSERT ON parent FOR EACH ROW EXECUTE FUNCTION note_parent()",
)
ROWS = (
    """INSERT INTO parent (name, big, price, doc, at, data, gap, ratio, code, flags)
    SELECT 'n' || i, repeat(i::text, 4000), i * 1.5, '{"b": 1,  "a": [1.50]}',
    '2024-02-29 12:00+02', '\\x00ff', '1 mon -2 days', 0.1, 'ab', '{t,f,NULL}'
    FROM generate_series(1, 20) AS i""",
    "INSERT INTO child (parent_id) SELECT id FROM parent",
    "INSERT INTO event SELECT 'same', '{}', 1.0 FROM generate_series(1, 3)",
    "INSERT INTO emptied SELECT generate_series(1, 5)",
    "INSERT INTO part VALUES (1, 'a'), (150, 'b')",
    "INSERT INTO swapped VALUES (1, 1), (2, 2)",
    "INSERT INTO coded VALUES (1, 'a', 'x'), (2, 'b', NULL), (3, 'c', 'x')",
    "INSERT INTO sent_whole VALUES (1, 'x'), (2, NULL)",
)
CHANGES = (
    "INSERT INTO parent (name, price) VALUES ('new', 0.0001)",
    "UPDATE parent SET price = price + 1, ratio = '-0' WHERE id <= 10",  # `big` is not sent
    "UPDATE parent SET big = repeat('ä', 3000), doc = NULL, at = 'infinity' WHERE id = 3",
    "UPDATE parent SET data = NULL, gap = '1 year 3 hours', code = '', flags = '{}' WHERE id = 4",
    "DELETE FROM parent WHERE id IN (5, 6)",  # and from `child`
    "UPDATE child SET id = id + 1000 WHERE id <= 3",
    "INSERT INTO event VALUES ('same', '{}', 1.00), (NULL, NULL, NULL), ('x', '[ 1 ]', 'NaN')",
    "UPDATE event SET line = 'b' WHERE ctid = (SELECT ctid FROM event WHERE amount = 1 LIMIT 1)",
    "DELETE FROM event WHERE amount::text = '1.00'",
    "UPDATE event SET amount = 5 WHERE line IS NULL",
    """INSERT INTO "odd ""na%me" VALUES ('%s', 1), ('$1', 2), ('\\', 3)""",
    """UPDATE "odd ""na%me" SET "b $1" = 9 WHERE "a%s" = '$1'""",
    "TRUNCATE emptied",
    "INSERT INTO emptied VALUES (1), (7)",
    "UPDATE part SET id = id + 100 WHERE id = 1",
    "UPDATE part SET body = NULL WHERE id = 150",
    "BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE swapped SET at = 3 - at; COMMIT",
    "DELETE FROM coded WHERE id = 1",
    "UPDATE coded SET body = 'y' WHERE id = 2",
    "UPDATE coded SET id = 9 WHERE id = 3",
    "UPDATE coded SET code = 'd' WHERE id = 9",
    "UPDATE sent_whole SET id = 3 WHERE id = 2",
    "DELETE FROM sent_whole WHERE id = 1",
    "SELECT nextval('numbers') FROM generate_series(1, 5)",
    """BEGIN; INSERT INTO emptied VALUES (20); SAVEPOINT a; INSERT INTO emptied VALUES (21);
    ROLLBACK TO a; INSERT INTO emptied VALUES (22); COMMIT""",
    "BEGIN; INSERT INTO emptied VALUES (30); ROLLBACK",
)
SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"


@pytest.fixture(name="servers", scope="module")
def _servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as servers:
        yield servers


@pytest.fixture(name="settings")
def _settings(servers: tuple[Server, Server], tmp_path: Path) -> Settings:
    near, far = servers
    return Settings(
        data_dir=tmp_path / "data",
        host="tenantry.test",
        tenant_server_url=near.url,
        tenant_servers={FAR: {"url": far.url}},
        secret_key=SECRET_KEY,
        pg_tools=find_binaries(),
    )


@pytest.fixture(name="services")
async def _services(settings: Settings) -> AsyncIterator[Services]:
    async with open_services(settings) as services:
        yield services
        for name in services.databases.server_names:
            server = services.databases.server(name)
            for slot, database in await slots(server):
                await server.stop_following(database, slot)
            for one in await server.names("tenantry_"):
                await server.drop(one)


@pytest.fixture(name="shop")
async def _shop(services: Services) -> Tenant:
    """A tenant with tables of many kinds."""
    shop = (await provision(services, "Shop")).tenant
    raw_sql.run(url_of(services, shop), *TABLES, *ROWS)
    return shop


class TestMove:
    async def test_keeps_every_acknowledged_write_and_rejects_writes_for_a_moment(
        self, services: Services, settings: Settings, capsys: pytest.CaptureFixture[str]
    ):
        shop = (await provision(services, "Shop")).tenant
        raw_sql.run(
            url_of(services, shop),
            WRITTEN,
            "CREATE TABLE note (id integer PRIMARY KEY, body text)",
            "INSERT INTO note SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, 50000) i",
        )
        async with (
            open_services(settings, works=False) as other,
            writing(other, shop) as found,
        ):
            await asyncio.sleep(0.5)
            moved = await move(services, shop, way=Way.AUTO)
            online_pause, count = found.pause_seconds, len(found.numbers)
            await found.reach(count + 50)
            back = await move(services, moved.tenant, to=NEAR, way=Way.OFFLINE)
            await found.reach(count + 100)

        stored = {
            row[0] for row in raw_sql.rows(url_of(services, back.tenant), "SELECT * FROM written")
        }
        assert [one for one in found.numbers if one not in stored] == []
        assert moved.obstacle is None
        assert moved.tenant.server_name == FAR
        with capsys.disabled():
            print(  # noqa: T201
                f"\nwrites rejected: online {moved.rejected_seconds:.2f} s (a client: "
                f"{online_pause:.2f} s), offline {back.rejected_seconds:.2f} s"
            )
        assert moved.rejected_seconds < back.rejected_seconds / 2
        assert await left_over(services) == []

    async def test_copies_every_kind_of_change(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        url, near = url_of(services, shop), services.databases.server(NEAR)

        def change(*_: Any) -> None:
            raw_sql.run(url, *CHANGES)

        def change_again(*_: Any, **__: Any) -> None:  # these are copied while writes are rejected
            raw_sql.run(url, *CHANGES[:1], *CHANGES[6:7], "SELECT nextval('numbers')")

        faults.before(online, "catch_up", change, once=True)
        faults.before(near, "reject_writes", change_again)
        _, moved = await moving.carry(  # and keep the old database
            system_context("test"),
            services.copying,
            shop,
            server_name=FAR,
            progress=Progress(),
            way=Way.ONLINE,
        )

        new = url_of(services, moved.tenant)
        assert raw_sql.rows(new, SEQUENCES) == raw_sql.rows(url, SEQUENCES)
        copied, original = (raw_sql.written(one).splitlines() for one in (new, url))
        assert sorted(copied) == sorted(original)  # in another order in the files
        raw_sql.run(new, "INSERT INTO parent (name) VALUES ('after the move')")

    async def test_copies_each_transaction_once_whenever_it_was_committed(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        """In the table without a key, a row that is copied twice would be there twice."""
        url = url_of(services, shop)
        adding = "INSERT INTO event (line) VALUES ('{}')"
        with (
            psycopg.connect(url) as first,
            psycopg.connect(url) as second,
            psycopg.connect(url) as third,
        ):

            def write(*_: Any, **__: Any) -> None:
                first.execute(adding.format("before the snapshot"))
                first.commit()
                first.execute(adding.format("during the snapshot"))

            def commit(*_: Any) -> None:
                first.commit()
                second.execute(adding.format("during the comparison"))

            def commit_second(*_: Any) -> None:
                second.commit()
                third.execute(adding.format("after the comparison"))

            faults.after(replication, "begin", write)
            faults.after(online, "copy_snapshot", commit)
            faults.before(online, "compare_rows", commit_second)
            faults.after(online, "compare_rows", lambda _: third.commit())
            moved = await move(services, shop, limits=MoveLimits(transaction_seconds=60.0))

        sql = "SELECT line FROM event WHERE amount IS NULL ORDER BY 1"
        assert raw_sql.rows(url_of(services, moved.tenant), sql) == [
            ("after the comparison",),
            ("before the snapshot",),
            ("during the comparison",),
            ("during the snapshot",),
        ]

    async def test_is_refused_when_a_table_is_created_after_the_publication(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        """It is in the snapshot, and its later rows would be in no change."""
        url = url_of(services, shop)

        def create(*_: Any, **__: Any) -> None:
            raw_sql.run(url, "CREATE TABLE late (id integer PRIMARY KEY)")

        faults.after(replication, "begin", create, once=True)
        with pytest.raises(online.SchemaChanged):
            await move(services, shop)

        assert (await move(services, shop)).tenant.server_name == FAR

    async def test_holds_back_what_is_committed_during_the_comparison(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        url = url_of(services, shop)

        def write(*_: Any, within: Any = None) -> None:
            if within is not None:  # after its snapshot, and before its marker
                raw_sql.run(url, "INSERT INTO event (line) VALUES ('later')", "DELETE FROM emptied")

        faults.before(ChangeCopy, "copy_until_now", write)
        moved = await move(services, shop)

        new = url_of(services, moved.tenant)
        assert raw_sql.rows(new, "SELECT count(*) FROM event WHERE line = 'later'") == [(1,)]
        assert raw_sql.rows(new, "SELECT * FROM emptied") == []

    async def test_is_not_disturbed_by_temporary_tables(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        """The first one of a session also creates a schema."""

        def create(copy: online.Following) -> None:
            with psycopg.connect(copy.source) as first, psycopg.connect(copy.source) as second:
                for raw in (first, second):
                    raw.execute("CREATE TEMPORARY TABLE mine (id serial PRIMARY KEY)")
                    raw.commit()

        faults.after(online, "compare_rows", create)
        assert (await move(services, shop)).tenant.server_name == FAR

    async def test_is_written_into_the_job(self, services: Services, shop: Tenant):
        moved = await move(services, shop)
        job = await newest_job(services)
        assert (job.state, job.note) == ("done", online.describe(None))

        await move(services, moved.tenant, to=NEAR, way=Way.OFFLINE)
        assert (await newest_job(services)).note == online.describe("it was not requested")


OBSTACLES = [
    ("CREATE TABLE bare (a integer)", "the table public.bare has no primary key"),
    ("CREATE TABLE bare (a integer PRIMARY KEY DEFERRABLE)", "public.bare has no primary key"),
    (
        "CREATE TABLE bare (a integer PRIMARY KEY); ALTER TABLE bare REPLICA IDENTITY NOTHING",
        "the table public.bare has no primary key",
    ),
    ("CREATE UNLOGGED TABLE fast (a integer PRIMARY KEY)", "the table public.fast is unlogged"),
    ("CREATE MATERIALIZED VIEW sums AS SELECT 1", "the materialized view public.sums has rows"),
    ("SELECT lo_create(0)", "it has 1 large objects"),
    (
        "ALTER TABLE parent ENABLE ALWAYS TRIGGER noting",
        "the table parent has a trigger with ENABLE ALWAYS",
    ),
    (
        """CREATE RULE nothing AS ON DELETE TO child DO ALSO NOTHING;
        ALTER TABLE child ENABLE REPLICA RULE nothing""",
        "the table child has a rule with ENABLE ALWAYS",
    ),
]


class TestObstacle:
    @pytest.mark.parametrize(("sql", "reason"), OBSTACLES)
    async def test_is_something_that_cannot_be_followed(
        self, services: Services, shop: Tenant, sql: str, reason: str
    ):
        raw_sql.run(url_of(services, shop), *sql.split(";"))

        with pytest.raises(online.OnlineImpossible, match=reason):
            await move(services, shop)

        assert await tenants.get(services.catalog, shop.id) == shop
        assert await left_over(services) == []

    @pytest.mark.parametrize(
        ("sql", "reason"),
        [
            ("SELECT lo_create(0)", "it has 1 large objects"),
            ("REFRESH MATERIALIZED VIEW sums", "the materialized view public.sums has rows"),
        ],
    )
    async def test_is_also_found_at_the_end(
        self, services: Services, shop: Tenant, faults: Faults, sql: str, reason: str
    ):
        """If it is no change of the schema."""
        url = url_of(services, shop)
        raw_sql.run(url, "CREATE MATERIALIZED VIEW sums AS SELECT 1 WITH NO DATA")
        faults.after(online, "compare_rows", lambda _: raw_sql.run(url, sql))

        with pytest.raises(online.OnlineImpossible, match=reason):
            await move(services, shop)

        assert await left_over(services) == []
        assert await is_writable(services, shop)

    async def test_makes_the_tenant_read_only_during_the_copy(
        self, services: Services, shop: Tenant
    ):
        raw_sql.run(url_of(services, shop), "CREATE TABLE bare (a integer)")

        moved = await move(services, shop, way=Way.AUTO)

        assert moved.obstacle is not None
        assert "has no primary key" in moved.obstacle
        assert "read-only during the copy" in ((await newest_job(services)).note or "")
        assert raw_sql.rows(url_of(services, moved.tenant), "SELECT count(*) FROM parent") == [
            (20,)
        ]

    async def test_is_a_small_database_unless_online_is_wanted(
        self, services: Services, shop: Tenant
    ):
        (planned,) = await moving.plan(services.copying, [shop], server_name=FAR)
        (wanted,) = await moving.plan(services.copying, [shop], server_name=FAR, way=Way.ONLINE)

        assert "the database is small" in str(planned)
        assert isinstance(wanted, moving.Planned)
        assert wanted.obstacle is None

    async def test_is_a_tenant_that_accepts_no_writes(self, services: Services, shop: Tenant):
        frozen = await services.lifecycle.update(system_context("test"), shop, is_read_only=True)

        with pytest.raises(online.OnlineImpossible, match="accepts no writes"):
            await move(services, frozen)

    async def test_is_a_full_list_of_slots(self, services: Services, shop: Tenant):
        url = url_of(services, shop)
        names = [f"other_{number}" for number in range(4)]
        for name in names:
            raw_sql.rows(url, f"SELECT pg_create_physical_replication_slot('{name}')")
        try:
            with pytest.raises(online.OnlineImpossible, match="all 4 replication slots"):
                await move(services, shop)
        finally:
            for name in names:
                raw_sql.rows(url, f"SELECT pg_drop_replication_slot('{name}')")

    async def test_is_a_server_without_logical_decoding(self, services: Services, server_url: str):
        async with dumps.connected(server_url) as raw:
            found = await move_obstacles.find(raw)
        async with dumps.connected(services.databases.server(NEAR).url("postgres")) as raw:
            on_target = await move_obstacles.find_on_target(raw)

        assert found == "wal_level of its server is replica, and must be logical"
        assert on_target is None

    async def test_is_a_role_without_rights(self, services: Services, shop: Tenant):
        url = url_of(services, shop)
        raw_sql.run(
            url,
            f"CREATE ROLE plain_{shop.id.hex} LOGIN",
            f"GRANT CONNECT ON DATABASE {shop.database_name} TO plain_{shop.id.hex}",
        )
        raw = await asyncpg.connect(url.replace("postgres@", f"plain_{shop.id.hex}@", 1))
        try:
            found = [
                await move_obstacles.find_on_target(raw),
                await move_obstacles.find(raw),
            ]
            raw_sql.run(url, f"ALTER ROLE plain_{shop.id.hex} REPLICATION")
            found.append(await move_obstacles.find(raw))
            name = shop.database_name
            raw_sql.run(url, f"GRANT CREATE ON DATABASE {name} TO plain_{shop.id.hex}")
            found.append(await move_obstacles.find_in_contents(raw))
        finally:
            await raw.close()

        role = f"the role plain_{shop.id.hex}"
        assert found == [
            f"{role} of the new server may not set session_replication_role",
            f"{role} of its server has no REPLICATION attribute",
            f"{role} may not create a publication in the database",
            'the role does not own the table public."odd ""na%me"',
        ]


class TestFailure:
    @pytest.mark.parametrize(
        "phase", ["copy_snapshot", "catch_up", "compare_rows", "Following.finish"]
    )
    async def test_leaves_nothing_when_it_is_cancelled(
        self, services: Services, shop: Tenant, faults: Faults, phase: str
    ):
        reached = asyncio.Event()

        async def hang(*_arguments: Any) -> None:
            reached.set()
            await asyncio.sleep(60)

        owner, _, name = phase.rpartition(".")
        faults.before(getattr(online, owner) if owner else online, name, hang)
        running = asyncio.create_task(move(services, shop))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await tenants.get(services.catalog, shop.id) == shop
        assert await left_over(services) == []
        assert await is_writable(services, shop)

    @pytest.mark.parametrize(
        "sql",
        [
            "ALTER TABLE parent ADD note text",
            "CREATE TABLE later (id integer PRIMARY KEY)",
            "CREATE INDEX later ON parent (name)",
            "ALTER TABLE event REPLICA IDENTITY DEFAULT",
            """CREATE OR REPLACE FUNCTION note_parent() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RETURN NEW; END $$""",
            "ALTER SEQUENCE numbers INCREMENT 1",
            "DROP VIEW seen",
            "ALTER TABLE swapped ADD CHECK (id > 0)",
            "ALTER TABLE parent ENABLE ALWAYS TRIGGER noting",
            "ALTER TYPE mood ADD VALUE 'sad'",
            "ALTER DOMAIN positive ADD CHECK (VALUE > 0)",
            "ALTER TABLE parent SET (fillfactor = 50)",
            "ALTER TABLE parent FORCE ROW LEVEL SECURITY",
            "GRANT SELECT ON parent TO PUBLIC",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
            "COMMENT ON COLUMN parent.name IS 'a name'",
            'CREATE COLLATION mine FROM "C"',
            "CREATE TEXT SEARCH CONFIGURATION mine (COPY = simple)",
            "CREATE OPERATOR FAMILY mine USING btree",
            "CREATE STATISTICS mine ON id, name FROM parent",
            """DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, other',
            current_database()); END $$""",
        ],
    )
    async def test_refuses_a_schema_that_was_changed_meanwhile(
        self, services: Services, shop: Tenant, faults: Faults, sql: str
    ):
        url = url_of(services, shop)
        raw_sql.run(
            url,
            "CREATE VIEW seen AS SELECT 1",
            "CREATE TYPE mood AS ENUM ('glad')",
            "CREATE DOMAIN positive AS integer",
        )
        faults.after(online, "compare_rows", lambda _: raw_sql.run(url, sql))
        with pytest.raises(SchemaChanged):
            await move(services, shop)

        assert await left_over(services) == []
        assert await is_writable(services, shop)

    async def test_refuses_a_change_with_another_result_in_the_copy(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        def damage(source: str, target: str, *_: Any) -> None:
            raw_sql.run(target, "DELETE FROM child WHERE id = 1")
            raw_sql.run(source, "UPDATE child SET parent_id = 2 WHERE id = 1")

        faults.after(online, "copy_snapshot", damage)
        with pytest.raises(ChangeDiffers, match="child"):
            await move(services, shop)

        assert await is_writable(services, shop)

    async def test_refuses_a_value_that_is_another_one_in_the_copy(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        def damage(source: str, target: str, *_: Any) -> None:
            raw_sql.run(target, "ALTER TABLE parent ALTER price TYPE numeric(12, 2)")
            raw_sql.run(source, "UPDATE parent SET price = 1.2345 WHERE id = 1")

        faults.after(online, "copy_snapshot", damage)
        with pytest.raises((ChangeDiffers, MoveFailed)):
            await move(services, shop)

    async def test_refuses_a_value_that_the_copy_cannot_have_without_naming_it(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        def damage(source: str, target: str, *_: Any) -> None:
            raw_sql.run(target, "ALTER TABLE parent ALTER name TYPE integer USING 1")
            raw_sql.run(source, "UPDATE parent SET name = 'of a customer' WHERE id = 1")

        faults.after(online, "copy_snapshot", damage)
        with pytest.raises(ChangeDiffers) as raised:
            await move(services, shop)

        assert "A change cannot be made in the copy: " in raised.value.message
        assert "customer" not in raised.value.message

    async def test_refuses_a_copy_that_lacks_a_change(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        """Because the publication does not have it."""

        async def publish_no_row(raw: Any, name: str, **_: Any) -> None:
            await raw.execute(f"ALTER PUBLICATION {name} SET (publish = 'delete')")

        def write(source: str, *_: Any) -> None:
            raw_sql.run(source, "INSERT INTO child (parent_id) VALUES (1)")

        faults.after(replication, "begin", publish_no_row)
        faults.after(online, "copy_snapshot", write)
        with pytest.raises(CopyDiffers, match="child"):
            await move(services, shop)

    async def test_leaves_a_tenant_read_only_that_an_admin_has_made_so_meanwhile(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        async def freeze(_: online.Following) -> None:
            await services.lifecycle.update(system_context("test"), shop, is_read_only=True)

        faults.after(online, "compare_rows", freeze)
        with pytest.raises(TenantChanged):
            await move(services, shop)

        found = await tenants.get(services.catalog, shop.id)
        assert (found.is_read_only, found.server_name) == (True, NEAR)
        assert await left_over(services) == []

    async def test_lifts_the_fence_if_the_last_changes_take_too_long(
        self, services: Services, shop: Tenant
    ):
        with pytest.raises(PauseTooLong):
            await move(services, shop, limits=MoveLimits(finish_seconds=0.0))

        assert await left_over(services) == []
        assert await is_writable(services, shop)

    async def test_does_not_reject_writes_while_a_transaction_lasts_long(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        limits = MoveLimits(transaction_seconds=0.1, catch_up_seconds=1.0)
        with psycopg.connect(url_of(services, shop)) as raw:

            async def begin(_: online.Following) -> None:
                raw.execute("SELECT 1")
                await asyncio.sleep(limits.transaction_seconds)

            faults.after(online, "compare_rows", begin)
            with pytest.raises(NotCaughtUp):
                await move(services, shop, limits=limits)

        assert await is_writable(services, shop)
        assert await left_over(services) == []

    async def test_gives_up_soon_if_a_transaction_does_not_end(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        with psycopg.connect(url_of(services, shop)) as raw:

            def begin(*_: Any, **__: Any) -> None:
                raw.execute("SELECT 1")

            faults.before(services.databases.server(NEAR), "reject_writes", begin)
            with pytest.raises(DatabaseBusy):
                await move(services, shop, limits=MoveLimits(online_fence_seconds=0.3))

        assert await is_writable(services, shop)

    async def test_begins_no_slot_while_a_transaction_on_the_server_lasts(
        self, services: Services, shop: Tenant
    ):
        with psycopg.connect(url_of(services, shop)) as raw:
            raw.execute("INSERT INTO event (line) VALUES ('not committed')")

            with pytest.raises(replication.TransactionsTooLong):
                await move(services, shop, limits=MoveLimits(begin_seconds=0.5))

        assert await left_over(services) == []

    async def test_keeps_only_some_changes_in_memory(
        self, services: Services, shop: Tenant, faults: Faults
    ):
        def write(*_: Any, within: Any = None) -> None:
            if within is not None:
                raw_sql.run(
                    url_of(services, shop), "INSERT INTO emptied SELECT generate_series(10, 99)"
                )

        faults.before(ChangeCopy, "copy_until_now", write)
        with pytest.raises(TooManyChanges):
            await move(services, shop, limits=MoveLimits(held_bytes=100))

        assert await left_over(services) == []


class TestReap:
    @pytest.mark.parametrize("is_fenced", [False, True])
    async def test_drops_what_a_dead_process_has_left(
        self, services: Services, shop: Tenant, *, is_fenced: bool
    ):
        ctx, name = system_context("test"), "tenantry_" + "e" * 32
        await services.databases.server(FAR).create(name)
        job = ledger.new_job(
            ctx,
            "move",
            Progress(),
            tenant=(shop.id, shop.name),
            database=(FAR, name),
            source=(shop.server_name, shop.database_name),
        )
        job = msgspec.structs.replace(job, has_made_read_only=True)
        if is_fenced:
            await services.lifecycle.update(ctx, shop, is_read_only=True)
        await job_rows.add(services.catalog, job, worker_id=NO_WORKER)
        slot = replication.name_of(job.id)
        raw = await asyncpg.connect(url_of(services, shop))
        await replication.begin(raw, slot)
        await raw.close()
        reading = await asyncio.create_subprocess_exec(
            find_binaries() / "pg_recvlogical",
            f"--dbname={url_of(services, shop)}",
            f"--slot={slot}",
            "--start",
            "--option=proto_version=1",
            f"--option=publication_names={slot}",
            "--file=/dev/null",
            stderr=asyncio.subprocess.DEVNULL,
        )
        active = "SELECT 1 FROM pg_replication_slots WHERE active"
        while not raw_sql.rows(url_of(services, shop), active):  # noqa: ASYNC110 - of a program
            await asyncio.sleep(0.05)
        if is_fenced:
            await services.databases.server(NEAR).reject_writes(shop.database_name)

        await services.job_worker.reap()
        reading.kill()
        await reading.wait()

        assert await left_over(services) == []
        assert await tenants.get(services.catalog, shop.id) == shop
        assert await is_writable(services, shop)


class TestRun:
    async def test_waits_for_the_move_and_migrates_the_new_database(
        self,
        services: Services,
        settings: Settings,
        shop: Tenant,
        faults: Faults,
    ):
        sql = "SELECT state, server_name, database_name FROM tenant_migration"

        async def plan(_: online.Following) -> None:
            await services.fleet.plan(system_context("test"), triggered_by="test")
            await asyncio.sleep(3 * POLL_SECONDS)
            assert raw_sql.rows(settings.catalog, sql) == [("Pending", NEAR, shop.database_name)]

        faults.after(online, "compare_rows", plan)
        moved = await move(services, shop)

        while (found := raw_sql.rows(settings.catalog, sql))[0][0] == "Pending":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert found == [("Success", FAR, moved.tenant.database_name)]

    @pytest.mark.parametrize("is_cancelled", [False, True])
    async def test_includes_a_tenant_that_is_read_only_because_it_is_moved(
        self, services: Services, settings: Settings, shop: Tenant, *, is_cancelled: bool
    ):
        sql = "SELECT state, server_name FROM tenant_migration"
        with psycopg.connect(url_of(services, shop)) as raw:
            raw.execute("SELECT 1")  # the write fence waits for it
            running = asyncio.create_task(move(services, shop, way=Way.OFFLINE))
            while not (await tenants.get(services.catalog, shop.id)).is_read_only:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            ctx = system_context("test")
            run_id = await services.fleet.plan(
                ctx, triggered_by="test", options=RunOptions(tenant_ids=[shop.id])
            )
            await services.fleet.plan(ctx, triggered_by="test")
            await asyncio.sleep(3 * POLL_SECONDS)
            assert raw_sql.rows(settings.catalog, sql) == 2 * [("Pending", NEAR)]
            if is_cancelled:
                running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        await services.fleet.wait(run_id)
        while "Pending" in str(found := raw_sql.rows(settings.catalog, sql)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert found == 2 * [("Success", NEAR if is_cancelled else FAR)]


class TestDoctor:
    async def test_lists_a_slot_of_a_move_that_has_ended(
        self, services: Services, settings: Settings, shop: Tenant
    ):
        slot = replication.name_of(new_id())
        raw = await asyncpg.connect(url_of(services, shop))
        await replication.begin(raw, slot)

        (finding,) = await check_slots(settings, services.catalog)
        assert finding.state is State.WARNING
        assert slot in finding.detail
        assert finding.advice is not None
        for statement in finding.advice.partition("run: ")[2].split("; "):
            await raw.execute(statement)
        await raw.close()

        assert await check_slots(settings, services.catalog) == []
        assert await left_over(services) == []
