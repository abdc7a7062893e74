"""Completion of what the catalog holds: names of tenants, and ids of runs.

A shell waits for it at each Tab. So it reads the catalog with the drivers alone, has a time limit,
and offers nothing if the catalog cannot be read.
"""

import asyncio
import contextlib
import re
import sqlite3
import uuid
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tenantry.db.urls import sqlite_path
from tenantry.kit.text import canonical

SECONDS_MAX = 1.0
# A name with other characters needs quotes, which shells do not add: then its id is offered.
_PLAIN = re.compile(r"[\w.@%+,:/-]+")
_LAST = "\U0010ffff"
# Shells evaluate what they show with an offer: zsh twice, and its text is markup before.
_UNSAFE = re.compile(r"[^\w .@+,-]")

_TENANTS = (
    "SELECT tenant.id, tenant.name FROM tenant_name JOIN tenant ON tenant.id = tenant_id "
    "WHERE tenant_name.canonical_name >= $1 AND tenant_name.canonical_name < $2 "
    "ORDER BY tenant_name.canonical_name LIMIT 100"
)
_RUNS = (
    "SELECT id, triggered_by FROM migration_run WHERE planner_id IS NULL "
    "ORDER BY started_at DESC LIMIT 100"
)

Offer = tuple[str, str]
"""What is inserted, and what shells show with it."""


def tenant_names(incomplete: str) -> list[Offer]:
    """Return the tenants with names that begin with *incomplete*, in any case."""
    start = canonical(incomplete)
    found = _fetch(_TENANTS, start, start + _LAST)
    return [(name, "") if _PLAIN.fullmatch(name) else (id_, _shown(name)) for id_, name in found]


def run_ids(incomplete: str) -> list[Offer]:
    """Return the newest runs with ids that begin with *incomplete*, and who started them."""
    found = _fetch(_RUNS)
    return [(id_, _shown(by)) for id_, by in found if id_.startswith(incomplete.lower())]


def _shown(text: str) -> str:
    return _UNSAFE.sub("?", text)


def _fetch(sql: str, *values: str) -> list[Offer]:
    rows: Sequence[Any] = ()
    # A message would be printed into the line that is completed.
    with contextlib.suppress(Exception):
        url = import_module("tenantry.settings").read_settings().catalog  # slow to import
        path = sqlite_path(url)
        if path is None:
            rows = asyncio.run(_fetch_postgres(url, sql, values))
        else:
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=SECONDS_MAX)) as raw:
                rows = raw.execute(re.sub(r"\$(\d)", r"?\1", sql), values).fetchall()
    return [(str(uuid.UUID(str(id_))), text) for id_, text in rows]


async def _fetch_postgres(url: str, sql: str, values: Sequence[str]) -> Sequence[Any]:
    from tenantry.db.postgres.connector import (  # noqa: PLC0415 - its driver is slow to import
        PostgresConnector,
        closing,
    )

    connector = PostgresConnector(url, timeout_seconds=SECONDS_MAX)
    async with closing(connector.connect(command_seconds=SECONDS_MAX)) as raw:
        found: Sequence[Any] = await raw.fetch(sql, *values)
        return found
