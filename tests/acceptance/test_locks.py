"""Requests that meet the locks of somebody else, such as a migration."""

import asyncio

import psycopg

from tests.conftest import World
from tests.integration.engines import on_postgresql

POSTS = "/api/tenant/blog/posts"
HELD_SECONDS = 0.3


@on_postgresql
async def test_a_request_survives_a_deadlock(world: World):
    """It holds a lock that somebody waits for who holds the next one: the server ends it."""
    tenant = world.acme.tenant
    url = world.services.databases.server(tenant.server_name).url(tenant.database_name)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("LOCK TABLE tenantry_post IN ACCESS EXCLUSIVE MODE")
        client = await world.owner(world.acme)
        asking = asyncio.create_task(
            client.post(POSTS, json={"title": "Nevertheless", "content": "It rained."})
        )
        await asyncio.sleep(HELD_SECONDS)  # it waits by now
        # The server asks who is to blame a second after somebody began to wait: the request.
        await other.execute("LOCK TABLE tenantry_blog_state IN ACCESS EXCLUSIVE MODE")
        await other.commit()
        answer = await asking

    assert answer.status_code == 201, answer.text
    listed = (await client.get(POSTS)).json()["data"]
    assert [one["title"] for one in listed["items"]].count("Nevertheless") == 1
