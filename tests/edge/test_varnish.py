"""A real shared cache in front, with its default configuration: no client gets another's data."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from testkit.programs import free_port
from tests.acceptance.sockets import served
from tests.acceptance.support import ADMIN_LOGIN, HISTORY, MODULES, POSTS, PROFILE
from tests.conftest import PASSWORD, World

START_SECONDS_MAX = 60.0
# Where Debian puts programs of administrators.
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
OWN_POSTS = "/api/tenant/blog/posts"


@pytest.fixture(name="cache")
async def _cache(world: World, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of Varnish in front of the service."""
    program = shutil.which("varnishd", path=PATH)
    assert program, "Needs Varnish: apt-get install varnish"
    port = free_port()
    async with served(world.app) as at:
        process = await asyncio.create_subprocess_exec(
            program,
            *("-F", "-a", f"127.0.0.1:{port}", "-b", f"127.0.0.1:{at.port}"),
            *("-n", str(tmp_path / "varnish"), "-s", "default,16m"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await _answering(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _answering(port: int) -> None:
    async with asyncio.timeout(START_SECONDS_MAX):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)


def client(cache: str, **headers: str) -> httpx.AsyncClient:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.AsyncClient(base_url=cache, headers=named, timeout=60)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestVarnish:
    async def test_is_there(self, cache: str) -> None:
        """It does cache: it serves the same page of the console."""
        async with client(cache) as stranger:
            answers = [await stranger.get("/console") for _ in range(2)]

        assert all("varnish" in one.headers["via"].lower() for one in answers)

    @pytest.mark.parametrize("path", [PROFILE, MODULES, OWN_POSTS, POSTS, HISTORY])
    async def test_serves_an_answer_to_its_caller_alone(
        self, world: World, cache: str, path: str
    ) -> None:
        """After Acme, Globex gets its own data, and a client without credentials is refused."""
        acme = await world.mcp_token(world.acme)
        globex = await world.mcp_token(world.globex)
        key_of_acme, key_of_globex = world.acme.key.secret, world.globex.key.secret
        asked: list[dict[str, str]] = [
            {"x_mcp_token": acme},
            {"x_mcp_token": globex},
            {"x_api_key": key_of_acme},
            {"x_api_key": key_of_globex},
            {"authorization": f"Bearer {await world.admin_token()}"},
            {"x_api_key": key_of_acme, "authorization": f"Bearer {await world.token(world.acme)}"},
            {},
        ]
        direct = [await _answer(world.client(**headers), path) for headers in asked]

        for _ in range(2):
            through = [await _answer(client(cache, **headers), path) for headers in asked]

            assert through == direct

    async def test_does_not_serve_a_cached_refusal_to_an_authorized_client(
        self, world: World, cache: str
    ) -> None:
        """A 401, 403 or 404 is not reused for another client, nor for the same client later."""
        acme = await world.mcp_token(world.acme)
        for path, headers in (
            (PROFILE, {"x_mcp_token": acme}),
            (f"{POSTS}/hello-from-acme", {"x_api_key": world.acme.key.secret}),
        ):
            async with client(cache) as stranger:
                assert (await stranger.get(path)).status_code == 401
            async with client(cache, x_api_key=world.globex.key.secret) as other:
                assert (await other.get(path)).status_code in {401, 404}
            async with client(cache, **headers) as own:
                assert (await own.get(path)).status_code == 200

    async def test_keeps_no_token(self, world: World, cache: str) -> None:
        """Two logins get two tokens."""
        body = {"email": world.admin_account.email, "password": PASSWORD}
        async with client(cache) as stranger:
            tokens = {
                (await stranger.post(ADMIN_LOGIN, json=body)).json()["data"]["token"]
                for _ in range(2)
            }

        assert len(tokens) == 2

    async def test_sees_what_has_changed(self, world: World, cache: str) -> None:
        """A readiness check fails as soon as the service stops."""
        async with client(cache) as stranger:
            assert (await stranger.get("/readyz")).status_code == 200
            await world.services.worker.stop()

            assert (await stranger.get("/readyz")).status_code == 503


async def _answer(asking: httpx.AsyncClient, path: str) -> tuple[int, bytes]:
    async with asking:
        answer = await asking.get(path)
    return answer.status_code, answer.content
