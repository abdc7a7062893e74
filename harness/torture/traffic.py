"""Requests of tenants that are being migrated."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from harness.api import MIGRATE_ALL, POSTS, admin_client, client, signed_in
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES, ENGINES
from harness.processes import Process, serving
from harness.torture.trial import Trial
from harness.traffic import UNAVAILABLE, Traffic
from harness.world import Size, Tenant, World, make_world
from testkit.revisions import AlembicFolder

PER_SECOND = 100
# Additive, on the very tables that the requests read and write.
REVISIONS: Mapping[str, str] = {
    "table": """
        op.create_table("extra{n}", sa.Column("id", sa.Integer, primary_key=True))
        op.create_index("ix_post_{n}", "tenantry_post", ["title"])
    """,
    "column": """
        op.add_column("tenantry_post", sa.Column(
            "extra{n}", sa.Integer, server_default="0", nullable=False))
        op.add_column("tenantry_user", sa.Column("extra{n}", sa.String(40)))
        op.execute("UPDATE tenantry_post SET extra{n} = 1")
    """,
}
POSTS_WRITTEN_FIRST = 10
PAUSE_SECONDS = 0.3
SLOWEST = 0.99


def check(trial: Trial) -> list[Finding]:
    """Ask and migrate at the same time, on both engines."""
    return [_check(trial, engine) for engine in ENGINES]


def _check(trial: Trial, engine: str) -> Finding:
    scale = trial.scale
    revisions = AlembicFolder(trial.folder / f"{engine}-revisions")
    size = Size(scale.traffic_tenants, users=2)
    world = make_world(trial.folder / engine, size, server_url=trial.url_on(engine))
    environment = {**world.environment, "TENANTRY_TENANT_MIGRATIONS": str(revisions.begin())}
    with serving(trial.folder, environment) as server:
        traffic = Traffic(
            world.tenants,
            world.admin_token,
            lambda: [server.url],
            PER_SECOND,
            chance=trial.chance,
            signs_up=False,
            keeps_alive=True,
        )
        asyncio.run(write_posts(server, world.tenants))
        with traffic.running() as seen:
            runs, faults = asyncio.run(
                _migrate(server, world, revisions, seconds=scale.traffic_seconds)
            )
    faults += seen.faults
    if seen.statuses[UNAVAILABLE]:
        faults.append(f"{seen.statuses[UNAVAILABLE]} answers are 503")
    seconds = sorted(seen.seconds)
    return Finding(
        name=f"traffic, {ENGINE_NAMES[engine]}",
        check=f"{ENGINE_NAMES[engine]}: {PER_SECOND} requests a second for "
        f"{scale.traffic_seconds:g} s on {scale.traffic_tenants} tenants that are migrated "
        f"{runs} times at the same time",
        must="no 5xx, and no other failure",
        found=f"{len(seconds):,} answers, {sum(n for s, n in seen.statuses.items() if s >= 500)} "
        f"of them 5xx; 99 % within {seconds[int(len(seconds) * SLOWEST)] * 1000:.0f} ms, all "
        f"within {seconds[-1] * 1000:.0f} ms",
        faults=faults,
    )


async def _migrate(
    server: Process, world: World, revisions: AlembicFolder, *, seconds: float
) -> tuple[int, list[str]]:
    """Add a revision and call migrate-all, again and again; return how often, and the failures."""
    faults, runs, until = list[str](), 0, time.monotonic() + seconds
    async with admin_client(server, world) as admin:
        while time.monotonic() < until:
            for kind, body in REVISIONS.items():
                revisions.add(f"r{runs:03}{kind[0]}_{kind}", body.format(n=runs))
            data = (await admin.post(MIGRATE_ALL)).raise_for_status().json()["data"]
            runs += 1
            if data["failed"]:
                faults.append(f"a run has failures: {[one['error'] for one in data['details']]}")
            await asyncio.sleep(PAUSE_SECONDS)
    return runs, faults


async def write_posts(server: Process, tenants: Sequence[Tenant]) -> None:
    """Publish some posts of each tenant."""
    async with client(server.url) as user:
        for tenant in tenants:
            headers = signed_in(tenant)
            for number in range(POSTS_WRITTEN_FIRST):
                post = {"title": f"Post {number}", "content": "It rained.", "tags": ["news"]}
                made = await user.post(POSTS, headers=headers, json=post)
                post_id = made.raise_for_status().json()["data"]["id"]
                done = await user.post(f"{POSTS}/{post_id}/publish", headers=headers)
                done.raise_for_status()
