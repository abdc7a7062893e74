"""What the template of new tenants holds, and what its copies may not share."""

from collections.abc import Iterator

import pytest

from tenantry.services import open_services, system_context
from tenantry.settings import Settings
from tests.integration import looking
from tests.integration.engines import on_sqlite
from tests.integration.gates import tenants, url_of
from tests.integration.revisions import AlembicFolder
from tests.postgres import Server, own_server

INVOICES = """
op.execute("CREATE TABLE invoice (id serial PRIMARY KEY, number integer "
           "GENERATED ALWAYS AS IDENTITY, text text)")
op.execute("INSERT INTO invoice (text) VALUES ('one'), ('two')")
"""
ADD = "INSERT INTO invoice (text) VALUES ('more')"
DURABLE = "ALTER SYSTEM SET synchronous_commit = on"


@on_sqlite  # the catalog
class TestSequences:
    @pytest.fixture(name="server")
    def _server(self) -> Iterator[Server]:
        """A server that loses nothing that it has acknowledged."""
        with own_server() as server:
            looking.run(server.url, DURABLE, "SELECT pg_reload_conf()")
            yield server

    async def test_give_no_value_twice_after_a_crash(
        self,
        server: Server,
        folder: AlembicFolder,
        settings: Settings,
    ):
        folder.add("u1_invoices", INVOICES)
        changes = {"tenant_server_url": server.url, "tenant_migrations": folder.path}
        settings = Settings(**{**settings.model_dump(), **changes})
        async with open_services(settings) as services:
            made = await tenants(services, 3)
            urls = [url_of(services, tenant) for tenant in made]
            for url in urls:
                looking.run(url, *[ADD] * 5)
                looking.run(url, "SELECT nextval('tenantry_migration_log_position_seq')")

            server.stop("immediate")
            server.start()
            for url in urls:
                looking.run(url, *[ADD] * 5)
            folder.add("u2_more", f'op.execute("{ADD}")')
            run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
            run = await services.fleet.wait(run_id)

            assert (run.success_count, run.failed_count) == (3, 0)
        for url in urls:
            numbers = looking.rows(url, "SELECT id, number FROM invoice ORDER BY id")
            assert len(numbers) == len({one for one, _ in numbers}) == 13
            assert len({number for _, number in numbers}) == 13
