"""No editor loses a change without a word: entity tags, If-Match and If-None-Match."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.acceptance.assistants import assistant, data_of, refusal_of
from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import OWN_POSTS, PROFILE, ok, refused
from tests.conftest import World


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


async def read(blog: Blog, post: Any) -> tuple[str, Any]:
    """Return a post and its entity tag."""
    answer = await blog.owner.get(f"{OWN_POSTS}/{post['id']}")
    return answer.headers["etag"], ok(answer)


async def save(blog: Blog, post: Any, content: str, **headers: str) -> httpx.Response:
    body = {"title": post["title"], "content": content}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await blog.owner.put(f"{OWN_POSTS}/{post['id']}", json=body, headers=sent)


class TestTwoEditors:
    async def test_who_save_what_both_have_read_lose_no_text(self, blog: Blog) -> None:
        post = await blog.write("Post")
        tag, _ = await read(blog, post)

        first = await save(blog, post, "The first text", if_match=tag)
        second = await save(blog, post, "The second text", if_match=tag)

        assert ok(first)["content"] == "The first text"
        assert ok(first)["updatedAt"][:19] in refused(second, 412)
        assert second.headers["x-error-code"] == "post_changed"
        new, stored = await read(blog, post)
        assert (new, stored["content"]) == (first.headers["etag"], "The first text")

    async def test_see_a_publication_too(self, blog: Blog) -> None:
        post = await blog.write("Post")
        tag, _ = await read(blog, post)
        path = f"{OWN_POSTS}/{post['id']}"

        ok(await blog.owner.post(f"{path}/publish", headers={"if-match": tag}))

        refused(await blog.owner.post(f"{path}/unpublish", headers={"if-match": tag}), 412)
        refused(await blog.owner.delete(path, headers={"if-match": tag}), 412)

    async def test_who_send_an_asterisk_in_a_list_are_refused(self, blog: Blog) -> None:
        """It matches any state, and each tag one: which of them counts, nothing says."""
        post = await blog.write("Post", "Text")
        tag, _ = await read(blog, post)

        for name in ("if_match", "if_none_match"):
            for sent in (f"*, {tag}", '"other", *', f"{tag},*"):
                answer = await save(blog, post, "New text", **{name: sent})
                refused(answer, 400)
                assert answer.headers["x-error-code"] == "bad_precondition"

        assert (await read(blog, post))[1]["content"] == "Text"
        ok(await save(blog, post, "New text", if_match="*"))

    async def test_keep_the_tag_when_nothing_changes(self, blog: Blog) -> None:
        post = await blog.write("Post", "Text")
        tag, _ = await read(blog, post)

        same = await save(blog, post, "Text", if_match=tag)

        assert same.headers["etag"] == tag == (await read(blog, post))[0]


class TestNewPost:
    async def test_is_created_once(self, blog: Blog) -> None:
        """With the slug of the title, which otherwise gets a number, or with a given one."""
        only = {"if-none-match": "*"}
        body = {"title": "Once", "content": "Text"}

        made = ok(await blog.owner.post(OWN_POSTS, json=body, headers=only), 201)
        again = await blog.owner.post(OWN_POSTS, json=body, headers=only)
        named = {**body, "title": "Other", "slug": "once"}
        refused(await blog.owner.post(OWN_POSTS, json=named, headers=only), 412)

        assert made["slug"] == "once"
        assert made["updatedAt"][:19] in refused(again, 412)
        assert again.headers["x-error-code"] == "post_exists"
        assert (await blog.write("Once"))["slug"] == "once-2"


class TestAssistant:
    async def test_that_names_the_version_it_has_read_overwrites_no_later_one(
        self, blog: Blog
    ) -> None:
        post = await blog.write("Post")
        token = await blog.world.mcp_token(blog.world.acme)
        async with assistant(blog.world, token) as client:
            later = {"slug": "post", "content": "By the assistant", "note": "Shorter"}
            first = await client.call_tool("update_post", {**later, "expected_version": 1})
            assert data_of(first)["version"] == 2
            ok(await save(blog, post, "By the owner"))
            for name in ("update_post", "publish_post", "unpublish_post", "delete_post"):
                arguments = {**later, "expected_version": 2}
                if name != "update_post":
                    arguments = {"slug": "post", "expected_version": 2}
                answer = await client.call_tool(name, arguments)
                assert "version 3, by Owner acme-canary" in refusal_of(answer)

        assert (await read(blog, post))[1]["content"] == "By the owner"

    async def test_notices_a_publication_by_the_time_of_the_last_change(self, blog: Blog) -> None:
        """A publication adds no version."""
        post = await blog.write("Post", publish=False)
        token = await blog.world.mcp_token(blog.world.acme)
        async with assistant(blog.world, token) as client:
            seen = data_of(await client.call_tool("get_post", {"slug": "post"}))
            ok(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish"))
            for name in ("unpublish_post", "delete_post"):
                arguments = {"slug": "post", "expected_updated_at": seen["updatedAt"]}
                answer = await client.call_tool(name, {**arguments, "expected_version": 1})
                assert "Read it again" in refusal_of(answer)
            again = data_of(await client.call_tool("get_post", {"slug": "post"}))
            arguments = {"slug": "post", "expected_updated_at": again["updatedAt"]}
            withdrawn = data_of(await client.call_tool("unpublish_post", arguments))

        assert (again["version"], withdrawn["publishedAt"]) == (1, None)

    async def test_must_name_it_if_the_operator_requires_that(self, blog: Blog) -> None:
        settings = blog.world.services.settings.model_copy(update={"require_if_match": "1"})
        world = blog.world.with_services(settings=settings)
        await blog.write("Post")
        token = await world.mcp_token(world.acme)
        async with assistant(world, token) as client:
            without = await client.call_tool("publish_post", {"slug": "post"})
            arguments = {"slug": "post", "expected_version": 1}
            published = await client.call_tool("publish_post", arguments)
            profile = {"full_name": "Renamed", "email": "renamed@example.com"}
            renamed = await client.call_tool("update_profile", profile)

        assert "`expected_version` or `expected_updated_at` is required" in refusal_of(without)
        assert data_of(published)["publishedAt"]
        assert "`If-Match` with `PUT /api/tenant/auth/profile`" in refusal_of(renamed)
        assert ok(await blog.owner.get(PROFILE))["fullName"] != "Renamed"
