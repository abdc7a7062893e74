"""Requests that wait for locks of other clients, such as a migration."""

import asyncio
from collections.abc import Awaitable

import httpx
import psycopg
import pytest

from tenantry.db.sessions import LOST_MAX
from testkit.raw_sql import Raw
from tests.acceptance.assistants import answer_of, assistant, call, data_of, message, post
from tests.acceptance.support import (
    CHANGE_PASSWORD,
    NEW_PASSWORD,
    TENANTS,
    add_user,
    database_of,
    done,
    ok,
    refused,
)
from tests.conftest import PASSWORD, World
from tests.integration.engines import on_postgresql

POSTS = "/api/tenant/blog/posts"
WHEN_IT_WAITS = """
    DO $$ BEGIN
        FOR tries IN 1..6000 LOOP
            EXIT WHEN EXISTS (
                SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
                WHERE datname = current_database() AND relation = '{first}'::regclass
                AND NOT granted
            );
            PERFORM pg_sleep(0.01);
        END LOOP;
        LOCK TABLE {second} IN ACCESS EXCLUSIVE MODE;
    END $$
"""
NEVERTHELESS = {"title": "Nevertheless", "content": "It rained."}


async def deadlocked(
    world: World, first: str, second: str, asking: Awaitable[httpx.Response]
) -> httpx.Response:
    """Return the response to a request that deadlocks over the tables *first* and *second*."""
    url = database_of(world, world.acme.tenant).url
    async with await psycopg.AsyncConnection.connect(url) as other:
        # The server ends the one that finds itself in a deadlock: the request, a second after it
        # began to wait. The other one does not check, and waits before that second is over.
        await other.execute("SET deadlock_timeout = '100s'")
        await other.execute(f"LOCK TABLE {first} IN ACCESS EXCLUSIVE MODE")
        task = asyncio.ensure_future(asking)
        await other.execute(WHEN_IT_WAITS.format(first=first, second=second))
        await other.commit()
        return await task


def cause_deadlocks(raw: Raw, table: str, times: int, *, of_commit: bool = False) -> None:
    """Make the server end so many transactions that write to *table*, as it ends a deadlock.

    Args:
        raw: The database, of PostgreSQL.
        table: In which every write is met by a trigger.
        times: A sequence counts them, which no rollback turns back.
        of_commit: Whether they are ended at their COMMIT, and not at the write.
    """
    kind, row, when = ("", "STATEMENT", "BEFORE")
    if of_commit:
        kind, row, when = ("CONSTRAINT", "ROW", "AFTER")
    deferred = "DEFERRABLE INITIALLY DEFERRED" if of_commit else ""
    raw.run("CREATE SEQUENCE in_the_way")
    raw.run(
        f"""
        CREATE FUNCTION be_in_the_way() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('in_the_way') <= {times} THEN
                RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
            END IF;
            RETURN NULL;
        END $$
        """
    )
    raw.run(
        f"CREATE {kind} TRIGGER in_the_way {when} INSERT OR UPDATE OR DELETE ON {table}"
        f" {deferred} FOR EACH {row} EXECUTE FUNCTION be_in_the_way()"
    )


def tries(raw: Raw) -> int:
    return int(raw.run("SELECT last_value FROM in_the_way")[0][0])


def audited(world: World, action: str) -> int:
    sql = "SELECT count(*) FROM tenantry_audit WHERE action = ?"
    [(count,)] = database_of(world, world.acme.tenant).run(sql, action)
    return int(count)


@pytest.mark.slow
@on_postgresql
async def test_a_request_survives_a_deadlock(world: World):
    """It and another client wait for each other's locks: the server ends one of them."""
    client = await world.owner(world.acme)

    asking = client.post(POSTS, json=NEVERTHELESS)
    answer = await deadlocked(world, "tenantry_post", "tenantry_blog_state", asking)

    assert answer.status_code == 201, answer.text
    listed = (await client.get(POSTS)).json()["data"]
    assert [one["title"] for one in listed["items"]].count("Nevertheless") == 1


@on_postgresql
class TestAssistants:
    async def test_write_after_a_deadlock(self, world: World):
        """As long as a request by HTTP would, and with one entry in the audit log."""
        raw = database_of(world, world.acme.tenant)
        cause_deadlocks(raw, "tenantry_blog_state", LOST_MAX)

        async with assistant(world, await world.mcp_token(world.acme)) as client:
            data_of(await client.call_tool("create_post", NEVERTHELESS))

        assert tries(raw) == LOST_MAX + 1
        assert audited(world, "post.create") == 1
        assert raw.run("SELECT count(*) FROM tenantry_post WHERE title = 'Nevertheless'") == [(1,)]

    async def test_get_an_error_after_many_deadlocks(self, world: World):
        raw = database_of(world, world.acme.tenant)
        cause_deadlocks(raw, "tenantry_blog_state", LOST_MAX + 1)
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))

        said = answer_of(await post(client, call("create_post", **NEVERTHELESS)))["result"]

        assert said["isError"] is True
        assert said["content"][0]["text"].endswith("Try again in 1 s.")
        assert audited(world, "post.create") == 0

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "asked", [call("list_posts"), message("resources/list")], ids=["tool", "resources"]
    )
    async def test_read_after_a_deadlock(self, world: World, asked: bytes):
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        answered = await deadlocked(
            world, "tenantry_post", "tenantry_blog_state", post(client, asked)
        )

        said = answer_of(answered)
        assert "error" not in said
        assert "isError" not in said["result"]


@on_postgresql
class TestAuditLog:
    """After deadlocks, it has each change once, and no change that was rolled back."""

    async def test_has_a_password_change_by_a_token_once(self, world: World):
        raw = database_of(world, world.acme.tenant)
        cause_deadlocks(raw, "tenantry_user", 2)
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))

        body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        done(await client.put(CHANGE_PASSWORD, json=body))

        assert audited(world, "password.change") == 1

    async def test_has_each_change_of_a_user_once(self, world: World):
        raw = database_of(world, world.acme.tenant)
        cause_deadlocks(raw, "tenantry_user", 1)
        admin, users = await world.admin(), f"{TENANTS}/{world.acme.tenant.id}/users"

        bob = await add_user(world, world.acme, "bob@example.com")
        raw.run("ALTER SEQUENCE in_the_way RESTART")
        ok(await admin.patch(f"{users}/{bob['id']}", json={"fullName": "Bob"}))
        raw.run("ALTER SEQUENCE in_the_way RESTART")
        done(await admin.delete(f"{users}/{bob['id']}"))

        assert tries(raw) == 2
        assert audited(world, "user.create") == 2  # Bob, and the owner before
        for change in ("update", "delete"):
            assert audited(world, f"user.{change}") == 1

    async def test_has_no_entry_of_a_change_that_is_rolled_back_at_its_commit(self, world: World):
        """The change is not tried again; the client gets a 503."""
        raw = database_of(world, world.acme.tenant)
        cause_deadlocks(raw, "tenantry_blog_state", 1, of_commit=True)
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))

        refused(await client.post(POSTS, json=NEVERTHELESS), 503)

        assert audited(world, "post.create") == 0
        assert raw.run("SELECT count(*) FROM tenantry_post WHERE title = 'Nevertheless'") == [(0,)]
