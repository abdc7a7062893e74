"""Adopting a database: the tenant, the refusals, and the state after a failure."""

import asyncio
import contextlib
import random
import secrets
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tenantry.app import app_over
from tenantry.catalog import audit, deleted_tenants, jobs, runs, tenant_list, tenants
from tenantry.catalog.tenants import DatabaseInUse, Tenant, TenantNameInUse
from tenantry.db.inspection import (
    DatabaseMissing,
    DatabaseReserved,
    NotOwner,
    NotUtf8,
    SourceChanged,
    copy_sqlite,
)
from tenantry.db.sessions import RejectedByDatabase
from tenantry.db.urls import sqlite_path
from tenantry.fleet.adoption import (
    AdoptionFailed,
    BadStamp,
    DatabaseUnreadable,
    RevisionNotFound,
    SeveralRevisions,
    StampContradicted,
    VersionElsewhere,
    VersionMissing,
    undo,
)
from tenantry.fleet.lifecycle import Provisioned, UnknownServer
from tenantry.kit.context import system_context
from tenantry.kit.errors import Conflict, Invalid, TenantryError
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.kit.stopping import Stop
from tenantry.migration.bootstrap import BOOTSTRAP_LOCK
from tenantry.migration.inspection import AlreadyTenantry, MayNotCreate, NamesTaken
from tenantry.migration.streams import BadStream
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.stream import STREAM
from tenantry.work.running import PROGRESS_SECONDS, JobCancelled
from tenantry.work.undoing import clear
from testkit import raw_sql
from tests.conftest import client_of
from tests.integration import adopting, projects
from tests.integration.adopting import OWNER
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.projects import DONE, HEAD, Foreign, Project

KILLS = 12
KILLED_AT_ONCE = 6
CLEARED_SECONDS_MAX = 100.0
NOT_READY = "SELECT name FROM tenant WHERE state <> 'ready'"
# The catalog refuses that anything becomes ready, which is the last that is asked of it.
REFUSE_READY = {
    "sqlite": [
        """CREATE TRIGGER refuse BEFORE UPDATE OF state ON tenant WHEN NEW.state = 'ready'
        BEGIN SELECT RAISE(ABORT, 'not today'); END"""
    ],
    "postgresql": [
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$""",
        """CREATE TRIGGER refuse BEFORE UPDATE ON tenant FOR EACH ROW
        WHEN (NEW.state = 'ready') EXECUTE FUNCTION refuse()""",
    ],
}

Adopt = Callable[..., Awaitable[Provisioned]]


@pytest.fixture(name="project", scope="module")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return projects.make_project(tmp_path_factory.mktemp("team") / "shop")


@pytest.fixture(name="made", scope="module")
def _made(
    project: Project, postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The team's database on each engine, to copy."""
    file = tmp_path_factory.mktemp("made") / "shop.db"
    name = f"shop_{secrets.token_hex(8)}"
    raw_sql.run(postgres_url, f"CREATE DATABASE {name} TEMPLATE template0")
    urls = {
        "sqlite": f"sqlite:///{file}",
        "postgresql": f"{postgres_url.rpartition('/')[0]}/{name}",
    }
    return {engine: projects.make_foreign(project, url) for engine, url in urls.items()}


@pytest.fixture(name="new_foreign")
def _new_foreign(
    made: dict[str, str], engine: str, tmp_path: Path, postgres_url: str
) -> Callable[..., Foreign]:
    """Makes copies of the team's database."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    copy = projects.copier(made[engine], folder, postgres_url)
    return lambda name="": copy(name or f"Shop-{secrets.token_hex(6)}")


@pytest.fixture(name="foreign")
def _foreign(new_foreign: Callable[..., Foreign]) -> Foreign:
    return new_foreign()


@pytest.fixture(name="settings")
def _settings(settings: Settings, project: Project) -> Settings:
    return settings.model_copy(update={"tenant_migrations": project.migrations})


@pytest.fixture(name="adopt")
def _adopt(services: Services) -> Adopt:
    async def adopt(database: str, *, name: str = "shop", **more: Any) -> Provisioned:
        return await services.adoption.adopt(
            system_context("test"), name=name, database=database, owner=OWNER, **more
        )

    return adopt


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


def states(services: Services) -> list[str]:
    """Return the states of all tenants."""
    found = raw_sql.rows(services.settings.catalog, "SELECT state FROM tenant ORDER BY id")
    return [str(state) for (state,) in found]


def files(settings: Settings) -> list[str]:
    """Return the names of all files in the folder of the tenants."""
    folder = settings.data_dir / "tenants"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def log_in(services: Services, made: Provisioned) -> httpx.AsyncClient:
    """Return a client of the owner, who has logged in."""
    app = app_over(services)
    async with client_of(app, x_api_key=made.key.secret) as client:
        body = {"email": OWNER.email, "password": OWNER.password}
        answer = await client.post("/api/tenant/auth/login", json=body)
    assert answer.status_code == 200, answer.text
    token = answer.json()["data"]["token"]
    return client_of(app, authorization=f"Bearer {token}", x_api_key=made.key.secret)


class TestAdopt:
    async def test_makes_a_tenant_of_the_database(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        before, held = foreign.own(), projects.own(foreign.url)

        made = await adopt(foreign.name)

        url = url_of(services, made.tenant)
        assert projects.own(url) == held
        if sqlite_path(url) is not None:
            assert foreign.own() == before
        assert made.tenant.schema_revision == f"{STREAM.head}/{DONE}"
        assert await tenants.get_by_name(services.catalog, "SHOP") == made.tenant
        assert states(services) == ["ready"]
        entries = await audit.LOG.page(services.catalog, Window(1, 5))
        assert (entries.items[0].action, entries.items[0].target) == (
            "tenant.adopt",
            str(made.tenant.id),
        )

    async def test_creates_an_owner_who_can_log_in(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        made = await adopt(foreign.name)

        async with await log_in(services, made) as client:
            body = {"fullName": "Somebody Else", "email": OWNER.email}
            answer = await client.put("/api/tenant/auth/profile", json=body)
            answered = await client.get("/api/tenant/modules")

        assert answer.status_code == 200, answer.text
        assert answer.json()["data"]["fullName"] == "Somebody Else"
        assert answered.status_code == 200

    async def test_leaves_pending_revisions_to_the_next_run(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        made = await adopt(foreign.name)
        url = url_of(services, made.tenant)
        columns = raw_sql.columns(url, "customer")

        run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
        run = await services.fleet.wait(run_id)

        (item,) = await runs.ended(services.catalog, run_id)
        assert "email" not in columns
        assert (run.success_count, item.applied) == (1, "a3_add_email,a4_fill_email")
        emails = raw_sql.rows(url, "SELECT email FROM customer WHERE id = 2")
        assert emails == [("b@example.com",)]
        assert raw_sql.rows(url, "SELECT version_num FROM alembic_version") == [(HEAD,)]

    async def test_takes_a_database_without_revisions(
        self, adopt: Adopt, new_database: Callable[[], str]
    ):
        """No version table, and one without a row, are the base when it is said so."""
        names = []
        for number, version in enumerate(([], ["CREATE TABLE alembic_version (version_num TEXT)"])):
            url = new_database()
            raw_sql.run(url, "CREATE TABLE thing (id INTEGER)", *version)
            path = sqlite_path(url)
            name = str(path) if path else url.rpartition("/")[2]
            made = await adopt(name, name=f"shop{number}", stamp="base")
            names.append(made.tenant.schema_revision)

        assert names == [f"{STREAM.head}/"] * 2

    async def test_leaves_the_version_alone_without_a_directory(
        self, settings: Settings, foreign: Foreign
    ):
        raw_sql.run(foreign.url, "UPDATE alembic_version SET version_num = 'unheard-of'")
        async with open_services(
            settings.model_copy(update={"tenant_migrations": None})
        ) as services:
            made = await services.adoption.adopt(
                system_context("test"), name="shop", database=foreign.name, owner=OWNER
            )
            url = url_of(services, made.tenant)

        assert made.tenant.schema_revision == STREAM.head
        assert raw_sql.rows(url, "SELECT version_num FROM alembic_version") == [("unheard-of",)]

    @pytest.mark.slow
    @on_postgresql
    @pytest.mark.parametrize(
        "name",
        ['Shop "North"-1', "a b%20c?d#e/f@g:h", "Größe'; --", "UPPER", "x" * 63, "$1", "a\\b"],
    )
    async def test_takes_any_name(
        self, services: Services, adopt: Adopt, new_foreign: Callable[..., Foreign], name: str
    ):
        new_foreign(name)

        made = await adopt(name)

        run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
        run = await services.fleet.wait(run_id)
        (item,) = await runs.ended(services.catalog, run_id)
        async with await log_in(services, made):
            pass
        assert (run.success_count, item.database_name) == (1, name)
        await delete(services, made.tenant)
        assert not _exists(services.settings.servers["default"].address, name)

    async def test_drops_the_database_with_the_tenant(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """The original of a copy stays."""
        before = foreign.own()
        made = await adopt(foreign.name)

        await delete(services, made.tenant)

        if sqlite_path(foreign.url) is None:
            assert not _exists(services.settings.servers["default"].address, foreign.name)
        else:
            assert foreign.own() == before
            assert files(services.settings) == []
        assert states(services) == []

    @on_sqlite
    async def test_copies_what_is_still_in_the_log_of_a_file(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """The program that used it was killed, or still has it open."""
        with contextlib.closing(sqlite3.connect(foreign.name, isolation_level=None)) as open_one:
            open_one.execute("PRAGMA journal_mode = WAL")
            open_one.execute("INSERT INTO customer (name) VALUES ('in the log')")
            before = _bytes(foreign)

            made = await adopt(foreign.name)

            assert _bytes(foreign) == before
        url = url_of(services, made.tenant)
        sql = "SELECT count(*) FROM customer WHERE name = 'in the log'"
        assert raw_sql.rows(url, sql) == [(1,)]

    @on_sqlite
    async def test_leaves_no_files_beside_the_original(self, adopt: Adopt, foreign: Foreign):
        """A reader of a file in WAL mode makes two, which its owner then may not write to."""
        raw_sql.run(foreign.url, "PRAGMA journal_mode = WAL")
        before = foreign.own()

        await adopt(foreign.name)

        assert foreign.own() == before

    @on_sqlite
    async def test_makes_a_private_copy_that_serves_readers_beside_a_writer(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        made = await adopt(foreign.name)

        path = sqlite_path(url_of(services, made.tenant))
        assert path is not None
        assert path.stat().st_mode & 0o777 == 0o600
        assert raw_sql.rows(f"sqlite:///{path}", "PRAGMA journal_mode") == [("wal",)]

    async def test_succeeds_for_one_of_two_at_once(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """Of a file both get a copy."""
        ended = await asyncio.gather(
            adopt(foreign.name, name="one"),
            adopt(foreign.name, name="two"),
            return_exceptions=True,
        )

        lost = [one for one in ended if isinstance(one, BaseException)]
        if sqlite_path(foreign.url) is None:
            assert [type(one) for one in lost] == [DatabaseInUse]
        else:
            assert lost == []
        assert states(services) == ["ready"] * (2 - len(lost))

    @pytest.mark.slow
    @on_postgresql
    async def test_succeeds_for_one_of_two_catalogs(
        self, settings: Settings, foreign: Foreign, new_database: Callable[[], str]
    ):
        """The second is refused, and does not undo the work of the first."""
        other = settings.model_copy(
            update={
                "data_dir": settings.data_dir / "other",
                "catalog_url": type(settings.catalog_url)(new_database()),
            }
        )
        async with open_services(settings) as one, open_services(other) as two:
            ended = await asyncio.gather(
                *(
                    services.adoption.adopt(
                        system_context("test"), name="shop", database=foreign.name, owner=OWNER
                    )
                    for services in (one, two)
                ),
                return_exceptions=True,
            )
            lost = [type(one) for one in ended if isinstance(one, BaseException)]
            (won,) = (
                (services, made)
                for services, made in zip((one, two), ended, strict=True)
                if isinstance(made, Provisioned)
            )
            async with await log_in(*won):
                pass

        assert lost == [AlreadyTenantry]


def _bytes(foreign: Foreign) -> bytes:
    return Path(foreign.name).read_bytes()


async def delete(services: Services, tenant: Tenant) -> None:
    ctx = system_context("test")
    suspended = await services.lifecycle.update(ctx, tenant, is_active=False)
    await services.deletion.delete(ctx, suspended, name=tenant.name)
    deleted = await deleted_tenants.get(services.catalog, tenant.id)
    await services.deletion.purge(ctx, deleted, name=tenant.name)


def _exists(server_url: str, name: str) -> bool:
    with psycopg.connect(server_url) as connection:
        sql = "SELECT count(*) FROM pg_database WHERE datname = %s"
        return connection.execute(sql, (name,)).fetchall() == [(1,)]


class TestRefuse:
    @pytest.fixture(name="refused")
    async def _refused(self, services: Services, adopt: Adopt) -> AsyncIterator[Any]:
        """Checks a refusal, and that nothing of it is left."""

        async def refused(
            database: str, error: type[TenantryError], *, url: str = "", **more: Any
        ) -> str:
            before = projects.own(url) if url else None
            with pytest.raises(error) as raised:
                await adopt(database, **more)
            if url:
                assert projects.own(url) == before
            assert states(services) == []
            assert files(services.settings) == []
            assert issubclass(error, (Conflict, Invalid))
            return raised.value.message

        return refused

    async def test_what_is_not_there(self, refused: Any, tmp_path: Path):
        await refused(str(tmp_path / "nothing.db"), DatabaseMissing)

        assert not (tmp_path / "nothing.db").exists()

    @on_postgresql
    async def test_a_name_that_the_server_would_cut(
        self, refused: Any, new_foreign: Callable[..., Foreign]
    ):
        new_foreign("y" * 63)

        await refused("y" * 64, DatabaseMissing)

    @on_postgresql
    @pytest.mark.parametrize("name", ["postgres", "template0", "template1"])
    async def test_what_belongs_to_the_server(self, refused: Any, name: str):
        await refused(name, DatabaseReserved)

    async def test_an_unknown_server(self, refused: Any, foreign: Foreign):
        await refused(foreign.name, UnknownServer, server_name="nowhere")

    async def test_what_has_been_adopted(self, services: Services, adopt: Adopt, foreign: Foreign):
        made = await adopt(foreign.name)
        url = url_of(services, made.tenant)
        path = sqlite_path(url)

        with pytest.raises(AlreadyTenantry):
            await adopt(str(path) if path else foreign.name, name="again")

        assert states(services) == ["ready"]

    async def test_a_name_that_another_tenant_has(
        self, adopt: Adopt, foreign: Foreign, new_foreign: Callable[..., Foreign]
    ):
        await adopt(foreign.name)
        other = new_foreign()
        before = other.own()

        with pytest.raises(TenantNameInUse):
            await adopt(other.name, name="Shop")

        assert other.own() == before

    async def test_the_catalog(self, services: Services, refused: Any):
        url = services.settings.catalog
        path = sqlite_path(url)

        await refused(str(path) if path else url.rpartition("/")[2], AlreadyTenantry)

    async def test_names_that_begin_as_ours(self, refused: Any, foreign: Foreign):
        raw_sql.run(foreign.url, 'CREATE TABLE "tenantry_user" (id INTEGER)')

        message = await refused(foreign.name, NamesTaken, url=foreign.url)

        assert "tenantry_user" in message

    async def test_several_revisions(self, refused: Any, foreign: Foreign):
        raw_sql.run(foreign.url, "INSERT INTO alembic_version VALUES ('a1')")

        await refused(foreign.name, SeveralRevisions, url=foreign.url)

    async def test_an_unknown_revision(self, refused: Any, foreign: Foreign):
        raw_sql.run(foreign.url, "UPDATE alembic_version SET version_num = 'b7'")

        message = await refused(foreign.name, RevisionNotFound, url=foreign.url)

        assert "'b7'" in message

    async def test_when_the_directory_cannot_be_read(
        self, settings: Settings, foreign: Foreign, tmp_path: Path
    ):
        nowhere = settings.model_copy(update={"tenant_migrations": tmp_path / "nowhere"})
        async with open_services(nowhere) as services:
            with pytest.raises(BadStream):
                await services.adoption.adopt(
                    system_context("test"), name="shop", database=foreign.name, owner=OWNER
                )

            assert states(services) == []

    async def test_a_version_table_that_is_none(self, refused: Any, foreign: Foreign):
        raw_sql.run(
            foreign.url,
            "ALTER TABLE alembic_version RENAME TO other",
            "CREATE TABLE alembic_version (something INTEGER)",
        )

        await refused(foreign.name, DatabaseUnreadable, url=foreign.url)

    @on_sqlite
    async def test_a_file_that_is_no_database(self, refused: Any, tmp_path: Path):
        file = tmp_path / "text.db"
        file.write_text("this is a text, and longer than the header of a database is" * 5)

        message = await refused(str(file), DatabaseUnreadable)

        assert "not a database" in message

    @on_postgresql
    async def test_another_encoding(self, refused: Any, postgres_url: str):
        name = f"latin_{secrets.token_hex(6)}"
        raw_sql.run(
            postgres_url,
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'",
        )

        message = await refused(name, NotUtf8)

        assert "LATIN1" in message

    @on_postgresql
    async def test_a_database_without_connections(
        self, refused: Any, foreign: Foreign, postgres_url: str
    ):
        raw_sql.run(postgres_url, f'ALTER DATABASE "{foreign.name}" ALLOW_CONNECTIONS false')

        await refused(foreign.name, DatabaseUnreadable)

    @on_postgresql
    async def test_a_role_without_privileges(
        self, settings: Settings, foreign: Foreign, postgres_url: str
    ):
        """A role that does not own the database, and one that owns nothing else."""
        role = f"role_{secrets.token_hex(6)}"
        raw_sql.run(postgres_url, f"CREATE ROLE {role} LOGIN CREATEDB")
        limited = settings.model_copy(
            update={
                "tenant_server_url": type(settings.catalog_url)(
                    postgres_url.replace("postgres@", f"{role}@")
                )
            }
        )
        async with open_services(limited) as services:

            async def adopt() -> Provisioned:
                return await services.adoption.adopt(
                    system_context("test"), name="shop", database=foreign.name, owner=OWNER
                )

            with pytest.raises(NotOwner):
                await adopt()
            raw_sql.run(postgres_url, f'ALTER DATABASE "{foreign.name}" OWNER TO {role}')
            raw_sql.run(foreign.url, "ALTER SCHEMA public OWNER TO postgres")
            with pytest.raises(MayNotCreate):
                await adopt()
            raw_sql.run(foreign.url, f"GRANT CREATE, USAGE ON SCHEMA public TO {role}")
            with pytest.raises(DatabaseUnreadable) as unreadable:  # its version table is another's
                await adopt()
            raw_sql.run(foreign.url, f"ALTER TABLE alembic_version OWNER TO {role}")
            made = await adopt()

            assert "42501" in unreadable.value.message
            assert states(services) == ["ready"]
            async with await log_in(services, made):
                pass


class TestStamp:
    @pytest.fixture(name="bare")
    def _bare(self, foreign: Foreign) -> Foreign:
        """A database that the team has migrated, without the table that says so."""
        raw_sql.run(foreign.url, "DROP TABLE alembic_version")
        return foreign

    async def test_is_asked_for_when_there_are_tables_and_no_revision(
        self, services: Services, adopt: Adopt, bare: Foreign
    ):
        """The next run would apply every revision to the tables that they have made."""
        for is_empty_table in (False, True):
            if is_empty_table:
                raw_sql.run(bare.url, "CREATE TABLE alembic_version (version_num TEXT)")
            with pytest.raises(VersionMissing, match="--stamp") as caught:
                await adopt(bare.name)

            assert "no revision in alembic_version" in caught.value.message
            assert states(services) == []
            assert not any(name.startswith("tenantry_") for name in raw_sql.tables(bare.url))

    async def test_is_asked_for_without_a_directory_too(self, settings: Settings, bare: Foreign):
        """The directory may be set later."""
        alone = settings.model_copy(update={"tenant_migrations": None})
        async with open_services(alone) as services:
            with pytest.raises(VersionMissing):
                await services.adoption.adopt(
                    system_context("test"), name="shop", database=bare.name, owner=OWNER
                )

    async def test_is_not_asked_for_when_there_are_no_tables(
        self, adopt: Adopt, new_database: Callable[[], str]
    ):
        url = new_database()
        raw_sql.run(url, "CREATE TABLE alembic_version (version_num TEXT)")
        path = sqlite_path(url)

        made = await adopt(str(path) if path else url.rpartition("/")[2])

        assert made.tenant.schema_revision == f"{STREAM.head}/"

    @pytest.mark.parametrize("has_table", [False, True], ids=["no table", "an empty table"])
    async def test_is_written_and_the_next_run_goes_on_from_there(
        self, services: Services, adopt: Adopt, bare: Foreign, *, has_table: bool
    ):
        if has_table:
            raw_sql.run(bare.url, "CREATE TABLE alembic_version (version_num TEXT)")

        made = await adopt(bare.name, stamp=DONE)
        run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
        await services.fleet.wait(run_id)

        (item,) = await runs.ended(services.catalog, run_id)
        url = url_of(services, made.tenant)
        assert made.tenant.schema_revision == f"{STREAM.head}/{DONE}"
        assert item.applied == "a3_add_email,a4_fill_email"
        assert raw_sql.rows(url, "SELECT version_num FROM alembic_version") == [(HEAD,)]

    async def test_base_means_that_none_was_applied(
        self, adopt: Adopt, bare: Foreign, services: Services
    ):
        made = await adopt(bare.name, stamp="base")

        assert made.tenant.schema_revision == f"{STREAM.head}/"
        assert "alembic_version" not in raw_sql.tables(url_of(services, made.tenant))

    @pytest.mark.parametrize("stamp", ["", "a", "a9", "a2_create_orders", "head", "A2", "a2 "])
    async def test_must_be_a_revision(
        self, services: Services, adopt: Adopt, bare: Foreign, stamp: str
    ):
        with pytest.raises(BadStamp):
            await adopt(bare.name, stamp=stamp)

        assert states(services) == []
        assert "alembic_version" not in raw_sql.tables(bare.url)

    async def test_needs_a_directory(self, settings: Settings, bare: Foreign):
        alone = settings.model_copy(update={"tenant_migrations": None})
        async with open_services(alone) as services:
            with pytest.raises(BadStamp, match="TENANTRY_TENANT_MIGRATIONS"):
                await services.adoption.adopt(
                    system_context("test"), name="shop", database=bare.name, owner=OWNER, stamp=DONE
                )

    async def test_must_be_what_the_database_says(self, adopt: Adopt, foreign: Foreign):
        for stamp in (HEAD, "base"):
            with pytest.raises(StampContradicted, match=DONE):
                await adopt(foreign.name, stamp=stamp)

        made = await adopt(foreign.name, stamp=DONE)

        assert made.tenant.schema_revision == f"{STREAM.head}/{DONE}"

    @pytest.mark.parametrize("has_table", [False, True], ids=["no table", "an empty table"])
    async def test_is_taken_back_when_the_adoption_fails(
        self, services: Services, adopt: Adopt, bare: Foreign, engine: str, *, has_table: bool
    ):
        if has_table:
            raw_sql.run(bare.url, "CREATE TABLE alembic_version (version_num TEXT)")
        await asyncio.to_thread(raw_sql.run, services.settings.catalog, *REFUSE_READY[engine])

        with pytest.raises(RejectedByDatabase):
            await adopt(bare.name, stamp=DONE)

        assert projects.ours(bare.url) == []

        assert ("alembic_version" in raw_sql.tables(bare.url)) is has_table
        if has_table:
            assert raw_sql.rows(bare.url, "SELECT * FROM alembic_version") == []


class TestVersionElsewhere:
    @on_postgresql
    async def test_is_refused_in_another_schema(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """The team's role finds it by its search path, and Tenantry's role does not."""
        raw_sql.run(
            foreign.url,
            "CREATE SCHEMA shop",
            "ALTER TABLE alembic_version SET SCHEMA shop",
            "ALTER TABLE customer SET SCHEMA shop",
        )

        with pytest.raises(VersionElsewhere, match=r"shop\.alembic_version\. ") as caught:
            await adopt(foreign.name)

        assert "--stamp" in caught.value.message
        assert "search_path" in caught.value.message
        assert states(services) == []
        assert not any(name.startswith("tenantry_") for name in raw_sql.tables(foreign.url))

    async def test_is_refused_under_another_name(self, adopt: Adopt, foreign: Foreign):
        raw_sql.run(foreign.url, "ALTER TABLE alembic_version RENAME TO shop_version")

        with pytest.raises(VersionElsewhere, match="shop_version") as caught:
            await adopt(foreign.name)

        assert "TENANTRY_TENANT_VERSION_TABLE" in caught.value.message

    async def test_is_refused_beside_the_one_that_is_read(self, adopt: Adopt, foreign: Foreign):
        raw_sql.run(foreign.url, "CREATE TABLE billing_version (version_num VARCHAR(32))")

        with pytest.raises(VersionElsewhere, match="billing_version"):
            await adopt(foreign.name)

    async def test_is_adopted_by_the_stamp(self, adopt: Adopt, foreign: Foreign):
        raw_sql.run(foreign.url, "CREATE TABLE billing_version (version_num VARCHAR(32))")

        made = await adopt(foreign.name, stamp=DONE)

        assert made.tenant.schema_revision == f"{STREAM.head}/{DONE}"

    async def test_is_no_table_of_their_own_with_more_columns(self, adopt: Adopt, foreign: Foreign):
        raw_sql.run(foreign.url, "CREATE TABLE release (id INTEGER, version_num TEXT)")

        made = await adopt(foreign.name)

        assert made.tenant.schema_revision == f"{STREAM.head}/{DONE}"


class TestFail:
    async def test_leaves_all_as_it_was_when_the_last_step_fails(
        self, services: Services, adopt: Adopt, foreign: Foreign, engine: str
    ):
        await asyncio.to_thread(raw_sql.run, services.settings.catalog, *REFUSE_READY[engine])
        before = foreign.own()

        with pytest.raises(RejectedByDatabase):
            await adopt(foreign.name)

        assert foreign.own() == before
        assert projects.ours(foreign.url) == []
        assert files(services.settings) == []
        assert states(services) == []

    @on_postgresql
    async def test_adds_nothing_when_one_of_our_tables_cannot_be_added(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        raw_sql.run(foreign.url, "CREATE TYPE ix_tenantry_post_tag_post_id AS (a int)")
        before = foreign.own()

        with pytest.raises(AdoptionFailed) as failed:
            await adopt(foreign.name)

        assert "42P07" in failed.value.message
        assert foreign.own() == before
        assert projects.ours(foreign.url) == ["ix_tenantry_post_tag_post_id"]
        assert states(services) == []

    async def test_can_be_done_again(
        self, services: Services, adopt: Adopt, foreign: Foreign, engine: str
    ):
        await asyncio.to_thread(raw_sql.run, services.settings.catalog, *REFUSE_READY[engine])
        with pytest.raises(RejectedByDatabase):
            await adopt(foreign.name)
        on = "" if engine == "sqlite" else " ON tenant"
        await asyncio.to_thread(raw_sql.run, services.settings.catalog, f"DROP TRIGGER refuse{on}")

        made = await adopt(foreign.name)

        async with await log_in(services, made):
            pass

    @pytest.mark.slow
    async def test_is_undone_when_it_is_cancelled(
        self, services: Services, adopt: Adopt, new_foreign: Callable[..., Foreign]
    ):
        cancelled = 0
        for number, milliseconds in enumerate((1, 4, 8, 16, 32, 64)):
            one = new_foreign()
            before = one.own()
            task = asyncio.ensure_future(adopt(one.name, name=f"shop{number}"))
            await asyncio.sleep(milliseconds / 1000)
            task.cancel()
            try:
                await delete(services, (await task).tenant)
            except asyncio.CancelledError:
                cancelled += 1
                assert one.own() == before
                assert projects.ours(one.url) == []

        assert cancelled >= 2
        assert files(services.settings) == []
        assert states(services) == []

    @pytest.mark.slow
    @on_postgresql
    async def test_takes_its_tables_back_when_another_process_took_over(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """It was silent for too long, and the other found none of our tables yet."""
        before = foreign.own()
        with psycopg.connect(foreign.url) as holder:
            holder.execute(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
            adopting = asyncio.ensure_future(adopt(foreign.name))
            while not states(services):  # noqa: ASYNC110 - another process's row
                await asyncio.sleep(0.01)
            await asyncio.to_thread(raw_sql.run, services.settings.catalog, "DELETE FROM tenant")
            holder.rollback()
        with pytest.raises(AdoptionFailed):
            await adopting

        assert foreign.own() == before
        assert projects.ours(foreign.url) == []

    @pytest.mark.slow
    @on_postgresql
    async def test_is_undone_when_an_admin_cancels_its_job(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        before = foreign.own()
        with psycopg.connect(foreign.url) as holder:
            holder.execute(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
            adopting = asyncio.ensure_future(adopt(foreign.name))
            while not (found := (await jobs.page(services.catalog, Window(1, 9))).items):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await services.queue.cancel(system_context("ada"), found[0].id)
            await asyncio.sleep(4 * PROGRESS_SECONDS)  # it is read by then, also on a busy machine
            holder.rollback()
        with pytest.raises(JobCancelled):
            await adopting

        assert foreign.own() == before
        assert projects.ours(foreign.url) == []
        assert states(services) == []

    @on_sqlite
    async def test_notices_a_write_during_the_copy(self, foreign: Foreign, tmp_path: Path):
        """Without the lock, which it does not need while no process has the file open."""
        raw_sql.run(foreign.url, "PRAGMA journal_mode = WAL")
        source = Path(foreign.name)

        class Written(Stop):
            def check(self, *_: Any) -> None:
                raw_sql.run(foreign.url, "UPDATE customer SET balance = balance + 1")

        with pytest.raises(SourceChanged):
            copy_sqlite(source, tmp_path / "copy.db", Written())


class TestReap:
    """What is left of an adoption that died, whenever it did."""

    @pytest.mark.slow
    async def test_never_drops_a_database_that_was_being_adopted(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """Not even one that has tables of ours, if it was another adoption that made them."""
        made = await adopt(foreign.name)
        url = url_of(services, made.tenant)
        held, tables = projects.own(url), projects.ours(url)
        catalog = services.settings.catalog
        raw_sql.run(
            catalog,
            "DELETE FROM api_key",
            "UPDATE tenant SET state = 'adopting', worker_id = NULL, "
            f"id = {_uuid(catalog)}, canonical_name = 'other'",
        )

        await cleared(services)

        if sqlite_path(url) is None:
            assert projects.own(url) == held
            assert projects.ours(url) == tables
        else:
            assert files(services.settings) == []
        assert states(services) == []

    async def test_takes_out_only_what_the_adoption_added(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        before = foreign.own()
        await adopt(foreign.name)
        raw_sql.run(
            services.settings.catalog,
            "DELETE FROM api_key",
            "UPDATE tenant SET state = 'adopting', worker_id = NULL",
        )

        await cleared(services)

        assert foreign.own() == before
        assert projects.ours(foreign.url) == []
        assert files(services.settings) == []
        assert states(services) == []

    @on_postgresql
    async def test_waits_for_what_a_dead_process_has_sent(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """Its transaction may be at work on the server still."""
        await adopt(foreign.name)
        raw_sql.run(
            services.settings.catalog,
            "DELETE FROM api_key",
            "UPDATE tenant SET state = 'adopting', worker_id = NULL",
        )
        tables = projects.ours(foreign.url)
        with psycopg.connect(foreign.url) as dead:
            dead.execute(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
            reaping = asyncio.ensure_future(cleared(services))
            await asyncio.sleep(0.5)
            during = projects.ours(foreign.url)
            dead.rollback()
        await reaping

        assert during == tables
        assert projects.ours(foreign.url) == []

    async def test_takes_nothing_back_once_the_tenant_is_ready(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        """The catalog has committed, and its answer was lost on the way."""
        made = await adopt(foreign.name)
        (job,) = (await jobs.page(services.catalog, Window(1, 9))).items

        await clear(services.copying.ledger, job.id, undo=partial(undo, services.lifecycle))

        assert states(services) == ["ready"]
        async with await log_in(services, made):
            pass

    async def test_forgets_a_database_that_is_gone(
        self, services: Services, adopt: Adopt, foreign: Foreign
    ):
        made = await adopt(foreign.name)
        await services.databases.forget(made.tenant.id)
        raw_sql.run(
            services.settings.catalog,
            "DELETE FROM api_key",
            "UPDATE tenant SET state = 'adopting', worker_id = NULL",
        )
        await services.databases.server("default").drop(made.tenant.database_name)

        await cleared(services)

        assert states(services) == []


@pytest.mark.slow
class TestKill:
    async def test_leaves_it_as_it_was_or_a_tenant_that_is_ready(
        self, settings: Settings, new_foreign: Callable[..., Foreign]
    ):
        """SIGKILL at random steps of the product's code; then a start."""
        foreigns = [new_foreign() for _ in range(KILLS + 1)]
        before = [one.own() for one in foreigns]
        async with open_services(settings):
            pass  # the catalog is there
        counting = adopting.start(settings, "whole", foreigns[-1].name)
        count = int((await asyncio.to_thread(counting.communicate))[0])
        steps = [1, *(random.randint(1, count) for _ in range(KILLS - 1))]  # noqa: S311

        ended = await _kill_all(settings, foreigns, steps)

        assert ended.count(-signal.SIGKILL) >= KILLS - 3, f"{steps} of {count}"
        raw_sql.run(settings.catalog, "UPDATE worker SET seen_at_ms = 0")
        async with open_services(settings) as services:
            await cleared(services)
            for number, (one, was) in enumerate(zip(foreigns, before, strict=True)):
                name = "whole" if one is foreigns[-1] else f"shop{number}"
                await self._check(services, one, was, name)
            if settings.servers["default"].address.startswith("sqlite"):
                wanted = {f"{one.database_name}.db" for one in await every(services)}
                assert {name for name in files(settings) if name.endswith(".db")} == wanted

    async def _check(self, services: Services, one: Foreign, was: object, name: str) -> None:
        ready = [tenant for tenant in await every(services) if tenant.name == name]
        if sqlite_path(one.url) is not None or not ready:
            assert one.own() == was
            assert projects.ours(one.url) == []
        for tenant in ready:
            url = url_of(services, tenant)
            assert raw_sql.rows(url, "SELECT email FROM tenantry_user") == [(OWNER.email,)]
            assert raw_sql.rows(url, "SELECT version_num FROM alembic_version") == [(DONE,)]
            assert tenant.schema_revision == f"{STREAM.head}/{DONE}"


async def _kill_all(settings: Settings, foreigns: list[Foreign], steps: list[int]) -> list[int]:
    free = asyncio.Semaphore(KILLED_AT_ONCE)

    async def kill(number: int, step: int) -> int:
        async with free:
            process = adopting.start(settings, f"shop{number}", foreigns[number].name, step)
            await asyncio.to_thread(process.communicate)
            return process.returncode

    return await asyncio.gather(*(kill(number, step) for number, step in enumerate(steps)))


async def every(services: Services) -> list[Tenant]:
    return (await tenant_list.page(services.catalog, Window(1, 100))).items


async def cleared(services: Services) -> None:
    """Return when all leftovers are removed."""
    async with asyncio.timeout(CLEARED_SECONDS_MAX):
        while raw_sql.rows(services.settings.catalog, NOT_READY):
            await services.job_worker.reap()
            await asyncio.sleep(0.1)


def _uuid(catalog: str) -> str:
    text = new_id()
    return f"'{text}'" if sqlite_path(catalog) is None else f"'{text.hex}'"
