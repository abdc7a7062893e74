"""Versions of collations on PostgreSQL, after an upgrade of the libraries that sort text."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.backup.collations import CATALOG, CollationReport, refresh_all
from tenantry.catalog import audit
from tenantry.catalog.tenants import Tenant
from tenantry.cli.doctor.postgres import check_collations
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.postgres import find_binaries
from tests.conftest import SECRET_KEY, World, provision
from tests.integration.engines import on_postgresql

pytestmark = on_postgresql

TABLE = 'CREATE TABLE note (body text COLLATE "pg_c_utf8")'
# The servers of the tests have no ICU. The provider of PostgreSQL itself has versions, too.
OUTDATE_DATABASE = """UPDATE pg_database SET datlocprovider = 'b', datlocale = 'C.UTF-8',
    datcollversion = '0' WHERE datname = '{}'"""
OUTDATE_COLLATION = "UPDATE pg_collation SET collversion = '0' WHERE collname = 'pg_c_utf8'"
VERSIONS = """SELECT datcollversion, (SELECT collversion FROM pg_collation
    WHERE collname = 'pg_c_utf8') FROM pg_database WHERE datname = current_database()"""
FILES_OF_INDEXES = """SELECT pg_class.oid::regclass::text, relfilenode FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind = 'i' AND nspname = 'public' ORDER BY 1"""
ROLE = "owner_of_collated"


@pytest.fixture(autouse=True, scope="module")
def _role(server_url: str) -> Iterator[None]:
    """An ordinary role. It ends after the databases of the module, which it owns."""
    raw_sql.run(server_url, f"CREATE ROLE {ROLE} LOGIN CREATEDB")
    yield
    raw_sql.run(server_url, f"DROP ROLE {ROLE}")


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


def skip_without_versions(url: str) -> None:
    if int(raw_sql.rows(url, "SHOW server_version_num")[0][0]) < 170_000:
        pytest.skip("the provider of PostgreSQL itself exists since version 17")


async def refreshed(services: Services) -> CollationReport:
    report = CollationReport()
    await refresh_all(system_context("test"), services.copying, report)
    return report


async def test_a_template_that_is_outdated_is_created_again(world: World, postgres_url: str):
    await world.provision("umbrella")  # a copied world has no template before
    of_templates = "WHERE datname LIKE 'tenantry_template_%'"  # other tests have left some
    raw_sql.run(postgres_url, f"UPDATE pg_database SET datcollversion = '0' {of_templates}")
    outdated = f"SELECT count(*) FROM pg_database {of_templates} AND datcollversion = '0'"
    [(before,)] = raw_sql.rows(postgres_url, outdated)

    made = await world.provision("initech")

    assert made.tenant.state == "ready"
    assert raw_sql.rows(postgres_url, outdated) == [(before - 1,)]


async def test_one_command_brings_every_database_up_to_date(
    world: World, settings: Settings, postgres_url: str
):
    skip_without_versions(postgres_url)
    services, acme = world.services, world.acme.tenant
    acme_url = url_of(services, acme)
    catalog = settings.catalog.rpartition("/")[2]
    for name in (acme.database_name, catalog):
        raw_sql.run(postgres_url, OUTDATE_DATABASE.format(name))
    raw_sql.run(acme_url, TABLE, "CREATE INDEX note_body ON note (body)", OUTDATE_COLLATION)
    before = dict(raw_sql.rows(acme_url, FILES_OF_INDEXES))
    findings = await check_collations(settings, services.catalog)
    assert [(one.check, one.detail) for one in findings] == [
        ("collations of catalog", f"1 databases are outdated: {catalog}."),
        ("collations of tenant server default", f"1 databases are outdated: {acme.database_name}."),
    ]

    report = await refreshed(services)

    assert (report.checked, report.refreshed, report.failed) == (3, 2, [])
    after = dict(raw_sql.rows(acme_url, FILES_OF_INDEXES))
    assert before["note_body"] != after["note_body"]
    assert raw_sql.rows(acme_url, VERSIONS) == [("1", "1")]
    assert await check_collations(settings, services.catalog) == []
    entries = (await audit.LOG.page(services.catalog, Window(1, 2))).items
    assert {one.action for one in entries} == {"collation.refresh"}
    assert {one.target for one in entries} == {str(acme.id), "catalog"}
    again = await refreshed(services)
    assert (again.checked, again.refreshed, again.indexes) == (3, 0, 0)


async def test_an_outdated_collation_of_a_column_rebuilds_its_indexes_alone(
    world: World, postgres_url: str
):
    skip_without_versions(postgres_url)
    url = url_of(world.services, world.acme.tenant)
    raw_sql.run(url, TABLE, "CREATE INDEX note_body ON note (body)", OUTDATE_COLLATION)
    before = dict(raw_sql.rows(url, FILES_OF_INDEXES))

    report = await refreshed(world.services)

    assert (report.refreshed, report.indexes) == (1, 1)
    after = dict(raw_sql.rows(url, FILES_OF_INDEXES))
    assert {name for name in after if after[name] != before[name]} == {"note_body"}


async def test_a_database_that_cannot_be_reached_does_not_stop_the_others(
    world: World, postgres_url: str
):
    skip_without_versions(postgres_url)
    services, acme, globex = world.services, world.acme.tenant, world.globex.tenant
    raw_sql.run(postgres_url, OUTDATE_DATABASE.format(globex.database_name))
    await services.databases.server("default").drop(acme.database_name)

    report = await refreshed(services)

    assert (report.checked, report.refreshed, report.failed_count) == (3, 1, 1)
    assert report.failed[0][0] == acme.name
    assert CATALOG not in [name for name, _ in report.failed]


async def test_a_version_that_only_a_superuser_can_record_is_named(
    engine: str, postgres_url: str, tmp_path: Path
):
    assert engine == "postgresql"
    skip_without_versions(postgres_url)
    settings = Settings(
        data_dir=tmp_path / "data",
        tenant_server_url=postgres_url.replace("postgres@", f"{ROLE}@", 1),
        secret_key=SECRET_KEY,
        pg_tools=find_binaries(),
    )
    async with open_services(settings, works=False) as services:
        url = url_of(services, (await provision(services, "acme")).tenant)
        raw_sql.run(url, TABLE, "CREATE INDEX note_body ON note (body)")
        raw_sql.run(url.replace(f"{ROLE}@", "postgres@", 1), OUTDATE_COLLATION)

        report = await refreshed(services)

        assert report.indexes == 1
        assert "a superuser can record the version of pg_catalog.pg_c_utf8" in report.failed[0][1]
