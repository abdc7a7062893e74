"""Targets of a tenant get what its readers see differently; other targets do not."""

import asyncio
import base64
import dataclasses
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from tenantry.backup import cloning, creating, moving, replacing, restoring
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import deleted_tenants, outbox, tenants
from tenantry.catalog.pace import Pace
from tenantry.catalog.post_hooks import SEEN_MAX, Cursor, Progress
from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.hook_settings import Hook
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant import audit
from tenantry.tenant.blog import post_events, publication, state
from tenantry.tenant.databases import TenantDatabases
from tenantry.work.hook_status import status_of
from tenantry.work.post_hooks import OVERLAP, WAITING_MAX
from tenantry.work.progress import Progress as Copied
from testkit import raw_sql
from testkit.faults import Faults
from testkit.hook_endpoint import Endpoint, endpoint
from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import OWN_POSTS, ok, patch_tenant, until
from tests.acceptance.test_schedules import copies, let_pass
from tests.conftest import Content, make_content, world_of

SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"
QUICK = Pace(redelivery_seconds=0.05, post_events_seconds=0.05, moments_late_seconds=0)
HOUR = timedelta(hours=1)
CURSORS = "SELECT * FROM post_hook"
PUBLISHED, CHANGED, UNPUBLISHED = "post.published", "post.changed", "post.unpublished"


@pytest.fixture(name="hooked")
def _hooked() -> Iterator[Endpoint]:
    with endpoint() as served:
        yield served


@pytest.fixture(name="content")
async def _content(settings: Settings, copied: Content | None) -> Content:
    """Its tenants are there before the settings that name them."""
    if copied is not None:
        return copied
    async with open_services(settings, works=False) as services:
        return await make_content(services)


@pytest.fixture(name="hooked_settings")
def _hooked_settings(settings: Settings, content: Content, hooked: Endpoint) -> Settings:
    """Settings with a target for the posts of acme."""
    return _with(settings, site=_target(hooked, content.acme.tenant.id))


@pytest.fixture(name="blog")
async def _blog(hooked_settings: Settings, content: Content) -> AsyncIterator[Blog]:
    async with worked_on(hooked_settings, content) as blog:
        yield blog


def _with(settings: Settings, **hooks: dict[str, Any]) -> Settings:
    return settings.model_copy(update={"hooks": {name: Hook(**one) for name, one in hooks.items()}})


def _target(hooked: Endpoint, *ids: UUID, **more: Any) -> dict[str, Any]:
    return {"url": hooked.url, "secret": SECRET, "tenants": ids, **more}


@asynccontextmanager
async def worked_on(
    settings: Settings, content: Content, pace: Pace = QUICK, **more: Any
) -> AsyncIterator[Blog]:
    """Yield the blog of acme over services with these *settings*."""
    async with (
        open_services(settings, pace=pace, **more) as services,
        blog_of(world_of(services, content)) as blog,
    ):
        yield blog


async def sent_to(hooked: Endpoint, *events: str) -> list[dict[str, Any]]:
    """Return the data of the messages when these events have come; no others have."""
    await asyncio.to_thread(hooked.wait_for, len(events))
    await asyncio.sleep(0.3)
    assert hooked.events == list(events)
    return [one["data"] for one in hooked.messages]


async def schedule(blog: Blog, post: Any, **times: timedelta) -> None:
    body = {name: (utc_now() + at).isoformat() for name, at in times.items()}
    ok(await blog.owner.put(f"{OWN_POSTS}/{post['id']}/schedule", json=body))


async def _shown(blog: Blog, slug: str, *, at: datetime) -> None:
    """Write the entry of a publication by a process of another time."""
    ctx = replace(system_context("other"), now=at)
    services = blog.world.services
    tenant = await tenants.get(services.catalog, blog.world.acme.tenant.id)
    database = await services.databases.open(tenant, writes=True)
    async with state.writing(database) as session:
        change = publication.shown_change(None, slug)
        await audit.LOG.add(session, ctx, "post.publish", new_id(), changes=change)
        await state.change(session)


async def _backed_up(services: Services, tenant: Tenant, folder: Path) -> bytes:
    job = await creating.back_up(
        system_context("test"), services.copying, tenant, FolderTarget(folder), progress=Copied()
    )
    return await asyncio.to_thread(Path(str(job.archive)).read_bytes)


async def _queued(services: Services) -> int:
    [status] = await status_of(services.catalog, services.settings.hooks)
    return status.counts.queued


class TestAPost:
    async def test_that_is_published_changed_and_withdrawn_is_sent_in_order(
        self, blog: Blog, hooked: Endpoint
    ):
        post = await blog.publish("Salt & time", "Never send this.")
        await blog.change(post, content="Nor this.", publish=True)
        await blog.change(post, slug="brine", publish=True)
        await blog.owner.post(f"{OWN_POSTS}/{post['id']}/unpublish")

        data = await sent_to(hooked, PUBLISHED, CHANGED, CHANGED, UNPUBLISHED)

        acme = blog.world.acme.tenant
        assert data[0] == {
            "text": "Post salt-time of tenant acme was published.",
            "tenantId": str(acme.id),
            "tenantName": "acme",
            "postId": post["id"],
            "slug": "salt-time",
            "previousSlug": None,
        }
        assert [one["slug"] for one in data[1:]] == ["salt-time", "brine", "brine"]
        assert [one["previousSlug"] for one in data[1:]] == [None, "salt-time", None]
        assert hooked.messages[0]["timestamp"] == post["publishedAt"]
        assert b"this" not in b"".join(body for _, body in hooked.received)
        assert len(set(hooked.ids)) == 4

    async def test_is_sent_when_readers_see_it_and_its_drafts_are_not(
        self, blog: Blog, hooked: Endpoint
    ):
        draft = await blog.write("Only a draft")
        await blog.change(draft, content="Changed.")
        await blog.delete(draft)
        post = await blog.write("At once", publish=True)
        await blog.change(post, slug="later", publish=False)
        await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish")
        await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish")
        await blog.change(post, slug="never", publish=False)
        await blog.delete(post)

        data = await sent_to(hooked, PUBLISHED, CHANGED, UNPUBLISHED)

        assert [one["slug"] for one in data] == ["at-once", "later", "later"]
        assert data[1]["previousSlug"] == "at-once"

    async def test_of_a_tenant_that_no_target_names_is_not_sent(self, blog: Blog, hooked: Endpoint):
        globex = await blog.owner_of(blog.world.globex)
        body = {"title": "Secret of globex", "content": "Text.", "publish": True}
        ok(await globex.post(OWN_POSTS, json=body), 201)
        await blog.publish("Of acme")

        [data] = await sent_to(hooked, PUBLISHED)

        assert data["tenantName"] == "acme"
        assert "globex" not in str(hooked.messages)

    async def test_is_sent_only_to_the_targets_of_its_tenant(
        self, settings: Settings, content: Content, hooked: Endpoint
    ):
        acme, globex = content.acme.tenant.id, content.globex.tenant.id
        with endpoint() as other, endpoint() as runs:
            hooked_settings = _with(
                settings,
                both=_target(hooked, acme, globex),
                ends=_target(other, globex, events=[UNPUBLISHED]),
                runs={"url": runs.url, "secret": SECRET},
            )
            async with worked_on(hooked_settings, content) as blog:
                await blog.publish("Of acme")
                theirs = await blog.owner_of(content.globex)
                body = {"title": "Of globex", "content": "Text.", "publish": True}
                post = ok(await theirs.post(OWN_POSTS, json=body), 201)
                ok(await theirs.post(f"{OWN_POSTS}/{post['id']}/unpublish"))
                await asyncio.to_thread(hooked.wait_for, 3)
                await sent_to(other, UNPUBLISHED)
            assert runs.received == []


class TestASchedule:
    async def test_is_sent_without_a_write_and_once(self, blog: Blog, hooked: Endpoint):
        """The first write after it, which changes the rows, is no other event."""
        draft, live = await blog.write("Later"), await blog.publish("Offer")
        await schedule(blog, draft, publishAt=HOUR, unpublishAt=3 * HOUR + timedelta(seconds=0.1))
        await sent_to(hooked, PUBLISHED)
        let_pass(blog, 1)
        await sent_to(hooked, PUBLISHED, PUBLISHED)
        await blog.change(live, content="Now.", publish=True)
        await sent_to(hooked, PUBLISHED, PUBLISHED, CHANGED)
        let_pass(blog, 2)
        data = await sent_to(hooked, PUBLISHED, PUBLISHED, CHANGED, UNPUBLISHED)
        await blog.write("Any other")
        await sent_to(hooked, PUBLISHED, PUBLISHED, CHANGED, UNPUBLISHED)

        assert [one["slug"] for one in data] == ["offer", "later", "offer", "later"]

    async def test_that_a_write_has_settled_while_no_process_worked_is_sent(
        self, hooked_settings: Settings, content: Content, hooked: Endpoint
    ):
        async with worked_on(hooked_settings, content) as blog:
            live = await blog.publish("Offer")
            await sent_to(hooked, PUBLISHED)
        async with worked_on(hooked_settings, content, works=False) as blog:
            await blog.change(live, slug="bargain", publish=False)
            await schedule(blog, live, publishAt=HOUR, unpublishAt=HOUR + timedelta(seconds=0.1))
            await asyncio.sleep(0.2)
            let_pass(blog, 1)
            await blog.write("Any other")
        async with worked_on(hooked_settings, content):
            data = await sent_to(hooked, PUBLISHED, CHANGED, UNPUBLISHED)

        assert data[1]["previousSlug"] == "offer"
        assert data[2]["slug"] == "bargain"

    async def test_is_sent_when_readers_see_it_also_by_a_process_with_a_fast_clock(
        self, hooked_settings: Settings, content: Content, hooked: Endpoint
    ):
        # The outbox is read for the first time before it, also on a busy machine.
        pace = dataclasses.replace(QUICK, moments_late_seconds=6)
        async with worked_on(hooked_settings, content, pace) as blog:
            await schedule(blog, await blog.write("Later"), publishAt=HOUR)
            let_pass(blog, 1)
            await asyncio.sleep(0.6)
            assert await _queued(blog.world.services) == 0
            await sent_to(hooked, PUBLISHED)

    async def test_of_more_posts_than_can_wait_drops_none(self, blog: Blog, hooked: Endpoint):
        """The rest waits in the tenant's own log while an endpoint hangs."""
        hooked.answers = [hooked.hang]
        await schedule(blog, await blog.write("Later"), publishAt=HOUR)
        count = outbox.QUEUED_MAX + 30
        copies(blog, count)
        let_pass(blog, 1)
        await sent_to(hooked, PUBLISHED)
        services = blog.world.services
        await until(lambda: _queued(services), lambda found: found == WAITING_MAX)
        await asyncio.sleep(0.3)
        assert await _queued(services) == WAITING_MAX

        hooked.released.set()
        await asyncio.to_thread(hooked.wait_for, count + 2)

        [status] = await status_of(services.catalog, services.settings.hooks)
        assert status.counts.dropped == 0
        assert len({one["data"]["postId"] for one in hooked.messages}) == count + 1


class TestAProcess:
    async def test_that_is_killed_between_the_outbox_and_the_cursor_sends_once(
        self, blog: Blog, hooked: Endpoint, faults: Faults
    ):
        """Both are one transaction: neither was written, and both are written again."""

        def lose(*_: object, **__: object) -> None:
            lost.append(True)
            raise DatabaseUnavailable

        lost: list[bool] = []
        faults.after(outbox, "add", lose, once=True)
        await blog.publish("Salt")
        while not lost:  # noqa: ASYNC110 - the fault sets it
            await asyncio.sleep(0.02)

        await sent_to(hooked, PUBLISHED)

    async def test_that_has_ended_is_replaced_by_another_which_sends_nothing_twice(
        self, hooked_settings: Settings, content: Content, hooked: Endpoint
    ):
        """Also of what was written while none was there."""
        async with worked_on(hooked_settings, content) as blog:
            await blog.publish("First")
            await sent_to(hooked, PUBLISHED)
        async with worked_on(hooked_settings, content, works=False) as blog:
            await blog.publish("Second")
        async with (
            worked_on(hooked_settings, content) as first,
            worked_on(hooked_settings, content),
        ):
            await sent_to(hooked, PUBLISHED, PUBLISHED)
            await first.publish("Third")
            data = await sent_to(hooked, PUBLISHED, PUBLISHED, PUBLISHED)

        assert [one["slug"] for one in data] == ["first", "second", "third"]

    async def test_with_a_fast_clock_hides_no_event_of_another(self, blog: Blog, hooked: Endpoint):
        """The entry of the other is written later, and has an earlier time."""
        await _shown(blog, "ahead", at=utc_now() + OVERLAP / 2)
        await sent_to(hooked, PUBLISHED)
        await blog.publish("Now")
        await sent_to(hooked, PUBLISHED, PUBLISHED)
        await blog.publish("Again")

        data = await sent_to(hooked, PUBLISHED, PUBLISHED, PUBLISHED)

        assert [one["slug"] for one in data] == ["ahead", "now", "again"]

    async def test_begins_with_what_happens_after_its_start(
        self, settings: Settings, content: Content, hooked: Endpoint
    ):
        acme = content.acme.tenant.id
        async with worked_on(settings, content) as blog:
            await blog.publish("Before the target")
        await asyncio.sleep(0.01)
        async with worked_on(_with(settings, site=_target(hooked, acme)), content) as blog:
            await blog.publish("After it")
            [data] = await sent_to(hooked, PUBLISHED)
        assert data["slug"] == "after-it"

    def test_forgets_the_oldest_of_too_many_positions(self):
        positions = [f"{number:06}" for number in range(SEEN_MAX + 5)]
        progress = Progress("").after(positions)
        assert Progress("").after(positions, settled="9").since == positions[-1]
        assert Progress("").after(positions, settled=positions[7]).since == positions[7]
        assert progress.since == positions[4]
        assert len(progress.seen) == SEEN_MAX
        assert all(map(progress.has, positions))
        assert not progress.has("1")


class TestATenant:
    async def test_that_is_suspended_sends_when_it_is_active_again(
        self, blog: Blog, hooked: Endpoint
    ):
        draft = await blog.write("Later")
        await schedule(blog, draft, publishAt=HOUR)
        await patch_tenant(blog.world, blog.world.acme, isActive=False)
        await asyncio.sleep(1)  # a read that has begun ends
        let_pass(blog, 1)
        await asyncio.sleep(1.5)
        assert hooked.received == []
        await patch_tenant(blog.world, blog.world.acme, isActive=True)
        await sent_to(hooked, PUBLISHED)

    async def test_that_is_moved_sends_after_that(
        self, settings: Settings, content: Content, hooked: Endpoint
    ):
        url = settings.servers["default"].address
        far = url if sqlite_path(url) is None else f"sqlite:///{settings.data_dir / 'far'}"
        values = settings.model_dump(exclude_unset=True)
        both = Settings(**{**values, "tenant_servers": {"far": {"url": far}}})
        hooked_settings = _with(both, site=_target(hooked, content.acme.tenant.id))
        async with worked_on(hooked_settings, content) as blog:
            await blog.publish("Before")
            await sent_to(hooked, PUBLISHED)
            services = blog.world.services
            await moving.move(
                system_context("test"),
                services.copying,
                content.acme.tenant,
                server_name="far",
                progress=Copied(),
            )
            await blog.publish("After")
            await sent_to(hooked, PUBLISHED, PUBLISHED)

    async def test_that_is_cloned_sends_nothing_of_its_past(
        self, settings: Settings, content: Content, hooked: Endpoint
    ):
        acme, ctx = content.acme.tenant, system_context("test")
        async with worked_on(_with(settings, site=_target(hooked, acme.id)), content) as blog:
            await blog.publish("Of acme")
            cloned = await cloning.clone(
                ctx, blog.world.services.copying, acme, name="copy", progress=Copied()
            )
            await sent_to(hooked, PUBLISHED)
        await asyncio.sleep(0.01)
        both = _with(settings, site=_target(hooked, acme.id, cloned.tenant.id))
        async with worked_on(both, content):
            await sent_to(hooked, PUBLISHED)

    async def test_that_is_purged_has_no_cursor(self, blog: Blog, hooked: Endpoint):
        await blog.publish("Salt")
        await sent_to(hooked, PUBLISHED)
        services, ctx = blog.world.services, system_context("test")
        await patch_tenant(blog.world, blog.world.acme, isActive=False)
        acme = blog.world.acme.tenant
        assert len(raw_sql.rows(services.settings.catalog, CURSORS)) == 1
        await services.deletion.delete(ctx, replace(acme, is_active=False), name="acme")
        deleted = await deleted_tenants.get(services.catalog, acme.id)
        await services.deletion.purge(ctx, deleted, name="acme")
        assert raw_sql.rows(services.settings.catalog, CURSORS) == []

    async def test_that_is_undeleted_sends_what_came_meanwhile(self, blog: Blog, hooked: Endpoint):
        await schedule(blog, await blog.write("Later"), publishAt=HOUR)
        services, ctx, acme = blog.world.services, system_context("test"), blog.world.acme.tenant
        await patch_tenant(blog.world, blog.world.acme, isActive=False)
        await services.deletion.delete(ctx, replace(acme, is_active=False), name="acme")
        let_pass(blog, 1)
        await asyncio.sleep(1)
        deleted = await deleted_tenants.get(services.catalog, acme.id)
        await services.deletion.undelete(ctx, deleted)
        await asyncio.sleep(0.3)
        assert hooked.received == []
        await patch_tenant(blog.world, blog.world.acme, isActive=True)
        await sent_to(hooked, PUBLISHED)

    async def test_without_its_blog_sends_when_it_has_it_again(self, blog: Blog, hooked: Endpoint):
        await schedule(blog, await blog.write("Later"), publishAt=HOUR)
        await patch_tenant(blog.world, blog.world.acme, modules=["mcp"])
        await asyncio.sleep(1)  # a read that has begun ends
        let_pass(blog, 1)
        await asyncio.sleep(1)
        assert hooked.received == []
        await patch_tenant(blog.world, blog.world.acme, modules=["blog", "mcp"])
        await sent_to(hooked, PUBLISHED)

    async def test_that_is_read_only_sends_what_readers_see(self, blog: Blog, hooked: Endpoint):
        await schedule(blog, await blog.write("Later"), publishAt=HOUR)
        await patch_tenant(blog.world, blog.world.acme, isReadOnly=True)
        let_pass(blog, 1)
        await sent_to(hooked, PUBLISHED)

    async def test_that_is_restored_in_place_continues(
        self, blog: Blog, hooked: Endpoint, tmp_path: Path
    ):
        await blog.publish("Before")
        await sent_to(hooked, PUBLISHED)
        services, acme = blog.world.services, blog.world.acme.tenant
        archive = await _backed_up(services, acme, tmp_path)
        await blog.publish("Lost")
        await sent_to(hooked, PUBLISHED, PUBLISHED)
        await replacing.replace(
            system_context("test"),
            services.copying,
            ArchiveReader(io.BytesIO(archive), services.copying.keys),
            acme,
            server_name=None,
            progress=Copied(),
        )
        await sent_to(hooked, PUBLISHED, PUBLISHED)
        await _shown(blog, "after", at=utc_now())
        await sent_to(hooked, PUBLISHED, PUBLISHED, PUBLISHED)

    async def test_that_is_restored_under_its_id_repeats_nothing(
        self, blog: Blog, hooked: Endpoint, tmp_path: Path
    ):
        await blog.publish("Before")
        await sent_to(hooked, PUBLISHED)
        services, ctx, acme = blog.world.services, system_context("test"), blog.world.acme.tenant
        archive = await _backed_up(services, acme, tmp_path)
        await patch_tenant(blog.world, blog.world.acme, isActive=False)
        await services.deletion.delete(ctx, replace(acme, is_active=False), name="acme")
        deleted = await deleted_tenants.get(services.catalog, acme.id)
        await services.deletion.purge(ctx, deleted, name="acme")
        await asyncio.sleep(0.3)
        reader = ArchiveReader(io.BytesIO(archive), services.copying.keys)
        await restoring.restore(
            ctx, services.copying, reader, name=None, server_name=None, progress=Copied()
        )
        await sent_to(hooked, PUBLISHED)
        await _shown(blog, "after", at=utc_now())
        await sent_to(hooked, PUBLISHED, PUBLISHED)

    async def test_that_is_away_delays_no_other_of_its_target(
        self, settings: Settings, content: Content, hooked: Endpoint, faults: Faults
    ):
        acme, globex = content.acme.tenant, content.globex.tenant
        read: list[UUID] = []

        async def hang(_: object, tenant: Tenant, **__: object) -> None:
            if tenant.id == globex.id and not read:
                read.append(tenant.id)
                await asyncio.Event().wait()

        faults.before(TenantDatabases, "open", hang)
        async with worked_on(
            _with(settings, site=_target(hooked, acme.id, globex.id)), content
        ) as blog:
            await until(lambda: asyncio.sleep(0, read), bool)
            await blog.publish("Of acme")
            await sent_to(hooked, PUBLISHED)

    async def test_drops_what_is_older_than_a_day(
        self, hooked_settings: Settings, content: Content, hooked: Endpoint
    ):
        async with worked_on(hooked_settings, content) as blog:
            await blog.publish("First")
            await sent_to(hooked, PUBLISHED)
        old, day = utc_now() - 2 * outbox.AGE_MAX, outbox.AGE_MAX
        cursor = Cursor(
            Progress(post_events.first_entry(old)), Progress(post_events.first_moment(old))
        )
        await asyncio.to_thread(
            raw_sql.run, hooked_settings.catalog, f"UPDATE post_hook SET cursor = '{cursor.text}'"
        )
        async with worked_on(hooked_settings, content, works=False) as blog:
            for name, age in {"dropped": day + HOUR, "kept": day - HOUR}.items():
                await _shown(blog, name, at=utc_now() - age)
        async with worked_on(hooked_settings, content):
            data = await sent_to(hooked, PUBLISHED, PUBLISHED, PUBLISHED)
        assert [one["slug"] for one in data] == ["first", "kept", "first"]


class TestATarget:
    async def test_is_read_by_one_process(
        self, hooked_settings: Settings, content: Content, hooked: Endpoint
    ):
        """The others read one row of the catalog."""
        async with worked_on(hooked_settings, content) as first:
            await first.publish("First")
            await sent_to(hooked, PUBLISHED)
            holders = raw_sql.rows(hooked_settings.catalog, "SELECT * FROM post_hook_target")
            async with worked_on(hooked_settings, content):
                await asyncio.sleep(0.3)
                now = raw_sql.rows(hooked_settings.catalog, "SELECT * FROM post_hook_target")
                assert now == holders != []

    async def test_is_listed_with_its_tenants(self, blog: Blog):
        admin = await blog.world.admin()
        [item] = ok(await admin.get("/api/admin/hooks"))["items"]
        assert item["tenantIds"] == [str(blog.world.acme.tenant.id)]
        assert item["events"] == [PUBLISHED, CHANGED, UNPUBLISHED]

    async def test_is_not_set_by_a_tenant_or_an_admin(self, blog: Blog):
        """Only the settings name targets: there is no request that adds one."""
        for client in (blog.owner, await blog.world.admin()):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                response = await client.request(method, "/api/admin/hooks", json={})
                assert response.status_code == 405
        assert (await blog.owner.get("/api/admin/hooks")).status_code == 403
