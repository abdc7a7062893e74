"""GET /api/tenant/modules."""

from tests.acceptance.shapes import MODULE, list_of, must_be
from tests.acceptance.support import (
    LOGIN,
    MODULES,
    OWN_TOKENS,
    POSTS,
    must_be_for_tenants,
    ok,
    patch_tenant,
    refused,
    session,
)
from tests.conftest import PASSWORD, World


def keys_of(data: dict[str, list[dict[str, str]]]) -> list[str]:
    return [module["key"] for module in data["items"]]


class TestModules:
    async def test_returns_the_active_ones(self, world: World) -> None:
        """All of a new tenant's, as key, name and description."""
        data = ok(await (await session(world, world.acme)).get(MODULES))

        must_be(data, {"items": list_of(MODULE)})
        assert sorted(keys_of(data)) == ["blog", "mcp"]

    async def test_are_not_part_of_the_login(self, world: World) -> None:
        """A login returns a token only; this endpoint returns the modules."""
        body = {"email": world.acme.owner.email, "password": PASSWORD}

        answer = await world.public(world.acme).post(LOGIN, json=body)

        assert set(ok(answer)) == {"token", "expiresAt"}

    async def test_follow_a_change_at_once(self, world: World) -> None:
        """A module that is switched off is gone, and closed, at the very next request."""
        owner = await session(world, world.acme)
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))
        for client in (owner, token):
            ok(await client.get(MODULES))

        await patch_tenant(world, world.acme, modules=["mcp"])
        assert keys_of(ok(await token.get(MODULES))) == ["mcp"]
        refused(await token.get(POSTS), 403)
        refused(await world.public(world.acme).get(POSTS), 403)
        ok(await world.public(world.globex).get(POSTS))

        await patch_tenant(world, world.acme, modules=["blog"])
        assert keys_of(ok(await owner.get(MODULES))) == ["blog"]
        ok(await world.public(world.acme).get(POSTS))
        refused(await token.get(MODULES), 403)
        refused(await token.get(POSTS), 403)
        refused(await owner.get(OWN_TOKENS), 403)

        await patch_tenant(world, world.acme, modules=[])
        assert ok(await owner.get(MODULES)) == {"items": []}
        assert sorted(keys_of(ok(await (await session(world, world.globex)).get(MODULES)))) == [
            "blog",
            "mcp",
        ]

    async def test_are_for_the_tenant(self, world: World) -> None:
        """The table of refusals; an McpToken needs the scope, and no user."""
        await must_be_for_tenants(world, lambda client: client.get(MODULES))

        unbound = await world.mcp_token(world.acme, "modules:read", bound=False)
        ok(await world.client(x_mcp_token=unbound).get(MODULES))
        other = await world.mcp_token(world.acme, "content:read", "profile:read")
        refused(await world.client(x_mcp_token=other).get(MODULES), 403)
