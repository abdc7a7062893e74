"""A tenant with an open transaction in its database, while a revision needs the table."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
import psycopg

from harness.api import MIGRATE_ALL, admin_client
from harness.finding import Finding
from harness.processes import serving
from harness.torture.traffic import write_posts
from harness.torture.trial import Trial
from harness.world import Size, Tenant, make_world
from testkit.revisions import AlembicFolder

# So much less than the lock timeout is no wait for a lock.
MARGIN_SECONDS = 0.2
READERS_PAUSE_SECONDS = 0.02
# A request that waits for a lock is answered when it has it.
SLACK_SECONDS = 1.0


@dataclass(frozen=True)
class _Readers:
    """Those who read: how long each waited, and what those got who were refused."""

    seconds: list[float] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


def check(trial: Trial) -> list[Finding]:
    """Read from that tenant, and from the others, while the fleet is migrated."""
    revisions = AlembicFolder(trial.folder / "revisions")
    world = make_world(trial.folder / "world", Size(3, users=2), server_url=trial.server_url)
    environment = {
        **world.environment,
        "TENANTRY_TENANT_MIGRATIONS": str(revisions.path),
        "TENANTRY_LOCK_TIMEOUT_MS": str(trial.scale.idle_lock_ms),
    }
    revisions.add("r1_add", "op.add_column('tenantry_post', sa.Column('extra', sa.Integer))")
    held, *others = world.tenants
    with serving(trial.folder, environment) as server, psycopg.connect(held.url) as connection:
        asyncio.run(write_posts(server, world.tenants))
        connection.execute("SELECT count(*) FROM tenantry_post")  # and nothing more
        client = admin_client(server, world)
        data, of_held, of_others = asyncio.run(_read(client, held, others))
    bound = trial.scale.idle_lock_ms / 1000
    faults = [f"a reader got {one}" for one in (*of_held.refused, *of_others.refused)]
    if data["failed"] != 1 or data["success"] != len(others):
        faults.append(f"{data['failed']} failed, not the one that is held")
    # Delays of all tenants are caused by the machine, not by the lock.
    if max(of_held.seconds) > bound + SLACK_SECONDS + max(of_others.seconds):
        faults.append(f"a reader waited for {max(of_held.seconds):.2f} s")
    if max(of_held.seconds) < bound / 2:
        faults.append("no reader has waited: the migration did not ask for the lock")
    if max(of_others.seconds) > bound - MARGIN_SECONDS:
        faults.append(f"a reader of another tenant waited for {max(of_others.seconds):.2f} s")
    return [
        Finding(
            name="idle",
            check="PostgreSQL: a transaction left open on the table that a revision changes",
            must=f"its readers wait no longer than the lock timeout ({bound:g} s), those of "
            "other tenants not at all, and it alone fails",
            found=f"readers of it within {max(of_held.seconds):.2f} s, of others within "
            f"{max(of_others.seconds):.2f} s, {len(of_held.seconds)} and "
            f"{len(of_others.seconds)} of them; {data['failed']} failed",
            faults=faults,
        )
    ]


async def _read(
    client: httpx.AsyncClient, held: Tenant, others: Sequence[Tenant]
) -> tuple[dict[str, int], _Readers, _Readers]:
    of_held, of_others = _Readers(), _Readers()
    async with client:
        running = asyncio.create_task(client.post(MIGRATE_ALL))
        readers = [
            asyncio.create_task(_keep_reading(client, held, of_held, running)),
            *(
                asyncio.create_task(_keep_reading(client, other, of_others, running))
                for other in others
            ),
        ]
        await asyncio.gather(*readers)
        data: dict[str, int] = (await running).raise_for_status().json()["data"]
    return data, of_held, of_others


async def _keep_reading(
    client: httpx.AsyncClient,
    tenant: Tenant,
    readers: _Readers,
    until: "asyncio.Task[httpx.Response]",
) -> None:
    while not until.done():
        began = time.monotonic()
        answer = await client.get(
            "/api/public/blog/posts", headers={"x-api-key": tenant.api_key, "authorization": ""}
        )
        readers.seconds.append(time.monotonic() - began)
        if not answer.is_success:
            readers.refused.append(answer.status_code)
        await asyncio.sleep(READERS_PAUSE_SECONDS)
