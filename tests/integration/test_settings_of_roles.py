"""Settings of a role that change what SQL means: Tenantry does not depend on them."""

import asyncio
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tenantry.backup import cloning, creating, moving, restoring
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import tenant_list
from tenantry.catalog.tenants import Tenant
from tenantry.db.factory import single_connector
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.postgres import find_binaries
from testkit.revisions import AlembicFolder
from tests.conftest import SECRET_KEY, provision
from tests.integration.engines import on_postgresql

pytestmark = [on_postgresql, pytest.mark.slow]

FILES, SERVER = "files", "default"
ROLE = "settings_of_roles"
TEXT = r"a\b' ü € 😀"
REVISION = """
    table = op.create_table(
        "kept",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("ratio", sa.Float),
        sa.Column("data", sa.LargeBinary),
        sa.Column("day", sa.Date),
        sa.Column("instant", sa.DateTime(timezone=True)),
    )
    op.bulk_insert(table, [{"id": 1, "name": %r}])
"""
VALUES = (
    """UPDATE kept SET ratio = 0.1, data = '\\x00ff5c'::bytea, day = '2024-02-03',
    instant = '2024-02-03 12:00:00.000001+00'""",
)
READ = """SELECT encode(convert_to(name, 'UTF8'), 'hex'), ratio = 0.1, encode(data, 'hex'),
    day = '2024-02-03', instant = '2024-02-03 12:00:00.000001+00' FROM kept"""
KEPT = [(TEXT.encode().hex(), True, "00ff5c", True, True)]
WORST = {
    "client_encoding": {"client_encoding": "LATIN1"},
    "dates": {
        "datestyle": "SQL, DMY",
        "intervalstyle": "sql_standard",
        "timezone": "Asia/Kathmandu",
    },
    "texts": {
        "array_nulls": "off",
        "bytea_output": "escape",
        "extra_float_digits": "-15",
        "xmloption": "document",
    },
    "isolation": {
        "default_transaction_deferrable": "on",
        "default_transaction_isolation": "serializable",
    },
    "quote_all_identifiers": {"quote_all_identifiers": "on"},
    "session_replication_role": {"session_replication_role": "replica"},
    "standard_conforming_strings": {"standard_conforming_strings": "off"},
    "others": {
        "client_min_messages": "debug5",
        "lock_timeout": "1ms",
        "row_security": "off",
        "search_path": '"$user", public, pg_catalog',
        "transform_null_equals": "on",
    },
}


@pytest.fixture(autouse=True, scope="module")
def _role(server_url: str) -> Iterator[None]:
    """A role that may set everything. It ends after the databases of the module, which it owns."""
    raw_sql.run(server_url, f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
    yield
    raw_sql.run(server_url, f"DROP ROLE {ROLE}")


@pytest.fixture(name="settings")
def _settings(postgres_url: str, new_database: Callable[[], str], tmp_path: Path) -> Settings:
    def of_role(url: str) -> str:
        return url.replace("postgres@", f"{ROLE}@", 1)

    folder = AlembicFolder(tmp_path / "migrations")
    folder.add("u1_create_kept", REVISION % TEXT)
    return Settings(
        data_dir=tmp_path / "data",
        host="tenantry.test",
        catalog_url=of_role(new_database()),
        tenant_servers={
            SERVER: {"url": of_role(postgres_url)},
            FILES: {"url": f"sqlite:///{tmp_path / 'files'}", "weight": 0},
        },
        secret_key=SECRET_KEY,
        tenant_migrations=folder.path,
        pg_tools=find_binaries(),
    )


def url_of(services: Services, tenant: Tenant) -> str:
    url = services.databases.server(tenant.server_name).url(tenant.database_name)
    return url.replace(f"{ROLE}@", "postgres@", 1)


def set_for_role(server_url: str, values: Mapping[str, str]) -> None:
    raw_sql.run(
        server_url,
        f"ALTER ROLE {ROLE} RESET ALL",
        *(
            f"ALTER ROLE {ROLE} SET {name} = {value if ',' in value else repr(value)}"
            for name, value in values.items()
        ),
    )


@pytest.mark.parametrize("name", WORST)
async def test_no_setting_of_a_role_changes_what_tenantry_does(
    name: str,
    settings: Settings,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    set_for_role(postgres_url, WORST[name])
    if name == "client_encoding":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with open_services(settings, works=False) as services:
        ctx, copying = system_context("test"), services.copying
        acme = (await provision(services, "acme", full_name=TEXT)).tenant
        assert acme.server_name == SERVER
        listed = await tenant_list.page(services.catalog, Window(1, 9))
        assert [one.name for one in listed.items] == ["acme"]
        raw_sql.run(url_of(services, acme), *VALUES)
        assert raw_sql.rows(url_of(services, acme), READ) == KEPT

        target = FolderTarget(tmp_path / "archives")
        job = await creating.back_up(ctx, copying, acme, target, progress=Progress())
        archive = await asyncio.to_thread(Path(str(job.archive)).read_bytes)
        reader = ArchiveReader(io.BytesIO(archive), copying.keys)
        restored = await restoring.restore(
            ctx, copying, reader, name="restored", server_name=None, progress=Progress()
        )
        cloned = await cloning.clone(ctx, copying, acme, name="cloned", progress=Progress())
        near = await moving.move(
            ctx, copying, cloned.tenant, server_name=FILES, progress=Progress()
        )
        moved = await moving.move(
            ctx, copying, near.tenant, server_name=SERVER, progress=Progress()
        )
        assert (restored.behind, cloned.behind) == (None, None)
        for one in (restored.tenant, moved.tenant):
            assert raw_sql.rows(url_of(services, one), READ) == KEPT
        listed = await tenant_list.page(services.catalog, Window(1, 9))
        assert {one.name for one in listed.items} == {"acme", "restored", "cloned"}


async def test_a_role_that_may_not_let_triggers_run_is_refused(postgres_url: str, engine: str):
    """Only a superuser may set this: the counts of tenants would be wrong without a word."""
    assert engine == "postgresql"
    raw_sql.run(postgres_url, f"ALTER ROLE {ROLE} NOSUPERUSER")
    set_for_role(postgres_url, {"session_replication_role": "replica"})
    url = postgres_url.replace("postgres@", f"{ROLE}@", 1)
    connect, _ = single_connector(url, connections_max=1, timeout_seconds=5, synchronous="full")
    try:
        with pytest.raises(DatabaseUnavailable) as raised:
            await connect()
    finally:
        raw_sql.run(postgres_url, f"ALTER ROLE {ROLE} SUPERUSER")

    assert "session_replication_role" in str(raised.value.__cause__)
