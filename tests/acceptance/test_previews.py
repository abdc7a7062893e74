"""A preview link reads the latest text of one post, without other credentials, until it ends."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.kit.clock import utc_now
from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import (
    OWN_POSTS,
    POSTS,
    TENANTS,
    add_user,
    database_of,
    done,
    log_in,
    ok,
    patch_tenant,
    patch_user,
    refused,
)
from tests.conftest import World

PREVIEW = "/api/public/blog/preview"
AHEAD = "ffffffff-ffff-7fff-bfff-ffffffffffff"


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


def links_of(post: Any) -> str:
    return f"{OWN_POSTS}/{post['id']}/preview-links"


async def link_to(blog: Blog, post: Any, **body: object) -> Any:
    return ok(await blog.owner.post(links_of(post), json=body), 201)


async def preview(blog: Blog, link: Any) -> httpx.Response:
    """Return the response for a visitor who has nothing but the token."""
    return await (await blog.client()).get(PREVIEW, params={"token": link["token"]})


class TestPreview:
    async def test_has_one_token(self, blog: Blog) -> None:
        """No other text is decoded to the same, so that a proxy can block a token."""
        link = await link_to(blog, await blog.write("Draft"))
        token = link["token"]
        ok(await preview(blog, link))

        for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef0123456789-_":
            if last != token[-1]:
                refused(await preview(blog, {"token": token[:-1] + last}), 404)
        for more in ("=", "=="):
            refused(await preview(blog, {"token": token + more}), 404)

    async def test_is_the_one_that_was_made_also_beside_a_clock_that_is_ahead(
        self, world: World, blog: Blog
    ) -> None:
        post = await blog.write("Draft")
        first = await link_to(blog, post)
        stored = AHEAD if database_of(world, world.acme.tenant).path is None else UUID(AHEAD).hex
        database_of(world, world.acme.tenant).run(
            f"UPDATE tenantry_preview_link SET id = '{stored}', created_by = 'another'"
        )

        second = await link_to(blog, post)

        assert second["id"] not in {first["id"], AHEAD}
        assert second["createdBy"] != "another"
        ok(await preview(blog, second))

    async def test_shows_a_draft_in_the_form_of_a_published_post(self, blog: Blog) -> None:
        """It is in no cache and in no search engine."""
        draft = await blog.write("Draft", "Its text.", tags=["new"])
        link = await link_to(blog, draft)

        answer = await preview(blog, link)

        shown = ok(answer)
        live = ok(await blog.public.get(f"{POSTS}/hello-from-acme"))
        assert shown.keys() == live.keys()
        assert (shown["title"], shown["content"], shown["tags"]) == ("Draft", "Its text.", ["new"])
        assert shown["publishedAt"] is not None
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-robots-tag"] == "noindex"
        assert "etag" not in answer.headers

    async def test_shows_the_latest_text_and_nothing_else(self, blog: Blog) -> None:
        """Of a published post the draft beside it, after each save; readers see no difference."""
        post, other = await blog.publish("Before", "Old text"), await blog.write("Other")
        link, other_link = await link_to(blog, post), await link_to(blog, other)
        await blog.change(post, title="After", content="New text", publish=False)

        shown = ok(await preview(blog, link))

        assert (shown["title"], shown["content"]) == ("After", "New text")
        assert shown["publishedAt"] == post["publishedAt"]
        assert ok(await preview(blog, other_link))["title"] == "Other"
        assert ok(await blog.public.get(f"{POSTS}/before"))["content"] == "Old text"

    async def test_shows_when_a_schedule_publishes(self, blog: Blog) -> None:
        draft = await blog.write("Later")
        at = (utc_now() + timedelta(hours=1)).isoformat()
        path = f"{OWN_POSTS}/{draft['id']}/schedule"
        waiting = ok(await blog.owner.put(path, json={"publishAt": at}))

        shown = ok(await preview(blog, await link_to(blog, draft)))

        assert shown["publishedAt"] == waiting["publishAt"]


class TestEnd:
    async def test_comes_with_a_revocation_and_with_the_post(self, blog: Blog) -> None:
        """Restored from the bin, the post has no links."""
        draft = await blog.write("Draft")
        one, other = await link_to(blog, draft), await link_to(blog, draft)
        listed = ok(await blog.owner.get(links_of(draft)))["items"]
        assert [link["id"] for link in listed] == [other["id"], one["id"]]
        assert all("token" not in link for link in listed)

        done(await blog.owner.delete(f"{links_of(draft)}/{one['id']}"))
        refused(await blog.owner.delete(f"{links_of(draft)}/{one['id']}"), 404)

        refused(await preview(blog, one), 404)
        ok(await preview(blog, other))
        await blog.delete(draft)
        refused(await preview(blog, other), 404)
        path = f"/api/tenant/blog/deleted-posts/{draft['id']}/restore"
        ok(await blog.owner.post(path))
        refused(await preview(blog, other), 404)

    async def test_comes_with_its_time(self, blog: Blog) -> None:
        """By default a day, at most 30 days; by the token, and by what is stored."""
        draft = await blog.write("Draft")
        link = await link_to(blog, draft)
        made, ends = (datetime.fromisoformat(link[one]) for one in ("createdAt", "expiresAt"))
        assert timedelta(0) <= made + timedelta(days=1) - ends < timedelta(seconds=1)
        raw = database_of(blog.world, blog.world.acme.tenant)
        raw.run("UPDATE tenantry_preview_link SET expires_at = created_at")
        refused(await preview(blog, link), 404)
        assert ok(await blog.owner.get(links_of(draft)))["items"] == []

        for days in (-1, 31):
            at = (utc_now() + timedelta(days=days)).isoformat()
            refused(await blog.owner.post(links_of(draft), json={"expiresAt": at}), 400)
        at = (utc_now() + timedelta(days=29)).isoformat()
        ok(await preview(blog, await link_to(blog, draft, expiresAt=at)))

    async def test_comes_with_a_suspension_or_without_the_module(self, blog: Blog) -> None:
        link = await link_to(blog, await blog.write("Draft"))
        await patch_tenant(blog.world, blog.world.acme, isActive=False)
        refused(await preview(blog, link), 404)
        await patch_tenant(blog.world, blog.world.acme, isActive=True)
        ok(await preview(blog, link))
        await patch_tenant(blog.world, blog.world.acme, modules=["mcp"])
        refused(await preview(blog, link), 404)

    async def test_comes_with_the_account_of_its_author(self, world: World, blog: Blog) -> None:
        """If the account is active again, the link is, too. Without an author, it stays."""
        user = await add_user(world, world.acme, "editor@acme.example.com", role="editor")
        draft = await blog.write("Draft")
        bearer = ok(await log_in(world, world.acme, email=user["email"]))["token"]
        key = world.acme.key.secret
        editor = await blog.client(authorization=f"Bearer {bearer}", x_api_key=key)
        link = ok(await editor.post(links_of(draft), json={}), 201)
        unbound = ok(await (await blog.token(bound=False)).post(links_of(draft), json={}), 201)
        ok(await preview(blog, link))

        await patch_user(world, world.acme, user["id"], isActive=False)
        refused(await preview(blog, link), 404)
        await patch_user(world, world.acme, user["id"], isActive=True)
        ok(await preview(blog, link))
        admin = await world.admin()
        done(await admin.delete(f"{TENANTS}/{world.acme.tenant.id}/users/{user['id']}"))

        refused(await preview(blog, link), 404)
        ok(await preview(blog, unbound))
        ok(await preview(blog, await link_to(blog, draft)))

    async def test_comes_with_the_tenant(self, blog: Blog) -> None:
        link = await link_to(blog, await blog.write("Draft"))
        admin = await blog.world.admin()
        await patch_tenant(blog.world, blog.world.acme, isActive=False)
        done(await admin.delete(f"{TENANTS}/{blog.world.acme.tenant.id}?name=acme"))
        refused(await preview(blog, link), 404)


class TestToken:
    async def test_is_of_one_tenant_and_cannot_be_changed(self, blog: Blog) -> None:
        """Each changed character is 404, and so is what is no token."""
        token = str((await link_to(blog, await blog.write("Draft")))["token"])
        for at in range(4, len(token), 7):
            other = "A" if token[at] != "A" else "B"
            wrong = {"token": f"{token[:at]}{other}{token[at + 1 :]}"}
            refused(await preview(blog, wrong), 404)
        for wrong in ("", "tnp_", "tnp_ä", token[:-4], token * 2, "=" * 50):
            refused(await preview(blog, {"token": wrong}), 404)
        visitor = await blog.client()
        refused(await visitor.get(PREVIEW), 400)

    async def test_is_for_those_who_see_drafts(self, blog: Blog) -> None:
        draft = await blog.write("Draft")
        reader = await blog.token("content:read")
        refused(await reader.post(links_of(draft), json={}), 403)
        refused(await reader.get(links_of(draft)), 404)
        live = ok(await reader.get(OWN_POSTS))["items"][0]
        refused(await reader.get(links_of(live)), 404)
        assistant = await blog.token("content:draft")
        ok(await assistant.post(links_of(draft), json={}), 201)
        refused(await blog.public.post(links_of(draft), json={}), 401)

    async def test_is_limited_in_number(self, blog: Blog) -> None:
        draft = await blog.write("Draft")
        for _ in range(20):
            last = await link_to(blog, draft)
        refused(await blog.owner.post(links_of(draft), json={}), 409)
        done(await blog.owner.delete(f"{links_of(draft)}/{last['id']}"))
        ok(await preview(blog, await link_to(blog, draft)))

    async def test_counts_for_the_limit_of_the_tenant(self, blog: Blog) -> None:
        link = await link_to(blog, await blog.write("Draft"))
        await patch_tenant(blog.world, blog.world.acme, requestsPerMinute=1)
        ok(await preview(blog, link))
        refused(await preview(blog, link), 429)
