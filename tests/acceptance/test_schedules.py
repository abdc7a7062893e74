"""A schedule publishes and withdraws a post without a request, and without a timer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tenantry.kit.clock import utc_now
from tenantry.services import open_services
from tenantry.tenant.blog.publication import SETTLED_MAX
from testkit.raw_sql import columns, connected
from tests.acceptance.assistants import assistant, data_of, refusal_of
from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import (
    OWN_POSTS,
    POSTS,
    TENANTS,
    database_of,
    ok,
    patch_tenant,
    refused,
)
from tests.conftest import World, app_over

HOUR = timedelta(hours=1)


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


def wire(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


async def schedule(blog: Blog, post: Any, **times: timedelta) -> Any:
    """Return a post with a schedule; *times* are from now on."""
    body = {name: wire(utc_now() + at) for name, at in times.items()}
    return ok(await blog.owner.put(f"{OWN_POSTS}/{post['id']}/schedule", json=body))


def let_pass(blog: Blog, hours: float) -> None:
    """Let time pass: move all schedules to an earlier time."""
    raw, seconds = database_of(blog.world, blog.world.acme.tenant), int(hours * 3600)
    earlier = f"{{}} - interval '{seconds} seconds'"
    if raw.path is not None:
        earlier = f"strftime('%Y-%m-%d %H:%M:%f', {{}}, '-{seconds} seconds') || '000'"
    for table, names in {
        "tenantry_post_schedule": ("publish_at", "unpublish_at", "due_at"),
        "tenantry_blog_state": ("due_at",),
    }.items():
        values = (f"{name} = {earlier.format(name)}" for name in names)
        raw.run(f"UPDATE {table} SET {', '.join(values)}")


def copies(blog: Blog, count: int) -> None:
    """Add copies of the post `later` and its schedule, as rows."""
    raw = database_of(blog.world, blog.world.acme.tenant)
    new_id = "gen_random_uuid()" if raw.path is None else "lower(hex(randomblob(16)))"
    names = ", ".join(columns(raw.url, "tenantry_post")[2:])
    raw.run(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
        f" INSERT INTO tenantry_post (id, slug, {names}) SELECT {new_id}, {new_id}, {names}"
        " FROM tenantry_post, n WHERE slug = 'later'"
    )
    raw.run(
        "INSERT INTO tenantry_post_schedule SELECT id, publish_at, unpublish_at, due_at, s.tags"
        " FROM tenantry_post, tenantry_post_schedule s"
        " WHERE title = 'Later' AND slug <> 'later'"
    )


@contextmanager
def locked(blog: Blog) -> Iterator[None]:
    """Let no write to the blog proceed during the block."""
    raw = database_of(blog.world, blog.world.acme.tenant)
    with connected(raw.url) as query:
        query("BEGIN" if raw.path is None else "BEGIN IMMEDIATE")
        if raw.path is None:
            query("SELECT 1 FROM tenantry_blog_state FOR UPDATE")
        yield
        query("ROLLBACK")


def schedules(blog: Blog) -> int:
    raw = database_of(blog.world, blog.world.acme.tenant)
    return int(raw.run("SELECT count(*) FROM tenantry_post_schedule")[0][0])


async def shown(blog: Blog, post: Any) -> Any:
    return ok(await blog.owner.get(f"{OWN_POSTS}/{post['id']}"))


async def public_tag(blog: Blog, path: str = "") -> str:
    return str((await blog.public.get(f"{POSTS}{path}")).headers["etag"])


async def is_unchanged(blog: Blog, tag: str) -> bool:
    found = await blog.public.get(POSTS, headers={"if-none-match": tag})
    return found.status_code == 304


class TestPublishAt:
    async def test_shows_a_draft_from_its_time_on(self, blog: Blog) -> None:
        """On its page, in the lists and counts, also of a tag; at the place of its time."""
        draft = await blog.write("Later", tags=["Plans", "news"])
        waiting = await schedule(blog, draft, publishAt=HOUR)
        await blog.publish("Newest")

        assert waiting == {**draft, "publishAt": waiting["publishAt"]}
        assert ok(await blog.owner.get(OWN_POSTS))["items"][1]["publishAt"] == waiting["publishAt"]
        assert await blog.public_titles() == ["Newest", "Hello from acme"]
        refused(await blog.public.get(f"{POSTS}/later"), 404)

        let_pass(blog, 1)

        assert sorted(await blog.public_titles()) == ["Hello from acme", "Later", "Newest"]
        assert await blog.public_titles(tag="plans") == ["Later"]
        assert len(await blog.public_titles(tag="news")) == 2
        titles = [
            ok(await blog.public.get(POSTS, params={"page": at, "pageSize": 1}))["items"][0][
                "title"
            ]
            for at in (1, 2, 3)
        ]
        assert titles == await blog.public_titles()
        post = ok(await blog.public.get(f"{POSTS}/later"))
        assert post["publishedAt"] == post["updatedAt"]

    async def test_makes_the_draft_of_a_published_post_live(self, blog: Blog) -> None:
        """Text, slug and tags, as they are then: a save until then counts."""
        post = await blog.publish("Before", "Old text", tags=["old"])
        await blog.change(post, title="After", slug="after", tags=["new"], publish=False)
        await schedule(blog, post, publishAt=HOUR)
        draft = await blog.change(
            post, title="Last", content="New text", tags=["Newer"], publish=False
        )
        assert draft["publishAt"] is not None
        assert ok(await blog.public.get(f"{POSTS}/before"))["content"] == "Old text"

        let_pass(blog, 1)

        live = ok(await blog.public.get(f"{POSTS}/after"))
        assert (live["title"], live["content"], live["tags"]) == ("Last", "New text", ["Newer"])
        assert live["publishedAt"] == post["publishedAt"]
        refused(await blog.public.get(f"{POSTS}/before"), 404)
        for tag, titles in {"old": [], "new": [], "newer": ["Last"]}.items():
            assert await blog.public_titles(tag=tag) == titles
            assert await blog.titles(tag=tag) == titles
        reader = await blog.token("content:read")
        assert ok(await reader.get(f"{OWN_POSTS}/{post['id']}"))["title"] == "Last"
        for search, count in {"old text": 0, "new text": 1}.items():
            page = ok(await reader.get(OWN_POSTS, params={"search": search}))
            assert page["totalCount"] == count

    async def test_is_ended_by_publishing_and_unpublishing(self, blog: Blog) -> None:
        one, other, third = [await blog.write(title) for title in ("One", "Other", "Third")]
        for post in (one, other, third):
            await schedule(blog, post, publishAt=HOUR, unpublishAt=2 * HOUR)

        live = ok(await blog.owner.post(f"{OWN_POSTS}/{one['id']}/publish"))
        hidden = ok(await blog.owner.post(f"{OWN_POSTS}/{other['id']}/unpublish"))
        changed = await blog.change(third, publish=True)

        assert (live["publishAt"], live["unpublishAt"] is None) == (None, False)
        assert (hidden["publishAt"], hidden["unpublishAt"]) == (None, None)
        assert (changed["publishAt"], changed["unpublishAt"] is None) == (None, False)
        let_pass(blog, 1.5)
        assert sorted(await blog.public_titles()) == ["Hello from acme", "One", "Third"]


class TestUnpublishAt:
    async def test_hides_a_post_from_its_time_on(self, blog: Blog) -> None:
        post = await blog.publish("Offer", tags=["sale"])
        await schedule(blog, post, unpublishAt=HOUR)
        assert await blog.public_titles(tag="sale") == ["Offer"]

        let_pass(blog, 1)

        refused(await blog.public.get(f"{POSTS}/offer"), 404)
        assert await blog.public_titles() == ["Hello from acme"]
        assert await blog.public_titles(tag="sale") == []
        hidden = await shown(blog, post)
        assert (hidden["publishedAt"], hidden["unpublishAt"]) == (None, None)
        assert await blog.titles(status="draft") == ["Offer"]
        assert await blog.titles(status="published") == ["Hello from acme"]

    async def test_ends_what_publish_at_began(self, blog: Blog) -> None:
        draft = await blog.write("Offer")
        await schedule(blog, draft, publishAt=HOUR, unpublishAt=3 * HOUR)

        for hours, is_shown in ((1, True), (1, True), (1, False), (1, False)):
            let_pass(blog, hours)
            answer = await blog.public.get(f"{POSTS}/offer")
            assert answer.is_success == is_shown
            assert ("Offer" in await blog.public_titles()) == is_shown


class TestTime:
    @pytest.mark.slow
    async def test_readers_obey_it_to_the_second_in_every_process(self, blog: Blog) -> None:
        """With its count and entity tag: no answer before it is new, no answer after it is old."""
        draft = await blog.write("Exact")
        seen: dict[str, set[str]] = {"before": set(), "while": set(), "after": set()}
        async with open_services(blog.world.services.settings) as services:
            other = replace(blog.world, app=app_over(services)).public(blog.world.acme)
            ok(await other.get(POSTS))  # so that its connections are open
            body = {
                "publishAt": wire(begin := utc_now() + timedelta(seconds=5)),
                "unpublishAt": wire(end := begin + timedelta(seconds=5)),
            }
            ok(await blog.owner.put(f"{OWN_POSTS}/{draft['id']}/schedule", json=body))
            while (asked := utc_now()) < end + timedelta(seconds=0.3) or not seen["after"]:
                for client in (blog.public, other):
                    page = await client.get(POSTS)
                    answered = utc_now()
                    is_while = asked >= begin and answered < end
                    if is_while or answered < begin or asked >= end:
                        when = "while" if is_while else "before" if answered < begin else "after"
                        seen[when].add(page.headers["etag"])
                        assert ok(page)["totalCount"] == 1 + is_while
                    asked = utc_now()
                await asyncio.sleep(0.02)
        assert [len(seen[one]) for one in ("before", "while", "after")] == [1, 1, 1]
        assert len(set.union(*seen.values())) == 3

    async def test_is_that_of_the_operators_counts(self, blog: Blog) -> None:
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR)
        let_pass(blog, 1)
        admin, path = await blog.world.admin(), f"{TENANTS}/{blog.world.acme.tenant.id}/overview"

        found = ok(await admin.get(path))["contents"]

        assert (found["postCount"], found["publishedCount"]) == (2, 2)
        assert found["posts"][0]["publishedAt"] == (await shown(blog, draft))["publishedAt"]

    async def test_comes_for_a_read_only_tenant_too(self, blog: Blog) -> None:
        """Nothing is written there, and readers see what is due."""
        later, offer = await blog.write("Later"), await blog.publish("Offer")
        await schedule(blog, later, publishAt=HOUR)
        await schedule(blog, offer, unpublishAt=HOUR)
        await patch_tenant(blog.world, blog.world.acme, isReadOnly=True)

        let_pass(blog, 1)

        assert await blog.public_titles() == ["Later", "Hello from acme"]
        assert schedules(blog) == 2

    async def test_changes_the_entity_tags_of_readers_and_editors(self, blog: Blog) -> None:
        post = await blog.publish("Offer")
        own = (await blog.owner.get(f"{OWN_POSTS}/{post['id']}")).headers["etag"]
        await schedule(blog, post, unpublishAt=HOUR)
        tag = await public_tag(blog)
        assert await is_unchanged(blog, tag)
        stale = await blog.owner.put(
            f"{OWN_POSTS}/{post['id']}/schedule", json={}, headers={"if-match": own}
        )
        refused(stale, 412)

        let_pass(blog, 1)

        assert not await is_unchanged(blog, tag)
        assert await is_unchanged(blog, await public_tag(blog))


class TestAWrite:
    async def test_begins_with_what_is_due(self, blog: Blog) -> None:
        """Then the rows are what readers have seen already, and a schedule has no row."""
        draft, offer = await blog.write("Later", tags=["plans"]), await blog.publish("Offer")
        draft = await schedule(blog, draft, publishAt=HOUR)
        await schedule(blog, offer, unpublishAt=HOUR)
        let_pass(blog, 2)
        pages = [{}, {"tag": "plans"}, {"page": 2, "pageSize": 1}]
        before = [ok(await blog.public.get(POSTS, params=page)) for page in pages]
        own = [await shown(blog, post) for post in (draft, offer)]

        await blog.write("Any other")

        assert schedules(blog) == 0
        assert [ok(await blog.public.get(POSTS, params=page)) for page in pages] == before
        assert [await shown(blog, post) for post in (draft, offer)] == own
        versions = ok(await blog.owner.get(f"{OWN_POSTS}/{draft['id']}/versions"))["items"]
        assert versions[0]["publishedAt"] == own[0]["publishedAt"]
        raw = database_of(blog.world, blog.world.acme.tenant)
        entries = raw.run("SELECT action FROM tenantry_audit WHERE actor = 'schedule'")
        assert sorted(entries) == [("post.publish",), ("post.unpublish",)]

    async def test_changes_for_readers_what_was_published_by_a_schedule(self, blog: Blog) -> None:
        """An editor's save without `publish` follows the state that the editor has seen."""
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR)
        let_pass(blog, 1)
        assert (await shown(blog, draft))["publishedAt"] is not None

        await blog.change(draft, content="Corrected.")

        assert ok(await blog.public.get(f"{POSTS}/later"))["content"] == "Corrected."

    async def test_is_possible_though_another_post_has_taken_the_slug(self, blog: Blog) -> None:
        """The release before does not know that a draft reserves it."""
        post = await blog.publish("Post")
        await blog.change(post, slug="wanted", publish=False)
        await schedule(blog, post, publishAt=HOUR)
        raw = database_of(blog.world, blog.world.acme.tenant)
        raw.run("UPDATE tenantry_post SET slug = 'wanted' WHERE slug = 'hello-from-acme'")
        let_pass(blog, 1)

        await blog.write("Any other")
        await blog.change(post, slug="free", publish=False)
        await blog.write("One more")

        assert schedules(blog) == 0
        assert ok(await blog.public.get(f"{POSTS}/free"))["title"] == "Post"

    async def test_settles_any_number_of_posts(self, blog: Blog) -> None:
        """In several transactions: more than one of them takes."""
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR)
        copies(blog, SETTLED_MAX * 2)
        let_pass(blog, 1)
        count = 2 + SETTLED_MAX * 2
        assert ok(await blog.public.get(POSTS))["totalCount"] == count

        await blog.delete(draft)
        for _ in range(10):  # a slow machine needs more than one write
            await blog.write("Any other") if schedules(blog) else None

        assert schedules(blog) == 0
        assert ok(await blog.public.get(POSTS))["totalCount"] == count - 1

    async def test_takes_a_second_for_what_is_due_and_leaves_the_rest(self, blog: Blog) -> None:
        """It begins with its own post, so that is changed as its editor has seen it."""
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR)
        copies(blog, 5000)
        own = await blog.write("Own")
        await schedule(blog, own, publishAt=HOUR)  # the last one
        let_pass(blog, 2)
        seen = await blog.owner.get(f"{OWN_POSTS}/{own['id']}")

        path, body = f"{OWN_POSTS}/{own['id']}", {"title": "Own", "content": "Corrected."}
        answer = await blog.owner.put(path, json=body, headers={"if-match": seen.headers["etag"]})

        changed = ok(answer)
        assert (changed["publishedAt"], changed["hasDraft"]) == (ok(seen)["publishedAt"], False)
        assert ok(await blog.public.get(f"{POSTS}/own"))["content"] == "Corrected."
        assert 0 < schedules(blog) < 5001
        assert ok(await blog.public.get(POSTS))["totalCount"] == 5003

    async def test_follows_what_becomes_due_while_it_waits(self, blog: Blog) -> None:
        """Readers may have seen the draft of before already, so the save is the next draft."""
        post = await blog.publish("Before")
        await blog.change(post, title="After", publish=False)
        due = await schedule(blog, post, publishAt=timedelta(seconds=3))
        with locked(blog):
            late = {"title": "Late", "content": "Late", "publish": False}
            save = asyncio.create_task(blog.owner.put(f"{OWN_POSTS}/{post['id']}", json=late))
            left = datetime.fromisoformat(due["publishAt"]) - utc_now()
            await asyncio.sleep(left.total_seconds() + 0.3)

        saved = ok(await save)

        assert (saved["hasDraft"], saved["publishAt"]) == (True, None)
        assert "After" in await blog.public_titles()

    async def test_of_a_draft_that_will_be_published_changes_the_entity_tag_of_readers(
        self, blog: Blog
    ) -> None:
        """A process whose clock is ahead has shown the draft of before."""
        post = await blog.publish("Before")
        await blog.change(post, title="After", publish=False)
        tag = await public_tag(blog)
        await schedule(blog, post, publishAt=HOUR)
        assert not await is_unchanged(blog, tag)
        tag = await public_tag(blog)

        await blog.change(post, title="Last", publish=False)

        assert not await is_unchanged(blog, tag)

    async def test_is_compared_with_what_its_editor_has_read(self, blog: Blog) -> None:
        """Also if the slug is taken, so the row is not yet what editors read."""
        post = await blog.publish("Post")
        await blog.change(post, slug="wanted", publish=False)
        await schedule(blog, post, publishAt=HOUR)
        raw = database_of(blog.world, blog.world.acme.tenant)
        raw.run("UPDATE tenantry_post SET slug = 'wanted' WHERE slug = 'hello-from-acme'")
        let_pass(blog, 1)
        path, body = f"{OWN_POSTS}/{post['id']}", {**_text(post), "slug": "free"}
        read = await blog.owner.get(path)
        assert ok(read)["hasDraft"] is False

        saved = await blog.owner.put(path, json=body, headers={"if-match": read.headers["etag"]})

        assert ok(saved)["slug"] == "free"
        refused(await blog.owner.put(path, json=body, headers={"if-match": '"other"'}), 412)

    async def test_leaves_a_draft_to_the_one_who_has_saved_it(self, blog: Blog) -> None:
        """Of a post that the release before has written; its version is stored once more."""
        post = await blog.publish("Before")
        await blog.change(post, title="After", publish=False)
        await schedule(blog, post, publishAt=HOUR)
        raw = database_of(blog.world, blog.world.acme.tenant)
        raw.run(
            "UPDATE tenantry_post SET title = 'Of the release before',"
            " updated_at = '2026-01-02 00:00:00.000000' WHERE slug = 'before'"
        )
        let_pass(blog, 1)
        before = await shown(blog, post)
        bystander = await blog.token("content:write", bound=False)

        ok(await bystander.post(OWN_POSTS, json={"title": "Other", "content": "Text"}), 201)

        assert await shown(blog, post) == before
        found = ok(await blog.owner.get(f"{OWN_POSTS}/{post['id']}/versions"))["items"]
        assert [(one["number"], one["title"], one["kind"]) for one in found] == [
            (4, "After", "session"),
            (3, "Of the release before", "release"),
            (2, "After", "session"),
            (1, "Before", "session"),
        ]
        assert found[0]["authorName"] == found[2]["authorName"] != ""
        assert (before["version"], found[0]["publishedAt"]) == (4, before["updatedAt"])

    async def test_records_what_is_due_at_its_own_time_and_not_by_its_address(
        self, blog: Blog
    ) -> None:
        """At the time of the write: so an export since the last one misses nothing."""
        both = await blog.write("Offer")
        times = await schedule(blog, both, publishAt=HOUR, unpublishAt=2 * HOUR)
        let_pass(blog, 3)
        admin = await blog.world.admin()
        log = f"{TENANTS}/{blog.world.acme.tenant.id}/audit-log"
        last = ok(await admin.get(log))["items"][0]

        await blog.write("Any other")

        entries = ok(await admin.get(log, params={"since": last["at"]}))["items"]
        found = {one["action"]: one for one in entries if one["actor"] == "schedule"}
        assert found.keys() == {"post.publish", "post.unpublish"}
        for action, name in {"post.publish": "publishAt", "post.unpublish": "unpublishAt"}.items():
            one = found[action]
            assert one["target"] == both["id"]
            assert (one["address"], one["command"], one["requestId"]) == ("", None, "")
            change, shown = one["changes"]
            assert (change["field"], change["new"]) == (name, None)
            assert shown["field"] == "publishedSlug"
            moment = datetime.fromisoformat(times[name])
            passed = moment - datetime.fromisoformat(change["old"])
            assert abs(passed - 3 * HOUR) < timedelta(milliseconds=1)


class TestSchedule:
    async def test_is_replaced_and_removed(self, blog: Blog) -> None:
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR, unpublishAt=2 * HOUR)
        assert (await schedule(blog, draft, publishAt=3 * HOUR))["unpublishAt"] is None
        assert (await schedule(blog, draft))["publishAt"] is None

        let_pass(blog, 4)

        refused(await blog.public.get(f"{POSTS}/later"), 404)

    async def test_is_rejected_if_a_time_breaks_a_rule(self, blog: Blog) -> None:
        """Not in UTC, without a zone, in the past, in the wrong order, or not a time."""
        draft = await blog.write("Later")
        soon, later = (utc_now() + HOUR * hours for hours in (1, 2))
        for body in (
            {"publishAt": soon.isoformat().replace("+00:00", "")},
            {"publishAt": soon.isoformat().replace("+00:00", "+02:00")},
            {"publishAt": wire(soon - 2 * HOUR)},
            {"publishAt": wire(later), "unpublishAt": wire(soon)},
            {"publishAt": wire(soon), "unpublishAt": wire(soon)},
            {"publishAt": "tomorrow"},
            {"publishAt": 1},
        ):
            refused(await blog.owner.put(f"{OWN_POSTS}/{draft['id']}/schedule", json=body), 400)
        assert schedules(blog) == 0

    async def test_is_rejected_if_there_is_nothing_to_do(self, blog: Blog) -> None:
        draft, live = await blog.write("Draft"), await blog.publish("Live")
        at = wire(utc_now() + HOUR)
        for post, body in ((draft, {"unpublishAt": at}), (live, {"publishAt": at})):
            path = f"{OWN_POSTS}/{post['id']}/schedule"
            refused(await blog.owner.put(path, json=body), 409)
        token = await blog.token("content:draft")
        path = f"{OWN_POSTS}/{draft['id']}/schedule"
        refused(await token.put(path, json={"publishAt": at}), 403)

    async def test_is_seen_by_assistants(self, blog: Blog) -> None:
        draft = await blog.write("Later")
        waiting = await schedule(blog, draft, publishAt=HOUR)
        async with assistant(blog.world, await blog.world.mcp_token(blog.world.acme)) as client:
            (found, *_) = data_of(await client.call_tool("list_posts", {}))["items"]
        assert found["publishAt"] == waiting["publishAt"]

    async def test_ends_with_its_post(self, blog: Blog) -> None:
        """Restored from the bin, it is a draft without one."""
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR)
        await blog.delete(draft)
        assert schedules(blog) == 0
        path = f"/api/tenant/blog/deleted-posts/{draft['id']}/restore"
        assert ok(await blog.owner.post(path))["publishAt"] is None


class TestATokenThatMayNotPublish:
    async def test_changes_no_post_that_is_scheduled_to_be_published(self, blog: Blog) -> None:
        """By no way to change its text; else readers would see the token's own."""
        post = await blog.write("Approved", "Approved text")
        await blog.change(post, content="Corrected text")
        live = await blog.publish("Live")
        await blog.change(live, title="Approved too", publish=False)
        secret = await blog.world.mcp_token(blog.world.acme, "content:draft", "content:read")
        token = await blog.client(x_mcp_token=secret)
        async with assistant(blog.world, secret) as client:
            for one in (post, live):
                path = f"{OWN_POSTS}/{one['id']}"
                waiting = await schedule(blog, one, publishAt=HOUR)
                for answer in (
                    await token.put(path, json={"title": "Mine", "content": "Mine"}),
                    await token.put(path, json={**_text(waiting), "slug": "mine"}),
                    await token.put(path, json={**_text(waiting), "tags": ["mine"]}),
                    await token.post(f"{path}/versions/1/restore"),
                    await token.delete(path),
                ):
                    refused(answer, 403)
                wanted = {"slug": waiting["slug"], "title": "Mine"}
                told = refusal_of(await client.call_tool("update_post", wanted))
                assert "is scheduled to be published" in told
                assert await shown(blog, one) == waiting
        let_pass(blog, 1)

        assert sorted(await blog.public_titles()) == ["Approved", "Approved too", "Hello from acme"]
        ok(await token.put(path, json={"title": "Mine", "content": "Mine", "publish": False}))
        assert "Mine" not in await blog.public_titles()

    async def test_changes_a_post_that_is_only_scheduled_to_be_withdrawn(self, blog: Blog) -> None:
        live = await blog.publish("Live")
        await schedule(blog, live, unpublishAt=HOUR)
        token = await blog.token("content:draft")
        changed = await token.put(f"{OWN_POSTS}/{live['id']}", json={"title": "A", "content": "B"})
        assert ok(changed)["hasDraft"] is True


def _text(post: Any) -> dict[str, str]:
    return {name: post[name] for name in ("title", "content")}
