"""A disk that content has filled to the mark, and a tenant at its size limit."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from psycopg.sql import SQL, Identifier
from pydantic import SecretStr

from tenantry.backup import creating
from tenantry.backup.creating import DiskNearlyFull
from tenantry.backup.targets import FolderTarget
from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant.storage import MEASURED_SECONDS
from tenantry.work.progress import Progress
from testkit.postgres import connected
from tests.acceptance.support import (
    OWN_POSTS,
    PROFILE,
    TENANTS,
    done,
    log_in,
    ok,
    refused,
    session,
)
from tests.conftest import HOST, PASSWORD, World, make_world

DISK = "64m"
MARK = "20MB"
LIMIT_BYTES = 16 * 10**6
POSTS_MAX = 100
ADMIN_LOGIN = "/api/admin/auth/login"
MIGRATE_ALL = f"{TENANTS}/migrate-all"
NEW_PASSWORD = "another quite long passphrase"

pytestmark = pytest.mark.slow


@pytest.fixture(name="disk")
def _disk() -> Iterator[Path]:
    """A small file system of its own, which also the user of PostgreSQL reaches."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    disk = Path(tempfile.mkdtemp(prefix="tenantry-disk-"))
    disk.chmod(0o755)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow to mount a small file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)
    disk.rmdir()


def post() -> dict[str, str]:
    # Random: a file system, or PostgreSQL, could compress it.
    return {"title": f"Post {uuid4()}", "content": os.urandom(400_000).hex()}


async def fill(client: httpx.AsyncClient) -> httpx.Response:
    """Create posts until one is refused; return that response."""
    for _ in range(POSTS_MAX):
        answer = await client.post(OWN_POSTS, json=post())
        if answer.status_code != 201:
            return answer
    return pytest.fail("no post was refused")


async def others_work(world: World, owner: httpx.AsyncClient) -> None:
    """Check that everything works but writing content: of users, and of admins."""
    other = await session(world, world.acme)
    body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    done(await owner.put("/api/tenant/auth/change-password", json=body))
    refused(await other.get(PROFILE), 401)
    again = ok(await log_in(world, world.acme, NEW_PASSWORD))["token"]
    key = world.acme.key.secret
    client = world.client(authorization=f"Bearer {again}", x_api_key=key)
    done(await client.post("/api/tenant/auth/logout", json={}))

    body = {"email": world.admin_account.email, "password": PASSWORD}
    token = ok(await world.stranger().post(ADMIN_LOGIN, json=body))["token"]
    admin = world.client(authorization=f"Bearer {token}")
    run = ok(await admin.post(MIGRATE_ALL, json={}))
    assert (run["total"], run["failed"]) == (2, 0)
    globex = f"{TENANTS}/{world.globex.tenant.id}"
    ok(await admin.patch(globex, json={"isActive": False}))
    done(await admin.delete(globex, params={"name": "globex"}))


class TestMark:
    async def test_keeps_space_for_everything_but_content(self, disk: Path):
        """Everything is on the one disk: the catalog, the tenants, and the archives."""
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(12 * 10**6))
        settings = Settings(data_dir=disk / "data", host=HOST, free_space_mark=MARK)
        async with open_services(settings) as services:
            world = await make_world(services)
            owner = await session(world, world.acme)
            token = await world.mcp_token(world.acme)

            answer = await fill(owner)

            refused(answer, 507)
            assert answer.headers["x-error-code"] == "storage_full"
            assert int(answer.headers["retry-after"]) >= 1
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            assert 16 * 10**6 < free < 20 * 10**6
            profile = {"fullName": "More", "email": world.acme.owner.email}
            refused(await owner.put(PROFILE, json=profile), 507)
            said = await call(world, token, "create_post", post())
            assert said["isError"]
            assert "full" in said["content"][0]["text"]
            first = ok(await owner.get(OWN_POSTS))["items"][0]["id"]
            refused(await owner.post(f"{OWN_POSTS}/{first}/publish"), 507)
            done(await owner.delete(f"{OWN_POSTS}/{first}"))
            ctx, archives = system_context("test"), FolderTarget(disk / "backups")
            with pytest.raises(DiskNearlyFull):
                await creating.back_up(
                    ctx, services.copying, world.acme.tenant, archives, progress=Progress()
                )
            await creating.back_up(
                ctx, services.copying, world.globex.tenant, archives, progress=Progress()
            )
            await others_work(world, owner)

            ballast.unlink()
            await asyncio.sleep(MEASURED_SECONDS)

            again = ok(await log_in(world, world.acme, NEW_PASSWORD))["token"]
            key = world.acme.key.secret
            client = world.client(authorization=f"Bearer {again}", x_api_key=key)
            ok(await client.post(OWN_POSTS, json=post()), 201)

    async def test_is_not_needed_for_a_clear_refusal(self, disk: Path, tmp_path: Path):
        """Without a mark, SQLite finds the disk full; nothing is changed."""
        (disk / "ballast").write_bytes(bytes(32 * 10**6))
        settings = Settings(
            data_dir=tmp_path / "data",
            host=HOST,
            free_space_mark="0",
            tenant_server_url=SecretStr(f"sqlite:///{disk / 'tenants'}"),
        )
        await check_a_full_disk(settings)

    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_is_unknown_of_postgresql_which_refuses_clearly(
        self, disk: Path, postgres_url: str, settings: Settings
    ):
        """The database of one tenant is in a tablespace on the small disk."""
        (disk / "ballast").write_bytes(bytes(32 * 10**6))

        async def prepare(world: World) -> None:
            name = world.acme.tenant.database_name
            await world.services.databases.forget(world.acme.tenant.id)
            with connected(postgres_url) as connection:
                folder = disk / "tablespace"
                folder.mkdir()
                found = connection.execute("SHOW data_directory").fetchone()
                assert found is not None
                owner = os.stat(found[0])  # noqa: PTH116
                for one in (disk, folder):
                    os.chown(one, owner.st_uid, owner.st_gid)
                connection.execute(SQL("CREATE TABLESPACE small LOCATION {}").format(str(folder)))
                connection.execute(
                    SQL("ALTER DATABASE {} SET TABLESPACE small").format(Identifier(name))
                )

        try:
            await check_a_full_disk(settings, prepare)
        finally:
            with connected(postgres_url) as connection:
                found = connection.execute(
                    "SELECT datname FROM pg_database JOIN pg_tablespace t ON t.oid = dattablespace "
                    "WHERE spcname = 'small'"
                ).fetchall()
                for (name,) in found:
                    connection.execute(
                        SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name))
                    )
                connection.execute("DROP TABLESPACE IF EXISTS small")


async def check_a_full_disk(
    settings: Settings, prepare: Callable[[World], Awaitable[None]] | None = None
) -> None:
    async with open_services(settings) as services:
        world = await make_world(services)
        if prepare is not None:
            await prepare(world)
        owner = await session(world, world.acme)

        answer = await fill(owner)

        refused(answer, 507)
        assert answer.headers["x-error-code"] == "storage_full"
        kept = ok(await owner.get(OWN_POSTS))["totalCount"]
        refused(await owner.post(OWN_POSTS, json=post()), 507)
        assert ok(await owner.get(OWN_POSTS))["totalCount"] == kept


class TestSizeLimit:
    async def test_keeps_a_tenant_from_filling_the_disk(self, settings: Settings):
        limited = settings.model_copy(update={"tenant_size_max": LIMIT_BYTES})
        async with open_services(limited) as services:
            world = await make_world(services)
            owner, other = await session(world, world.acme), await session(world, world.globex)
            token = await world.mcp_token(world.acme)

            answer = await fill(owner)

            message = refused(answer, 507)
            assert answer.headers["x-error-code"] == "tenant_full"
            assert "16 MB" in message
            said = await call(world, token, "create_post", post())
            assert said["content"][0]["text"] == message
            ok(await other.post(OWN_POSTS, json=post()), 201)
            overview = f"{TENANTS}/{world.acme.tenant.id}/overview"
            async with await world.admin() as admin:
                contents = ok(await admin.get(overview))["contents"]
                assert contents["sizeBytesMax"] == LIMIT_BYTES
                assert LIMIT_BYTES <= contents["sizeBytes"] < LIMIT_BYTES + 4 * 10**6
                path = f"{TENANTS}/{world.acme.tenant.id}"
                ok(await admin.patch(path, json={"sizeBytesMax": 2 * LIMIT_BYTES}))
                ok(await owner.post(OWN_POSTS, json=post()), 201)
                ok(await admin.patch(path, json={"sizeBytesMax": 0}))
                refused(await admin.patch(path, json={"sizeBytesMax": 1}), 400)
            refused(await owner.post(OWN_POSTS, json=post()), 507)
            await others_work(world, owner)

    async def test_has_room_as_soon_as_posts_are_deleted(self, tmp_path: Path):
        """On SQLite. On PostgreSQL the size of a database stays until its tables are rewritten."""
        settings = Settings(data_dir=tmp_path / "data", host=HOST, tenant_size_max=LIMIT_BYTES)
        async with open_services(settings) as services:
            world = await make_world(services)
            owner = await session(world, world.acme)
            refused(await fill(owner), 507)
            for one in ok(await owner.get(OWN_POSTS))["items"]:
                done(await owner.delete(f"{OWN_POSTS}/{one['id']}"))

            ok(await owner.post(OWN_POSTS, json=post()), 201)


async def call(world: World, token: str, tool: str, arguments: dict[str, str]) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"accept": "application/json", "mcp-protocol-version": "2025-06-18"}
    async with world.client(x_mcp_token=token) as assistant:
        answer = await assistant.post("/mcp", json=message, headers=headers)
    result: dict[str, object] = answer.json()["result"]
    return result
