"""Conditional requests for the public blog: entity tags, and 304."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tenantry.api.cors import Cors
from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.sockets import Head, Line
from tests.acceptance.support import OWN_POSTS, POSTS, done, ok, patch_tenant, refused
from tests.conftest import World, client_of

POST = f"{POSTS}/hello-from-acme"
CACHED = "private, no-cache"
VARIES = "X-Api-Key, X-Mcp-Token"
ORIGIN = "https://www.example.com"


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


async def tag_of(client: httpx.AsyncClient, path: str) -> str:
    """Return the entity tag of an answer, which must have one and be asked for each time."""
    answer = await client.get(path)
    ok(answer)
    assert answer.headers["cache-control"] == CACHED
    assert answer.headers["vary"] == VARIES
    tag = answer.headers["etag"]
    assert tag.startswith('"')
    assert tag.endswith('"')
    return str(tag)


async def known(client: httpx.AsyncClient, path: str, *tags: str) -> bool:
    """Return whether the response to a client with *tags* is 304."""
    headers = [("if-none-match", tag) for tag in tags]
    answer = await client.get(path, headers=headers)
    if answer.status_code != 304:
        ok(answer)
        return False
    assert answer.content == b""
    assert answer.headers["etag"] == await tag_of(client, path)
    assert answer.headers["cache-control"] == CACHED
    assert answer.headers["vary"] == VARIES
    assert answer.headers["x-request-id"]
    assert "content-type" not in answer.headers
    assert "content-length" not in answer.headers
    return True


class TestEntityTag:
    @pytest.mark.parametrize("path", [POSTS, POST, f"{POSTS}?page=2", f"{POSTS}?tag=news"])
    async def test_is_known_until_something_is_written(self, blog: Blog, path: str) -> None:
        """304 for a client that has it; every write to the blog changes it, and no read does."""
        draft = await blog.write("Draft", tags=["news"])
        one = f"{OWN_POSTS}/{draft['id']}"
        body = {"title": "Changed", "content": "Changed"}

        for method, target in (
            ("POST", OWN_POSTS),
            ("PUT", one),
            ("POST", f"{one}/publish"),
            ("POST", f"{one}/unpublish"),
            ("DELETE", one),
        ):
            tag = await tag_of(blog.public, path)
            assert await tag_of(blog.public, path) == tag
            assert await known(blog.public, path, tag)
            assert (await blog.owner.request(method, target, json=body)).is_success
            assert not await known(blog.public, path, tag)

    async def test_outlives_what_changes_nothing(self, blog: Blog) -> None:
        """What was refused, or was so already, is no change."""
        post = await blog.publish("Post")
        tag = await tag_of(blog.public, POSTS)

        body = {"title": "A", "content": "", "slug": "hello-from-acme"}
        refused(await blog.owner.put(f"{OWN_POSTS}/{post['id']}", json=body), 409)
        ok(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish"))

        assert await known(blog.public, POSTS, tag)

    async def test_differs_for_every_resource(self, blog: Blog) -> None:
        """For each page, size, tag, post and tenant; it is the same for a key and for a token."""
        other = await blog.client(x_api_key=blog.world.globex.key.secret)
        token = await blog.token("content:read")
        paths = [POSTS, POST, *(f"{POSTS}?{q}" for q in ("page=2", "pageSize=5", "tag=news"))]

        tags = [await tag_of(blog.public, path) for path in paths]
        tags.append(await tag_of(other, POSTS))

        assert len(set(tags)) == len(tags)
        assert not await known(blog.public, POSTS, tags[-1])
        assert not await known(blog.public, POST, tags[0])
        assert await tag_of(token, POSTS) == tags[0]
        assert await known(token, POSTS, tags[0])

    async def test_differs_between_new_blogs(self, blog: Blog) -> None:
        """They are copies of one template, and still each has its own tags."""
        tags = set()
        for name in ("initech", "umbrella"):
            made = await blog.world.provision(name)
            tags.add(await tag_of(await blog.client(x_api_key=made.key.secret), POSTS))

        assert len(tags) == 2

    async def test_is_compared_as_the_standard_says(self, blog: Blog) -> None:
        """A list, several headers, weak ones and the asterisk (RFC 9110, section 13.1.2)."""
        for path in (POSTS, POST):
            tag = await tag_of(blog.public, path)

            for tags in (
                [f"W/{tag}"],
                [f'"a", {tag}'],
                [f'{tag},"b"'],
                [f'"a" , W/"b",W/{tag}'],
                ['"a"', tag],
                ["*"],
            ):
                assert await known(blog.public, path, *tags), tags
            for tags in (["nonsense"], [""], [tag.strip('"')], ['"a"'], [tag[:-2] + '"'], ["W/*"]):
                assert not await known(blog.public, path, *tags), tags

    async def test_replaces_no_credentials(self, blog: Blog) -> None:
        """Credentials, modules and queries are checked first; an unknown post is 404."""
        tag = await tag_of(blog.public, POSTS)
        headers = {"if-none-match": f"{tag}, *"}

        stranger = await blog.client()
        refused(await stranger.get(POSTS, headers=headers), 401)
        refused(await blog.public.get(f"{POSTS}?page=0", headers=headers), 400)
        missing = await blog.public.get(f"{POSTS}/nothing", headers={"if-none-match": "*"})
        refused(missing, 404)
        assert "etag" not in missing.headers
        await patch_tenant(blog.world, blog.world.acme, modules=["mcp"])
        refused(await blog.public.get(POSTS, headers=headers), 403)

    async def test_of_a_post_that_is_gone_is_not_known(self, blog: Blog) -> None:
        """A client with a post that was deleted gets 404."""
        post = await blog.publish("Post")
        path = f"{POSTS}/{post['slug']}"
        tag = await tag_of(blog.public, path)

        done(await blog.owner.delete(f"{OWN_POSTS}/{post['id']}"))

        refused(await blog.public.get(path, headers={"if-none-match": tag}), 404)

    async def test_is_the_same_for_head_and_get(self, blog: Blog) -> None:
        """HEAD has the same tag and the same 304; the connection can be used again after both."""
        key = blog.world.acme.key.secret
        async with blog.server.line() as line:
            head = await line.ask("HEAD", POSTS, x_api_key=key)
            tag = head.said["etag"]

            assert tag == await tag_of(blog.public, POSTS)
            for method in ("HEAD", "GET", "GET"):
                answer = await line.ask(method, POSTS, x_api_key=key, if_none_match=tag)
                _must_be_empty(answer)
            assert (await _status_of_next(line, key)) == 200

    async def test_is_not_sent_for_the_tenants_own_view(self, blog: Blog) -> None:
        """It would depend on drafts and scopes, and clients do not poll there."""
        answer = await blog.owner.get(OWN_POSTS, headers={"if-none-match": "*"})

        ok(answer)
        assert "etag" not in answer.headers


class TestBrowser:
    async def test_may_ask_for_what_it_has(self, world: World) -> None:
        """A page of a listed origin may send and read the tag; another one may not."""
        key = world.acme.key.secret
        async with client_of(Cors(world.app, [ORIGIN]), origin=ORIGIN) as client:
            asked = {
                "access-control-request-method": "GET",
                "access-control-request-headers": "x-api-key, if-none-match",
            }
            assert (await client.options(POSTS, headers=asked)).status_code == 200
            first = await client.get(POSTS, headers={"x-api-key": key})
            tag = first.headers["etag"]
            again = await client.get(POSTS, headers={"x-api-key": key, "if-none-match": tag})
            stranger = {**asked, "origin": "https://evil.example.com"}
            assert (await client.options(POSTS, headers=stranger)).status_code == 400

        assert "ETag" in first.headers["access-control-expose-headers"]
        assert again.status_code == 304
        for answer in (first, again):
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert set(answer.headers["vary"].split(", ")) == {*VARIES.split(", "), "Origin"}


def _must_be_empty(answer: Head) -> None:
    assert answer.status == 304
    assert not {"content-length", "transfer-encoding", "content-type"} & answer.said.keys()


async def _status_of_next(line: Line, key: str) -> int:
    return (await line.ask("HEAD", POST, x_api_key=key)).status
