"""Moves of tenants between tenant servers, while their posts are written and read."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from harness.cluster.posts import Post
from harness.cluster.runs import Runs
from harness.cluster.service import Service

WAYS = ("--offline", "--online")
MOVED_SECONDS_MAX = 90
"""For one tenant. A move that meets a migration, or whose server is killed, is repeated."""
PAUSE_SECONDS = 0.5
IMPOSSIBLE = (0, 2)
"""Exit statuses that say more than "try again", if the tenant is where it was."""


def move(
    service: Service, runs: Runs, posts: Sequence[Post], servers: Sequence[str]
) -> tuple[Mapping[str, int], Sequence[str]]:
    """Move the tenants of *posts*, one after the other, to the next of *servers*.

    Returns:
        How many were moved in each way and how many moves failed before; and what went wrong.
    """
    counts: Counter[str] = Counter()
    faults: list[str] = []
    tenant_ids = list(dict.fromkeys(one.tenant.id for one in list(posts)))
    for number, tenant_id in enumerate(tenant_ids):
        way = WAYS[number % len(WAYS)]
        at = servers.index(runs.places()[tenant_id][0])
        server = servers[(at + 1) % len(servers)]
        ends = time.monotonic() + MOVED_SECONDS_MAX
        while True:
            status, said = service.run("tenant", "move", tenant_id, "--to", server, way)
            if runs.places()[tenant_id][0] == server:
                counts[f"moved {way.removeprefix('--')}"] += 1
                break
            if time.monotonic() > ends or status in IMPOSSIBLE:
                faults.append(f"a tenant was not moved {way}: {status} {said}")
                break
            counts["moves refused or failed"] += 1
            time.sleep(PAUSE_SECONDS)
    return counts, faults
