"""Requests of tenants that are being migrated."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from harness.api import MIGRATE_ALL, RUN_SECONDS_MAX, admin_client
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES, ENGINES
from harness.processes import serving
from harness.torture.scale import Scale
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
Progress = Callable[[str], None]


@dataclass
class Seen:
    """What the callers saw.

    Attributes:
        statuses: How many answers of each.
        seconds: That each took.
        wrong: The answers that were no success.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def check(
    folder: Path, server_url: str, scale: Scale, chance: random.Random, progress: Progress
) -> list[Finding]:
    """Ask and migrate at the same time, on both engines."""
    del progress
    return [_check(engine, folder, server_url, scale, chance) for engine in ENGINES]


def _check(
    engine: str, folder: Path, server_url: str, scale: Scale, chance: random.Random
) -> Finding:
    revisions = AlembicFolder(folder / f"{engine}-revisions")
    url = server_url if engine == "postgresql" else None
    world = make_world(folder / engine, Size(scale.traffic_tenants, users=2), server_url=url)
    environment = {**world.environment, "TENANTRY_TENANT_MIGRATIONS": str(revisions.begin())}
    with serving(folder, environment) as server:
        client = admin_client(server, world)
        seen, runs, faults = asyncio.run(
            _ask_and_migrate(
                server.url,
                client,
                world,
                revisions,
                seconds=scale.traffic_seconds,
                chance=chance,
            )
        )
    faults += seen.wrong
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


async def _ask_and_migrate(
    url: str,
    client: httpx.AsyncClient,
    world: World,
    revisions: AlembicFolder,
    *,
    seconds: float,
    chance: random.Random,
) -> tuple[Seen, int, list[str]]:
    seen, faults, runs = Seen(), list[str](), 0
    await write_posts(url, world.tenants)
    async with client, asyncio.TaskGroup() as group:
        asking = group.create_task(ask(url, world.tenants, seconds, seen, chance))
        while not asking.done():
            for kind, body in REVISIONS.items():
                revisions.add(f"r{runs:03}{kind[0]}_{kind}", body.format(n=runs))
            data = (await client.post(MIGRATE_ALL)).raise_for_status().json()["data"]
            runs += 1
            if data["failed"]:
                faults.append(f"a run has failures: {[one['error'] for one in data['details']]}")
            await asyncio.sleep(PAUSE_SECONDS)
    return seen, runs, faults


async def write_posts(url: str, tenants: Sequence[Tenant]) -> None:
    """Publish some posts of each tenant."""
    async with _client(url) as client:
        for tenant in tenants:
            headers = _signed_in(tenant, 0)
            for number in range(POSTS_WRITTEN_FIRST):
                path = "/api/tenant/blog/posts"
                made = await client.post(path, headers=headers, json=_post(-1 - number))
                post_id = made.raise_for_status().json()["data"]["id"]
                done = await client.post(f"{path}/{post_id}/publish", headers=headers)
                done.raise_for_status()


async def ask(
    url: str, tenants: Sequence[Tenant], seconds: float, seen: Seen, chance: random.Random
) -> None:
    """Send requests at fixed times, whether or not the earlier ones were answered."""
    async with _client(url) as client, asyncio.TaskGroup() as group:
        began = time.monotonic()
        for number in range(round(seconds * PER_SECOND)):
            await asyncio.sleep(max(0, began + number / PER_SECOND - time.monotonic()))
            group.create_task(_ask_once(client, chance.choice(tenants), number, seen))


async def _ask_once(client: httpx.AsyncClient, tenant: Tenant, number: int, seen: Seen) -> None:
    user = tenant.users[number % len(tenant.users)]
    key, signed_in = {"x-api-key": tenant.api_key}, _signed_in(tenant, number)
    profile = {"fullName": f"Renamed {number}", "email": user.email}
    kinds = [
        ("GET", "/api/public/blog/posts", key, None),
        ("PUT", "/api/tenant/auth/profile", signed_in, profile),
        ("GET", "/api/tenant/blog/posts", signed_in, None),
        ("POST", "/api/tenant/blog/posts", signed_in, _post(number)),
        ("GET", "/api/tenant/modules", signed_in, None),
    ]
    method, path, headers, body = kinds[number % len(kinds)]
    began = time.monotonic()
    try:
        answer = await client.request(method, path, headers=headers, json=body)
    except httpx.TransportError as error:
        seen.wrong.append(f"{method} {path}: {error!r}")
        return
    seen.seconds.append(time.monotonic() - began)
    seen.statuses[answer.status_code] += 1
    if not answer.is_success:
        seen.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")


def _client(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=url, timeout=RUN_SECONDS_MAX, limits=limits, verify=False)  # noqa: S501


def _signed_in(tenant: Tenant, number: int) -> dict[str, str]:
    user = tenant.users[number % len(tenant.users)]
    return {"x-api-key": tenant.api_key, "authorization": f"Bearer {user.token}"}


def _post(number: int) -> dict[str, object]:
    return {"title": f"What happened at {number}", "content": "It rained.", "tags": ["news"]}
