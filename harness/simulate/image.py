"""The image of a catalog at the head, with tenants, as the product makes it."""

import asyncio
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from harness.simulate.clock import CLOCK
from harness.simulate.world import SERVERS, TENANTS, database_name
from tenantry.catalog.stream import STREAM
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import TenantState
from tenantry.db.sqlite import files
from tenantry.db.statements import Statement
from tenantry.kit.ids import new_id
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams

_ADD = Statement[Any](sa.insert(tenant))


def make() -> bytes:
    """Return the image: `TENANTS` ready tenants, in turn on each of `SERVERS`."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as threads:
        path = Path(folder) / "catalog.db"
        files.create(path)
        limits = TimeLimits(connect_seconds=5.0, deadline_seconds=60.0, lock_ms=1_000)
        scripts = RunScripts(Streams(STREAM))
        made = Migrator(threads, limits).initialise(f"sqlite:///{path}", scripts, run_id=new_id())
        asyncio.run(made)
        raw = sqlite3.connect(path, isolation_level=None)
        raw.execute("PRAGMA journal_mode = DELETE")
        for number in range(TENANTS):
            raw.execute(_ADD.sqlite.sql, _ADD.sqlite.arguments(_row(number)))
        image = raw.serialize()
        raw.close()
    return image


def _row(number: int) -> dict[str, object]:
    CLOCK.now += 0.01  # each id is later than the one before
    name = f"Tenant {number}"
    return {
        "id": new_id(),
        "name": name,
        "canonical_name": name.lower(),
        "database_name": database_name(number),
        "server_name": SERVERS[number % len(SERVERS)],
        "state": TenantState.READY.value,
        "worker_id": None,
        "is_active": True,
        "is_read_only": False,
        "modules": frozenset(),
        "created_at": CLOCK.utc_now(),
        "schema_revision": None,
        "owner_email": None,
        "labels": {},
        "requests_per_minute": 0,
        "size_bytes_max": 0,
        "failing_run_id": None,
        "drifted_at": None,
        "drift": None,
        "deleted_at": None,
        "is_attached": False,
        "sealed_url": None,
    }
