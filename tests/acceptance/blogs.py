"""A blog as its tenant's people, tokens and visitors reach it, over a socket."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tenantry.fleet.lifecycle import Provisioned
from tests.acceptance.sockets import Served, served
from tests.acceptance.support import OWN_POSTS, POSTS, done, ok
from tests.conftest import World


@dataclass(frozen=True)
class Blog:
    """The blog of acme, with the one post that the world begins with."""

    world: World
    server: Served
    stack: AsyncExitStack
    owner: httpx.AsyncClient
    public: httpx.AsyncClient

    async def client(self, **headers: str) -> httpx.AsyncClient:
        return await self.stack.enter_async_context(self.server.client(**headers))

    async def token(self, *scopes: str, bound: bool = True) -> httpx.AsyncClient:
        """Return a client with an McpToken."""
        token = await self.world.mcp_token(self.world.acme, *scopes, bound=bound)
        return await self.client(x_mcp_token=token)

    async def owner_of(self, of: Provisioned) -> httpx.AsyncClient:
        bearer = f"Bearer {await self.world.token(of)}"
        return await self.client(authorization=bearer, x_api_key=of.key.secret)

    async def write(self, title: str, content: str = "Some text.", **others: object) -> Any:
        """Return a new draft of the owner's."""
        body = {"title": title, "content": content, **others}
        return ok(await self.owner.post(OWN_POSTS, json=body), 201)

    async def publish(self, title: str, content: str = "Some text.", **others: object) -> Any:
        """Return a new published post."""
        draft = await self.write(title, content, **others)
        return ok(await self.owner.post(f"{OWN_POSTS}/{draft['id']}/publish"))

    async def change(self, post: Any, **others: object) -> Any:
        """Return a post after a change of some members."""
        body = {"title": post["title"], "content": post["content"], **others}
        return ok(await self.owner.put(f"{OWN_POSTS}/{post['id']}", json=body))

    async def delete(self, post: Any) -> str:
        return done(await self.owner.delete(f"{OWN_POSTS}/{post['id']}"))

    async def titles(self, **query: object) -> list[str]:
        """Return the titles that the owner finds, all of which must be counted."""
        return _titles(ok(await self.owner.get(OWN_POSTS, params={"pageSize": 100, **query})))

    async def public_titles(self, **query: object) -> list[str]:
        """Return the public titles, all of which must be counted."""
        return _titles(ok(await self.public.get(POSTS, params={"pageSize": 100, **query})))


@asynccontextmanager
async def blog_of(world: World) -> AsyncIterator[Blog]:
    """Yield the blog of acme."""
    key = world.acme.key.secret
    bearer = f"Bearer {await world.token(world.acme)}"
    async with served(world.app) as server, AsyncExitStack() as stack:
        owner = await stack.enter_async_context(server.client(authorization=bearer, x_api_key=key))
        public = await stack.enter_async_context(server.client(x_api_key=key))
        yield Blog(world, server, stack, owner, public)


def _titles(page: Any) -> list[str]:
    titles = [post["title"] for post in page["items"]]
    assert page["totalCount"] == len(titles)
    return titles
