"""The template of new tenants: its content, and what copies must not share."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.faults import Faults
from testkit.postgres import Server, own_server
from testkit.revisions import AlembicFolder
from tests.conftest import provision
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.gates import tenants, url_of

INVOICES = """
op.execute("CREATE TABLE invoice (id serial PRIMARY KEY, number integer "
           "GENERATED ALWAYS AS IDENTITY, text text)")
op.execute("INSERT INTO invoice (text) VALUES ('one'), ('two')")
"""
ADD = "INSERT INTO invoice (text) VALUES ('more')"
DURABLE = "ALTER SYSTEM SET synchronous_commit = on"


@pytest.mark.slow
@on_sqlite  # the catalog
class TestSequences:
    @pytest.fixture(name="server")
    def _server(self) -> Iterator[Server]:
        """A server that loses nothing that it has acknowledged."""
        with own_server() as server:
            raw_sql.run(server.url, DURABLE, "SELECT pg_reload_conf()")
            yield server

    async def test_give_no_value_twice_after_a_crash(
        self,
        server: Server,
        folder: AlembicFolder,
        settings: Settings,
    ):
        folder.add("u1_invoices", INVOICES)
        changes = {"tenant_server_url": server.url, "tenant_migrations": folder.begin()}
        settings = Settings(**{**settings.model_dump(), **changes})
        async with open_services(settings) as services:
            made = await tenants(services, 3)
            urls = [url_of(services, tenant) for tenant in made]
            for url in urls:
                raw_sql.run(url, *[ADD] * 5)
                raw_sql.run(url, "SELECT nextval('tenantry_migration_log_position_seq')")

            server.stop("immediate")
            server.start()
            for url in urls:
                raw_sql.run(url, *[ADD] * 5)
            folder.add("u2_more", f'op.execute("{ADD}")')
            run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
            run = await services.fleet.wait(run_id)

            assert (run.success_count, run.failed_count) == (3, 0)
        for url in urls:
            numbers = raw_sql.rows(url, "SELECT id, number FROM invoice ORDER BY id")
            assert len(numbers) == len({one for one, _ in numbers}) == 13
            assert len({number for _, number in numbers}) == 13


CREATE_NOTES = "op.create_table('note', sa.Column('text', sa.String(80)))"
RANDOM = {"sqlite": "lower(hex(randomblob(8)))", "postgresql": "gen_random_uuid()::text"}
DATABASE = """DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET work_mem = %L', current_database(), '9MB');
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO {role}', current_database());
    EXECUTE format('COMMENT ON DATABASE %I IS %L', current_database(), 'ours');
END $$"""
RANDOM_DEFAULT = """
op.create_table("note", sa.Column("id", sa.Integer),
                sa.Column("text", sa.String(80), server_default=sa.text("({random})")))
op.bulk_insert(sa.table("note", sa.column("id")), [{{"id": 1}}])
"""


@pytest.fixture(name="with_user")
def _with_user(settings: Settings, folder: AlembicFolder) -> Settings:
    return settings.model_copy(update={"tenant_migrations": folder.begin()})


def texts(urls: list[str]) -> list[list[str]]:
    return [[text for (text,) in raw_sql.rows(url, "SELECT text FROM note")] for url in urls]


async def made(settings: Settings) -> list[str]:
    """Return the URLs of two new tenants."""
    async with open_services(settings) as services:
        return [url_of(services, tenant) for tenant in await tenants(services, 2)]


class TestVersionTable:
    async def test_is_that_of_the_settings(self, with_user: Settings, folder: AlembicFolder):
        folder.add("u1_notes", CREATE_NOTES)
        await made(with_user)

        other = with_user.model_copy(update={"tenant_version_table": "my_version"})
        async with open_services(other) as services:
            url = url_of(services, (await provision(services, "other")).tenant)

        assert raw_sql.tables(url) & {"my_version", "alembic_version"} == {"my_version"}


class TestDraft:
    async def test_may_end_while_unfinished_tenants_are_removed(
        self, settings: Settings, faults: Faults
    ):
        async with open_services(settings, works=False) as services:
            server = services.databases.server("default")
            faults.after(server, "publish", lambda *_, **__: services.job_worker.reap(), once=True)

            made = await provision(services, "acme")

            assert services.copying.ledger.busy == set()
            assert made.tenant.name == "acme"


class TestContent:
    @pytest.mark.parametrize(
        ("definition", "row"),
        [
            (CREATE_NOTES, "import secrets; op.execute(f\"{insert} ('{{secrets.token_hex()}}')\")"),
            (CREATE_NOTES, 'op.execute("{insert} ({random})")'),
            (RANDOM_DEFAULT, "pass"),
        ],
        ids=["of Python", "of the database", "of a default"],
    )
    async def test_shares_no_random_value(
        self, with_user: Settings, folder: AlembicFolder, engine: str, definition: str, row: str
    ):
        """Two tenants with one secret would each know the other's."""
        values = {"insert": "INSERT INTO note (text) VALUES", "random": RANDOM[engine]}
        filled = definition.format(**values) if definition is RANDOM_DEFAULT else definition
        folder.add("u1_notes", filled)
        folder.add("u2_row", row.format(**values))

        first, second = texts(await made(with_user))

        assert len(first) == len(second) == 1
        assert first != second

    async def test_is_what_comes_before_the_first_row(
        self, with_user: Settings, folder: AlembicFolder
    ):
        folder.add("u1_notes", CREATE_NOTES)
        folder.add("u2_index", "op.create_index('i', 'note', ['text'])")
        folder.add("u3_row", "op.execute(\"INSERT INTO note VALUES ('one')\")")
        folder.add("u4_more", "op.add_column('note', sa.Column('more', sa.String(80)))")

        runs = "SELECT revision, run_id FROM tenantry_migration_log"
        one, other = [dict(raw_sql.rows(url, runs)) for url in await made(with_user)]

        shared = {name for name, run in one.items() if other[name] == run}
        own = {revision.name for revision in STREAM.revisions}
        assert shared == own | {"begin", "u1_notes", "u2_index"}
        assert set(one) - shared == {"u3_row", "u4_more"}

    @pytest.mark.parametrize(
        "middle", ["pass", "op.get_bind().in_transaction()"], ids=["recorded", "live"]
    )
    async def test_continues_with_the_types_that_it_has(
        self, with_user: Settings, folder: AlembicFolder, middle: str
    ):
        """With Alembic, the first upgrade of a database creates an enumeration once."""
        table = "op.create_table('{}', sa.Column('state', sa.Enum('a', 'b', name='state')))".format
        folder.add("u1_first", table("first"))
        folder.add("u2_second", table("second"))
        folder.add("u3_row", f"{middle}\nop.execute(\"INSERT INTO first VALUES ('a')\")")
        folder.add("u4_third", table("third"))

        [url, _] = await made(with_user)

        assert raw_sql.tables(url) >= {"first", "second", "third"}

    async def test_follows_a_file_that_a_revision_reads(
        self, with_user: Settings, folder: AlembicFolder, tmp_path: Path
    ):
        script = tmp_path / "script.sql"
        folder.add(
            "u1_read", f"import pathlib; op.execute(pathlib.Path({str(script)!r}).read_text())"
        )
        async with open_services(with_user) as services:
            found = []
            for name in ("before", "after"):
                script.write_text(f"CREATE TABLE {name} (id INTEGER)")
                url = url_of(services, (await provision(services, name)).tenant)
                found.append(raw_sql.tables(url) & {"before", "after"})

        assert found == [{"before"}, {"after"}]

    @on_postgresql
    async def test_holds_nothing_that_belongs_to_a_database(
        self, with_user: Settings, folder: AlembicFolder
    ):
        """A copy has no settings, grants and comments of the database."""
        role = f"reader_{secrets.token_hex(4)}"
        folder.add("u1_database", f"op.execute({DATABASE.format(role=role)!r})")
        raw_sql.run(with_user.servers["default"].address, f"CREATE ROLE {role}")

        for url in await made(with_user):
            assert raw_sql.rows(url, "SHOW work_mem") == [("9MB",)]
            found = raw_sql.rows(
                url,
                f"""SELECT array_to_string(datacl, ' ') LIKE '%{role}=T%',
                shobj_description(oid, 'pg_database') FROM pg_database
                WHERE datname = current_database()""",
            )
            assert found == [(True, "ours")]
