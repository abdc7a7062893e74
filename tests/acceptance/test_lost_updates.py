"""No editor loses a change without a word: entity tags, If-Match and If-None-Match."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import OWN_POSTS, ok, refused
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
