"""Health, description and errors of the service."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tenantry.settings import Settings
from tests.acceptance.support import (
    ADMIN_LOGIN,
    CHANGE_PASSWORD,
    HISTORY,
    LOGIN,
    MIGRATE_ALL,
    MODULES,
    POSTS,
    PROFILE,
    ok,
    refused,
)
from tests.conftest import World

JWKS = "/.well-known/jwks.json"
OF_THE_SEED = (
    ("post", LOGIN),
    ("put", CHANGE_PASSWORD),
    ("put", PROFILE),
    ("post", MIGRATE_ALL),
    ("get", HISTORY),
    ("post", ADMIN_LOGIN),
    ("get", POSTS),
    ("get", MODULES),
)


class TestHealth:
    async def test_needs_no_credentials(self, world: World) -> None:
        """Liveness and readiness need nothing."""
        assert ok(await world.stranger().get("/livez")) == {"status": "ok"}
        assert ok(await world.stranger().get("/readyz"))["status"] == "ok"

    async def test_readiness_names_the_release(self, world: World) -> None:
        """During a rolling upgrade, it identifies the processes that were restarted."""
        ready = ok(await world.stranger().get("/readyz"))

        assert ready == {"status": "ok", "release": version("tenantry")}

    async def test_is_not_ready_while_it_stops(self, world: World) -> None:
        """It is 503 while it drains; the process still lives."""
        await world.services.worker.stop()

        refused(await world.stranger().get("/readyz"), 503)
        ok(await world.stranger().get("/livez"))


class TestKeys:
    async def test_are_published_without_their_private_halves(self, world: World) -> None:
        """A JWK set (RFC 7517), bare."""
        answer = await world.stranger().get(JWKS)

        assert answer.status_code == 200
        [key] = answer.json()["keys"]
        assert set(key) == {"kty", "crv", "alg", "use", "kid", "x"}
        assert (key["kty"], key["crv"], key["alg"], key["use"]) == (
            "OKP",
            "Ed25519",
            "EdDSA",
            "sig",
        )


class TestDescription:
    async def test_lists_the_endpoints(self, world: World) -> None:
        """OpenAPI 3.1, with the endpoints of the first requirements."""
        answer = await world.stranger().get("/openapi.json")

        description = answer.json()
        assert description["openapi"].startswith("3.1")
        for method, path in OF_THE_SEED:
            operation = description["paths"][path][method]
            assert operation["responses"]["200"]
        assert any(path.startswith(f"{HISTORY}/{{") for path in description["paths"])
        security = description["components"]["securitySchemes"]
        assert {one.get("name") for one in security.values()} >= {"X-Api-Key", "X-Mcp-Token"}


class TestEnvelope:
    async def test_holds_for_what_is_not_there(self, world: World) -> None:
        """404 for an unknown path, 405 for an unknown method, for every caller."""
        for client in (world.stranger(), await world.admin()):
            for path in ("/", "/api", "/api/tenant", "/api/nothing", f"{LOGIN}/", "/api//tenant"):
                refused(await client.get(path), 404)
            answer = await client.get(LOGIN)
            refused(answer, 405)
            assert answer.headers["allow"] == "POST"
            refused(await client.request("TRACE", PROFILE), 405)

    async def test_names_each_request(self, world: World) -> None:
        """Every answer has its own X-Request-Id."""
        paths = ("/livez", "/nothing", POSTS, HISTORY)
        answers = [await world.stranger().get(path) for path in paths]

        assert len({answer.headers["x-request-id"] for answer in answers}) == len(paths)

    async def test_distinguishes_the_kinds_of_401(self, world: World) -> None:
        """invalid_token only where a token was sent (RFC 6750)."""
        nothing = await world.stranger().get(HISTORY)
        bad = await world.client(authorization="Bearer rubbish").get(HISTORY)
        only_key = await world.public(world.acme).get(PROFILE)

        assert nothing.headers["www-authenticate"] == "Bearer"
        assert only_key.headers["www-authenticate"] == "Bearer"
        assert bad.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        assert nothing.content == bad.content == only_key.content

    async def test_bounds_headers(self, world: World) -> None:
        """431 for headers over 16 KiB."""
        client = world.client(x_padding="x" * 17_000)

        refused(await client.get(POSTS), 431)


@pytest.mark.slow
class TestClientsThatDisconnect:
    def test_leave_nothing_open(self, settings: Settings) -> None:
        """Cancelled at any moment, also while a database is opened: everything is closed.

        A connection that only the garbage collector closes raises a ResourceWarning.
        """
        secret_key = settings.secret_key.get_secret_value()
        environment = {
            "TENANTRY_DATA_DIR": str(settings.data_dir),
            "TENANTRY_CATALOG_URL": settings.catalog_url.get_secret_value(),
            "TENANTRY_TENANT_SERVER_URL": settings.tenant_server_url.get_secret_value(),
            "TENANTRY_SECRET_KEY": secret_key,
        }

        done = subprocess.run(
            [sys.executable, "-W", "always::ResourceWarning", "-m", "tests.acceptance.disconnects"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, **environment},  # noqa: TID251 - for the program
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

        assert done.returncode == 0, done.stderr[-2_000:]
        assert done.stdout == "left: []\n"
        assert done.stderr.count("ResourceWarning") == 0
