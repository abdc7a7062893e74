"""Tenantry as a server over a fleet, and migrate-all over HTTP."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager

from harness.bench.fleet.yard import Yard
from harness.fleet.ours import Ours
from harness.fleet.tenants import NotMigrated
from harness.processes import Process, started

RUN_SECONDS_MAX = 300


@contextmanager
def serving_process(yard: Yard, ours: Ours, name: str) -> Iterator[Process]:
    """Run ``tenantry serve`` over a fleet until the block ends, on any core."""
    with started(
        name,
        ["tenantry", "serve", "--port", "{port}"],
        folder=yard.folder,
        core=None,
        added=ours.environment(),
        ready="/readyz",
    ) as process:
        yield process


@contextmanager
def serving(yard: Yard, ours: Ours, name: str) -> Iterator[int]:
    """Run ``tenantry serve`` over a fleet until the block ends; yield its port."""
    with serving_process(yard, ours, name) as process:
        yield process.port


def migrate_all(port: int, ours: Ours) -> None:
    """Call migrate-all, and wait for the end.

    Raises:
        NotMigrated: The answer is another than that everything succeeded.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=RUN_SECONDS_MAX)
    try:
        headers = {"authorization": f"Bearer {ours.world.admin_token}"}
        connection.request("POST", "/api/admin/tenants/migrate-all", headers=headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status != 200 or body["data"]["failed"]:
        raise NotMigrated(f"{answer.status}: {json.dumps(body)[:500]}")
