"""A catalog with very many tenants: most are rows alone, without a database."""

import asyncio
import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from uuid import UUID

import asyncpg

from harness.world import World
from tenantry.db.urls import sqlite_path

# The same names in every run.
SEED = 20261122
WORDS = (
    "amber atlas birch cedar cobalt copper coral delta ember falcon fjord flint garnet granite "
    "harbor hazel indigo ivory jasper juniper lagoon larch lumen maple meadow mesa nova oak ochre "
    "onyx opal orchid osprey pearl pine plum quartz raven reef river robin rowan ruby saffron sage "
    "sienna silver slate spruce stone summit teal thistle topaz umber violet walnut willow wren"
)
COLUMNS = (
    "id, name, canonical_name, database_name, server_name, state, is_active, is_read_only, "
    "modules, created_at, schema_revision, requests_per_minute, labels"
)
# Earlier than those of the world, a second apart.
BEGAN_MS = 1_700_000_000_000
SUSPENDED_EACH = 5_000
CANARY_EACH = 100
REGIONS = "eu", "us", "ap"
CREATED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def fill(world: World, count: int) -> None:
    """Add rows of tenants without databases until there are *count*, all seen at the head."""
    more = count - len(world.tenants)
    url = world.environment.get("TENANTRY_CATALOG_URL")
    if url is not None:
        asyncio.run(_fill_postgresql(url, more))
    else:
        folder = world.environment["TENANTRY_DATA_DIR"]
        path = sqlite_path(f"sqlite:///{folder}/catalog.db")
        assert path is not None
        _fill_sqlite(str(path), more)


def names(count: int) -> Iterator[str]:
    """Yield different names of two words and a number."""
    pairs = [f"{one} {two}" for one, two in product(WORDS.split(), repeat=2)]
    chance = random.Random(SEED)  # noqa: S311 - it chooses names
    for number in range(count):
        yield f"{chance.choice(pairs)} {number}"


def _rows(count: int, revision: str, modules: str) -> Iterator[Sequence[object]]:
    chance = random.Random(SEED)  # noqa: S311 - it chooses ids
    for number, name in enumerate(names(count)):
        bits = (BEGAN_MS + number * 1000) << 80 | 7 << 76 | 2 << 62 | chance.getrandbits(62)
        tenant_id = UUID(int=bits)
        is_active = number % SUSPENDED_EACH != 0
        labels = {"region": REGIONS[number % len(REGIONS)]}
        if number % CANARY_EACH == 0:
            labels["canary"] = "yes"
        yield (
            tenant_id,
            name.title(),
            name,
            f"tenantry_{tenant_id.hex}",
            "default",
            "ready",
            is_active,
            False,
            modules,
            CREATED_AT,
            revision,
            0,
            json.dumps(labels),
        )


async def _fill_postgresql(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        revision, modules = await connection.fetchrow(
            "SELECT schema_revision, modules FROM tenant LIMIT 1"
        )
        # The triggers would add a row for each tenant.
        await connection.execute("SET session_replication_role = replica")
        rows = _rows(count, revision, modules)
        await connection.copy_records_to_table("tenant", records=rows, columns=COLUMNS.split(", "))
        await connection.execute("DELETE FROM tenant_count")
        await connection.execute(COUNT)
        await connection.execute(LABEL)
        await connection.execute("DELETE FROM tenant_name")
        # Built at once, it takes a tenth of the time.
        index = await connection.fetchval(
            "SELECT pg_get_indexdef('ix_tenant_name_trigrams'::regclass)"
        )
        await connection.execute("DROP INDEX ix_tenant_name_trigrams")
        await connection.execute(NAME)
        await connection.execute(index)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


def _fill_sqlite(path: str, count: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        raw.execute("PRAGMA cache_size = -200000")
        revision, modules = raw.execute("SELECT schema_revision, modules FROM tenant").fetchone()
        triggers = raw.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'count_*'"
        ).fetchall()
        raw.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        rows = (
            (row[0].hex, *row[1:9], row[9].strftime("%Y-%m-%d %H:%M:%S.%f"), *row[10:])  # type: ignore[attr-defined]
            for row in _rows(count, revision, modules)
        )
        marks = ", ".join("?" * len(COLUMNS.split()))
        raw.executemany(f"INSERT INTO tenant ({COLUMNS}) VALUES ({marks})", rows)
        raw.execute("DELETE FROM tenant_count")
        raw.execute(COUNT)
        for _, sql in triggers:
            raw.execute(sql)
        raw.execute("COMMIT")
        raw.execute("ANALYZE")


NAME = "INSERT INTO tenant_name (tenant_id, canonical_name) SELECT id, canonical_name FROM tenant"
LABEL = """
INSERT INTO tenant_label (tenant_id, key, value, canonical_name)
SELECT tenant.id, label.key, label.value, tenant.canonical_name
FROM tenant, jsonb_each_text(CAST(tenant.labels AS jsonb)) AS label
"""
COUNT = """
INSERT INTO tenant_count
SELECT server_name, state, is_active, is_read_only, schema_revision, failing_run_id IS NOT NULL,
    count(*)
FROM tenant GROUP BY 1, 2, 3, 4, 5, 6
"""
