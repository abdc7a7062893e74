"""A published post has a draft beside it, and every save is a version."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import OWN_POSTS, POSTS, database_of, done, ok, refused
from tests.conftest import World

DELETED = "/api/tenant/blog/deleted-posts"
VERSIONS = (
    "SELECT number, title, content, author_name, kind, note FROM tenantry_post_version"
    " WHERE title <> 'Hello from acme' ORDER BY number"
)


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


async def save(blog: Blog, post: Any, **members: object) -> Any:
    """Return a post after a save that does not publish it."""
    return await blog.change(post, **{"publish": False, **members})


async def publish(blog: Blog, post: Any) -> Any:
    return ok(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish"))


async def public(blog: Blog, slug: str) -> Any:
    return ok(await blog.public.get(f"{POSTS}/{slug}"))


async def public_tag(blog: Blog) -> str:
    return str((await blog.public.get(POSTS)).headers["etag"])


def stored(blog: Blog, sql: str = VERSIONS) -> list[tuple[Any, ...]]:
    return database_of(blog.world, blog.world.acme.tenant).run(sql)


class TestDraft:
    async def test_of_a_published_post_is_seen_by_editors_only(self, blog: Blog) -> None:
        """Text, slug and tags: readers see none of it, and their entity tag stays."""
        post = await blog.publish("Before", "Old text", tags=["old"])
        shown, tag = await public(blog, "before"), await public_tag(blog)

        draft = await save(
            blog, post, title="After", content="New text", slug="after", tags=["new"]
        )

        assert draft["hasDraft"]
        assert (draft["title"], draft["slug"], draft["tags"]) == ("After", "after", ["new"])
        assert draft["publishedAt"] == post["publishedAt"]
        assert ok(await blog.owner.get(f"{OWN_POSTS}/{post['id']}")) == draft
        listed = ok(await blog.owner.get(OWN_POSTS))["items"][0]
        assert listed == {name: draft[name] for name in listed}
        assert await public(blog, "before") == shown
        assert await public_tag(blog) == tag
        refused(await blog.public.get(f"{POSTS}/after"), 404)
        assert await blog.public_titles(tag="new") == []
        reader = await blog.token("content:read")
        seen = ok(await reader.get(f"{OWN_POSTS}/{post['id']}"))
        assert (seen["title"], seen["content"], seen["hasDraft"]) == ("Before", "Old text", False)

    async def test_is_published_in_one_step(self, blog: Blog) -> None:
        """The place of the post in lists stays; its old slug and tags find nothing."""
        post = await blog.publish("Before", "Old text", tags=["old"])
        await blog.publish("Later")
        draft = await save(
            blog, post, title="After", content="New text", slug="after", tags=["new"]
        )

        after = await publish(blog, draft)

        kept = {"hasDraft": False, "updatedAt": after["updatedAt"]}
        assert after == {**draft, **kept}
        assert (await public(blog, "after"))["content"] == "New text"
        refused(await blog.public.get(f"{POSTS}/before"), 404)
        assert await blog.public_titles(tag="new") == ["After"]
        assert await blog.public_titles(tag="old") == []
        assert (await blog.public_titles())[:2] == ["Later", "After"]
        assert await blog.titles(search="new text") == ["After"]
        assert await blog.titles(search="old text") == []
        assert await publish(blog, after) == after

    async def test_is_found_by_its_text(self, blog: Blog) -> None:
        """By editors; for a token that only reads, the published text is found."""
        post = await blog.publish("Post", "Old text")
        await save(blog, post, content="New text")
        await save(blog, post, content="Newer text")

        assert await blog.titles(search="newer") == ["Post"]
        assert await blog.titles(search="old") == []
        reader = await blog.token("content:read")
        for search, count in {"newer": 0, "old": 1}.items():
            page = ok(await reader.get(OWN_POSTS, params={"search": search}))
            assert page["totalCount"] == count

    async def test_is_the_text_of_a_withdrawn_post(self, blog: Blog) -> None:
        post = await blog.publish("Post", "Old text")
        await save(blog, post, content="New text")

        hidden = ok(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/unpublish"))

        assert (hidden["content"], hidden["hasDraft"]) == ("New text", False)
        assert await blog.titles(search="new") == ["Post"]

    async def test_cannot_take_the_slug_of_another_post(self, blog: Blog) -> None:
        """Neither when it is saved, nor when the release before has taken it in between."""
        post = await blog.publish("Post")
        body = {"title": "Post", "content": "", "slug": "hello-from-acme"}
        refused(await blog.owner.put(f"{OWN_POSTS}/{post['id']}", json=body), 409)

        await save(blog, post, slug="wanted")
        stored(blog, "UPDATE tenantry_post SET slug = 'wanted' WHERE slug = 'hello-from-acme'")

        refused(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish"), 409)
        assert (await public(blog, "post"))["title"] == "Post"

    async def test_reserves_its_slug(self, blog: Blog) -> None:
        """No other post gets it: no new one, no change, no draft, none from the bin."""
        binned = await blog.write("Binned", slug="wanted")
        await blog.delete(binned)
        post, other, live = (
            await blog.publish("Post"),
            await blog.write("Other"),
            await blog.publish("Live"),
        )

        draft = await save(blog, post, slug="wanted")

        body = {"title": "Wanted", "content": "", "slug": "wanted"}
        for refusal in (
            await blog.owner.post(OWN_POSTS, json=body),
            await blog.owner.put(f"{OWN_POSTS}/{other['id']}", json=body),
            await blog.owner.put(f"{OWN_POSTS}/{live['id']}", json=body),
            await blog.owner.put(f"{OWN_POSTS}/{live['id']}", json={**body, "publish": False}),
        ):
            refused(refusal, 409)
        only = {"if-none-match": "*"}
        refused(await blog.owner.post(OWN_POSTS, json=body, headers=only), 412)
        assert (await blog.write("Wanted"))["slug"] == "wanted-2"
        restored = await blog.owner.post(f"{DELETED}/{binned['id']}/restore")
        assert ok(restored)["slug"] == "binned"
        assert ok(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/unpublish"))["slug"] == "wanted"
        assert (await publish(blog, draft))["slug"] == "wanted"

    async def test_is_skipped_by_what_is_to_be_live_at_once(self, blog: Blog) -> None:
        """With `publish`, a save is what it was before there were drafts, of a new post too."""
        post = await blog.publish("Post", "Old text")
        await save(blog, post, content="Draft text")
        body = {"title": "Post", "content": "Live text", "publish": True}

        live = ok(await blog.owner.put(f"{OWN_POSTS}/{post['id']}", json=body))
        made = ok(await blog.owner.post(OWN_POSTS, json={**body, "title": "New"}), 201)

        assert (live["hasDraft"], live["publishedAt"]) == (False, post["publishedAt"])
        assert (await public(blog, "post"))["content"] == "Live text"
        assert made["publishedAt"] == made["createdAt"]
        assert await blog.titles(search="draft text") == []
        assert (await public(blog, "new"))["content"] == "Live text"

    async def test_stays_a_draft_when_a_client_that_knows_none_saves_it(self, blog: Blog) -> None:
        """Without `publish`, such a client changes a published post for readers, as before."""
        post = await blog.publish("Post", "Old text")
        live = await blog.change(post, content="New text")
        draft = await save(blog, live, content="Draft text")

        kept = await blog.change(draft, content="Draft text, corrected")

        assert (live["hasDraft"], kept["hasDraft"]) == (False, True)
        assert (await public(blog, "post"))["content"] == "New text"
        assert (await publish(blog, kept))["content"] == "Draft text, corrected"


class TestAssistant:
    async def test_that_may_not_publish_changes_nothing_that_readers_see(self, blog: Blog) -> None:
        """Its changes of a published post are a draft, which a user publishes."""
        post = await blog.publish("Post", "Old text")
        path, body = f"{OWN_POSTS}/{post['id']}", {"title": "Post", "content": "New text"}
        writer = await blog.token("content:read", "content:draft")

        draft = ok(await writer.put(path, json=body))
        for refusal in (
            await writer.put(path, json={**body, "publish": True}),
            await writer.post(OWN_POSTS, json={**body, "publish": True}),
            await writer.post(f"{path}/publish"),
            await writer.post(f"{path}/unpublish"),
            await writer.delete(path),
        ):
            refused(refusal, 403)

        assert (draft["content"], draft["hasDraft"]) == ("New text", True)
        assert (await public(blog, "post"))["content"] == "Old text"
        own = ok(await writer.post(OWN_POSTS, json={"title": "Own", "content": ""}), 201)
        assert (await writer.delete(f"{OWN_POSTS}/{own['id']}")).is_success

    async def test_that_may_not_publish_removes_nothing_for_good(self, blog: Blog) -> None:
        """It can delete a draft, which stays in the bin; only who may publish empties that."""
        path = f"{DELETED}/{(await blog.write('Post'))['id']}"
        writer = await blog.token("content:read", "content:draft")
        done(await writer.delete(path.replace(DELETED, OWN_POSTS)))

        refused(await writer.delete(path), 403)
        assert ok(await writer.post(f"{path}/restore"))["title"] == "Post"

    async def test_that_may_only_publish_sees_what_it_publishes(self, blog: Blog) -> None:
        post = await blog.write("Post", "Text")
        publisher = await blog.token("content:read", "content:publish")
        path = f"{OWN_POSTS}/{post['id']}"

        assert ok(await publisher.get(path))["content"] == "Text"
        assert ok(await publisher.post(f"{path}/publish"))["publishedAt"]
        refused(await publisher.put(path, json={"title": "Post", "content": "x"}), 403)


class TestVersion:
    async def test_is_stored_by_each_save_that_changes_something(self, blog: Blog) -> None:
        """With who saved it, with what, and why."""
        post = await blog.write("Post", "One")
        await save(blog, post, content="Two", note="Shorter")
        assistant = await blog.token("content:write", bound=False)
        body = {"title": "Post", "content": "Three"}
        ok(await assistant.put(f"{OWN_POSTS}/{post['id']}", json=body))

        same = ok(await assistant.put(f"{OWN_POSTS}/{post['id']}", json=body))

        assert same["version"] == 3
        owner = "Owner acme-canary"
        assert stored(blog) == [
            (1, "Post", "One", owner, "session", ""),
            (2, "Post", "Two", owner, "session", "Shorter"),
            (3, "Post", "Three", "", "mcp-token", ""),
        ]
        refused(await blog.owner.put(f"{OWN_POSTS}/{post['id']}", json={**body, "note": " "}), 400)

    async def test_is_kept_if_it_is_one_of_the_latest_or_was_published(self, blog: Blog) -> None:
        settings = blog.world.services.settings.model_copy(update={"post_versions": 2})
        async with blog_of(blog.world.with_services(settings=settings)) as few:
            post = await few.publish("Post", "Text 1")
            for number in range(2, 7):
                post = await save(few, post, content=f"Text {number}")
                if number == 3:
                    await publish(few, post)

        assert [number for number, *_ in stored(few)] == [1, 3, 5, 6]

    async def test_of_the_release_before_is_stored_before_it_is_overwritten(
        self, blog: Blog
    ) -> None:
        """Of a post that it has created, and of one that it has changed."""
        post = await blog.publish("Post", "One")
        stored(blog, "UPDATE tenantry_post SET version = 0, saved_at = NULL")
        stored(blog, "DELETE FROM tenantry_post_version")
        assert ok(await blog.owner.get(f"{OWN_POSTS}/{post['id']}"))["version"] == 1

        draft = await save(blog, post, content="Two")
        stored(
            blog,
            "UPDATE tenantry_post SET content = 'Old release', updated_at = created_at"
            " WHERE slug = 'post'",
        )
        await publish(blog, draft)

        assert [(number, text, kind) for number, _, text, _, kind, _ in stored(blog)] == [
            (1, "One", "release"),
            (2, "Two", "session"),
            (3, "Old release", "release"),
            (4, "Two", "session"),
        ]
        assert (await public(blog, "post"))["content"] == "Two"

    async def test_names_its_author_to_who_is_late(self, blog: Blog) -> None:
        post = await blog.write("Post", "One")
        tag = (await blog.owner.get(f"{OWN_POSTS}/{post['id']}")).headers["etag"]
        await save(blog, post, content="Two")

        body = {"title": "Post", "content": "Three"}
        late = await blog.owner.put(
            f"{OWN_POSTS}/{post['id']}", json=body, headers={"if-match": tag}
        )

        assert "version 2, by Owner acme-canary" in refused(late, 412)

    @pytest.mark.parametrize(("kept", "left"), [(1, [5]), (2, [4, 5])])
    async def test_that_was_published_is_one_of_a_bounded_number(
        self, blog: Blog, kept: int, left: list[int]
    ) -> None:
        settings = blog.world.services.settings.model_copy(update={"post_versions": kept})
        async with blog_of(blog.world.with_services(settings=settings)) as few:
            post = await few.publish("Post", "Text 1")
            for number in range(2, 6):
                post = await save(few, post, content=f"Text {number}", publish=True)

        assert [number for number, *_ in stored(few)] == left
