"""TLS to PostgreSQL, as docs/howto/use-tls-to-postgresql.md says: for the catalog and tenants."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from tenantry.db.database import Budget, Database
from tenantry.db.factory import single_connector
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.migration.guard import Guard
from tenantry.migration.live import connect_psycopg
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.acceptance.support import PROFILE, ok
from tests.conftest import make_world
from tests.integration.conftest import Rig
from tests.integration.engines import on_postgresql
from tests.integration.test_silent_server import ONE
from tests.tls_front import certificates, tls_front

pytestmark = on_postgresql

ADDRESS = "127.0.0.1"
LIVE = """
parameters = op.get_bind().connection.driver_connection.info.get_parameters()
assert parameters['sslmode'] == 'verify-full'
"""


async def ask(url: str) -> object:
    connect, _ = single_connector(url, connections_max=1, timeout_seconds=5, synchronous="NORMAL")
    database: Database[object] = Database(connect, Budget(1), 1)
    try:
        return await database.fetch_one(ONE)
    finally:
        await database.close()


class TestVerifyFull:
    @pytest.mark.slow
    async def test_serves_catalog_and_tenants(
        self, settings: Settings, postgres_url: str, tmp_path: Path
    ):
        """Requests, provisioning and migrations, which connect in ways of their own."""
        made = certificates(tmp_path / "certificates", ADDRESS)
        query = f"?sslmode=verify-full&sslrootcert={made.root}"
        name = settings.catalog.rpartition("/")[2]
        async with tls_front(postgres_url, made.server) as url:
            encrypted = settings.model_copy(
                update={
                    "catalog_url": SecretStr(f"{url.rpartition('/')[0]}/{name}{query}"),
                    "tenant_server_url": SecretStr(f"{url}{query}"),
                }
            )
            async with open_services(encrypted) as services:
                world = await make_world(services)
                async with await world.owner(world.acme) as owner:
                    ok(await owner.get(PROFILE))

    @pytest.mark.parametrize(("signed_for", "is_known"), [(ADDRESS, False), ("127.0.0.2", True)])
    async def test_refuses_another_server(
        self,
        new_database: Callable[[], str],
        tmp_path: Path,
        signed_for: str,
        is_known: bool,  # noqa: FBT001 - a parameter of the test
    ):
        """With a certificate of another authority, or of another host."""
        made = certificates(tmp_path / "certificates", signed_for)
        other = certificates(tmp_path / "other", ADDRESS)
        root = made.root if is_known else other.root
        async with tls_front(new_database(), made.server) as url:
            assert await ask(f"{url}?sslmode=require") is not None
            with pytest.raises(DatabaseUnavailable):
                await ask(f"{url}?sslmode=verify-full&sslrootcert={root}")

    async def test_holds_for_the_driver_of_live_revisions(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, tmp_path: Path
    ):
        """They run over psycopg, which gets the same parameters."""
        made = certificates(tmp_path / "certificates", ADDRESS)
        other = certificates(tmp_path / "other", ADDRESS)
        folder.add("u1_live", LIVE, head="online = True")
        async with tls_front(tenant_url, made.server) as url:
            done = await rig.migrate(f"{url}?sslmode=verify-full&sslrootcert={made.root}")
            assert done.error is None
            assert [one.revision for one in done.applied] == ["u1_live"]

            with pytest.raises(psycopg.OperationalError, match="SSL error"):
                await asyncio.to_thread(
                    connect_psycopg,
                    f"{url}?sslmode=verify-full&sslrootcert={other.root}",
                    Guard(),
                    timeout_seconds=5,
                )
