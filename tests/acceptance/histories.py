"""Runs that are written directly into the catalog: large ones, and some that never end."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.kit.clock import utc_now
from tenantry.kit.ids import new_id
from tests.conftest import World
from tests.contracts.ledger import sync_engine


async def add_run(
    world: World,
    states: Sequence[str] = (),
    *,
    total: int | None = None,
    counted: int | None = None,
) -> UUID:
    """Add a run without tenants left to migrate; return its id.

    Args:
        world: With the catalog.
        states: How its items have ended, one after the other.
        total: Its tenants. When they are more than have ended, the run never ends.
        counted: How many of those that have ended are in its counts; all unless given.
    """
    run_id, now = new_id(), utc_now()
    total = len(states) if total is None else total
    counted_states = states if counted is None else states[:counted]
    run = {
        "id": run_id,
        "started_at": now,
        "finished_at": now + timedelta(seconds=1) if len(counted_states) == total else None,
        "triggered_by": "ada@example.com",
        "total_count": total,
        "success_count": counted_states.count("Success"),
        "failed_count": counted_states.count("Failed"),
        "last_sequence": len(counted_states),
    }
    items = [
        {
            "run_id": run_id,
            "tenant_id": new_id(),
            "tenant_name": f"Tenant number {number}",
            "database_name": f"tenantry_{number:032x}",
            "server_name": "default",
            "state": state,
            "applied": None if state == "Success" else "",
            "error": None if state == "Success" else f"0004_wrong: no such table: t{number}.",
            "started_at": now,
            "finished_at": now + timedelta(milliseconds=number),
            "sequence": number,
            "cause": None if state == "Success" else "0004_wrong: no such table: ….",
        }
        for number, state in enumerate(states, 1)
    ]
    await asyncio.to_thread(_insert, world.services.settings.catalog, run, items)
    return run_id


def _insert(url: str, run: dict[str, object], items: list[dict[str, object]]) -> None:
    """Insert the rows, in a thread: the loop is needed to release the lock of SQLite."""
    engine = sync_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.insert(migration_run), [run])
        if items:
            connection.execute(sa.insert(tenant_migration), items)
    engine.dispose()
