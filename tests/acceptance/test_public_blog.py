"""GET /api/public/blog/posts, and one of them."""

from datetime import timedelta

from tenantry.kit.clock import utc_now
from tenantry.tenant.blog import posts
from tenantry.tenant.blog.writing import Author
from tests.acceptance.shapes import POST, POST_SUMMARY, instant, must_be, page_of
from tests.acceptance.support import POSTS, ok, patch_tenant, refused
from tests.conftest import World


async def publish(
    world: World, title: str, *tags: str, days_ago: int = 0, is_published: bool = True
) -> None:
    await posts.write_new(
        await world.services.databases.open(world.acme.tenant, writes=True),
        title=title,
        content=f"Content of {title}",
        tags=list(tags),
        author=Author(world.acme.owner.id, "Ann"),
        now=utc_now() - timedelta(days=days_ago),
        is_published=is_published,
    )


class TestListPosts:
    async def test_needs_the_key_alone(self, world: World) -> None:
        """A page of the tenant's own posts, for X-Api-Key and no JWT."""
        for of in (world.acme, world.globex):
            page = ok(await world.public(of).get(POSTS))

            must_be(page, page_of(POST_SUMMARY))
            name = of.tenant.name
            assert (page["page"], page["pageSize"], page["totalCount"]) == (1, 10, 1)
            assert page["totalPages"] == 1
            [post] = page["items"]
            assert post["title"] == f"Hello from {name}"
            assert post["slug"] == f"hello-from-{name}"
            assert post["authorName"] == f"Owner {world.canaries[name]}"
            assert post["tags"] == ["news", f"{name}-canary"]

    async def test_shows_the_published_ones_newest_first(self, world: World) -> None:
        """Page by page; a draft is not there; a tag narrows them down."""
        for number in range(12):
            await publish(world, f"Post {number}", "numbers", days_ago=number + 1)
        await publish(world, "A draft", "numbers", is_published=False)
        client = world.public(world.acme)

        first = ok(await client.get(POSTS))
        second = ok(await client.get(POSTS, params={"page": 2}))
        tagged = ok(await client.get(POSTS, params={"tag": "Numbers", "pageSize": 5}))
        beyond = ok(await client.get(POSTS, params={"page": 1_000_000}))

        assert (first["totalCount"], first["totalPages"]) == (13, 2)
        titles = [post["title"] for post in first["items"] + second["items"]]
        assert titles == ["Hello from acme", *(f"Post {number}" for number in range(12))]
        dates = [instant(post["publishedAt"]) for post in first["items"]]
        assert dates == sorted(dates, reverse=True)
        assert (tagged["totalCount"], tagged["totalPages"], tagged["pageSize"]) == (12, 3, 5)
        assert len(tagged["items"]) == 5
        assert ok(await client.get(POSTS, params={"tag": "nothing"}))["items"] == []
        assert beyond["items"] == []
        assert (beyond["page"], beyond["totalCount"]) == (1_000_000, 13)
        assert ok(await client.get(POSTS, params={"pageSize": 5_000}))["pageSize"] == 100

    async def test_refuses_a_client_without_a_valid_key(self, world: World) -> None:
        """401 without a known key; the bearer is ignored."""
        key = world.acme.key.secret
        token = await world.token(world.acme)

        for client in (
            world.stranger(),
            world.client(x_api_key=""),
            world.client(x_api_key="tnk_unknown"),
            world.client(x_api_key=f"{key}x"),
            world.client(authorization=f"Bearer {token}"),
            world.client(authorization=f"Bearer {key}"),
        ):
            refused(await client.get(POSTS), 401)
        refused(await world.stranger().get(POSTS, params={"X-Api-Key": key}), 401)
        ok(await world.client(x_api_key=key, authorization="Bearer rubbish").get(POSTS))
        other = await world.token(world.globex)
        ok(await world.client(x_api_key=key, authorization=f"Bearer {other}").get(POSTS))
        answer = await world.stranger().get(POSTS, headers=[("x-api-key", key)] * 2)
        refused(answer, 400)

    async def test_refuses_a_bad_query(self, world: World) -> None:
        """400: pages begin at one."""
        for query in (
            "page=0",
            "page=-1",
            "pageSize=0",
            "page=one",
            "page=1.5",
            "page=",
            "page=1&page=2",
            "tag=%00",
            "tag=%ff",
        ):
            refused(await world.public(world.acme).get(f"{POSTS}?{query}"), 400)
        ok(await world.public(world.acme).get(f"{POSTS}?page={10**22}"))

    async def test_is_closed_for_a_suspended_tenant(self, world: World) -> None:
        """403, for the key and for an McpToken, at the very next request."""
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))
        ok(await token.get(POSTS))
        ok(await world.public(world.acme).get(POSTS))

        await patch_tenant(world, world.acme, isActive=False)

        refused(await token.get(POSTS), 403)
        refused(await world.public(world.acme).get(POSTS), 403)
        ok(await world.public(world.globex).get(POSTS))


class TestShowPost:
    async def test_returns_the_content_too(self, world: World) -> None:
        """The same post as in the list, and what it says."""
        client = world.public(world.acme)
        [summary] = ok(await client.get(POSTS))["items"]

        post = ok(await client.get(f"{POSTS}/{summary['slug']}"))

        must_be(post, POST)
        assert post == {**summary, "content": "The content is acme-canary."}

    async def test_is_404_for_what_is_not_there(self, world: World) -> None:
        """Unknown slugs, drafts, and another tenant's posts alike."""
        await publish(world, "\u00dcber uns")
        await publish(world, "A draft", is_published=False)
        client = world.public(world.acme)

        ok(await client.get(f"{POSTS}/\u00fcber-uns"))
        answers = [
            await client.get(f"{POSTS}/{slug}")
            for slug in ("nothing", "a-draft", "hello-from-globex", "%00", "%ff", "x" * 9_000)
        ]

        for answer in answers:
            refused(answer, 404)
        refused(await world.stranger().get(f"{POSTS}/hello-from-acme"), 401)
