"""Schedules of posts in copies of a database: a restore and a move keep them, a clone does not."""

import asyncio
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenantry.backup import cloning, creating, moving, restoring
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.targets import FolderTarget
from tenantry.catalog.tenants import Tenant
from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.settings import Settings
from tenantry.tenant.blog import published
from tenantry.work.progress import Progress
from testkit import raw_sql
from tests.acceptance.support import OWN_POSTS, ok
from tests.conftest import World

SCHEDULES = (
    "SELECT CASE WHEN publish_at IS NULL THEN 0 ELSE 1 END,"
    " CASE WHEN unpublish_at IS NULL THEN 0 ELSE 1 END FROM tenantry_post_schedule ORDER BY 1, 2"
)


FAR = "far"


@pytest.fixture(name="settings")
def _settings(settings: Settings) -> Settings:
    """With a second tenant server: another folder, or the same server under another name."""
    url = settings.servers["default"].address
    far = url if sqlite_path(url) is None else f"sqlite:///{settings.data_dir / 'far'}"
    servers = {**settings.tenant_servers, FAR: {"url": far}}
    return Settings(**{**settings.model_dump(exclude_unset=True), "tenant_servers": servers})


def url_of(world: World, tenant: Tenant) -> str:
    return world.services.databases.server(tenant.server_name).url(tenant.database_name)


async def titles(world: World, tenant: Tenant, *, hours: float = 0) -> list[str]:
    """Return what readers of a tenant see, now or in some *hours*."""
    database = await world.services.databases.open(tenant, writes=False)
    now = utc_now() + timedelta(hours=hours)
    page = (await published.page(database, Window(1, 100), now=now)).content
    assert page.total_count == len(page.items)
    return sorted(post.title for post in page.items)


async def with_schedules(world: World) -> None:
    """Let one post appear and another disappear in an hour; a third one appears in a moment."""
    owner = await world.owner(world.acme)
    made: dict[str, Any] = {}
    for title in ("Later", "Offer", "Soon"):
        body = {"title": title, "content": "Text.", "publish": title == "Offer"}
        made[title] = ok(await owner.post(OWN_POSTS, json=body), 201)
    # The first is stored before it is due, also on a busy machine.
    soon, later, last = (utc_now() + timedelta(seconds=one) for one in (6, 3600, 7200))
    for title, times in {
        "Soon": {"publishAt": soon, "unpublishAt": later},
        "Later": {"publishAt": later, "unpublishAt": last},
        "Offer": {"unpublishAt": later},
    }.items():
        body = {name: at.isoformat() for name, at in times.items()}
        ok(await owner.put(f"{OWN_POSTS}/{made[title]['id']}/schedule", json=body))
    await asyncio.sleep(max(0.0, (soon - utc_now()).total_seconds()))


async def test_a_schedule_survives_a_restore_and_a_move(world: World, tmp_path: Path) -> None:
    await with_schedules(world)
    services, acme, ctx = world.services, world.acme.tenant, system_context("test")
    target = FolderTarget(tmp_path / "archives")
    job = await creating.back_up(ctx, services.copying, acme, target, progress=Progress())
    archive = await asyncio.to_thread(Path(str(job.archive)).read_bytes)
    reader = ArchiveReader(io.BytesIO(archive), services.copying.keys)

    restored = await restoring.restore(
        ctx, services.copying, reader, name="restored", server_name=None, progress=Progress()
    )

    moved = await moving.move(ctx, services.copying, acme, server_name=FAR, progress=Progress())
    for tenant in (moved.tenant, restored.tenant):
        assert raw_sql.rows(url_of(world, tenant), SCHEDULES) == [(0, 1), (1, 1), (1, 1)]
        assert await titles(world, tenant) == ["Hello from acme", "Offer", "Soon"]
        assert await titles(world, tenant, hours=1.1) == ["Hello from acme", "Later"]
        assert await titles(world, tenant, hours=2.1) == ["Hello from acme"]


async def test_a_clone_has_no_schedule_and_shows_what_its_source_shows(world: World) -> None:
    """What a schedule has done already is kept, and what it would do is not."""
    await with_schedules(world)
    ctx, copying = system_context("test"), world.services.copying

    cloned = await cloning.clone(ctx, copying, world.acme.tenant, name="copy", progress=Progress())

    assert cloned.schedules_removed == 3
    shown = ["Hello from acme", "Offer", "Soon"]
    for hours in (0, 1.1, 2.1):
        assert await titles(world, cloned.tenant, hours=hours) == shown
    assert raw_sql.rows(url_of(world, cloned.tenant), SCHEDULES) == [(1, 0)]
    assert len(raw_sql.rows(url_of(world, world.acme.tenant), SCHEDULES)) == 3
