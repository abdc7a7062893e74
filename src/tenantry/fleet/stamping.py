"""Stamp the databases of a fleet: write their revision, of which the schema is there already.

Only an empty or a missing version table is written, so no revision is skipped or applied twice.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tenantry.catalog import audit, tenants
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.attached import AttachedFleet
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.migration.errors import explain
from tenantry.migration.schema_state import BASE, SchemaRevision
from tenantry.migration.streams import Streams

DATABASES_READ = 200
"""Databases that are read from the state at a time."""
REFUSED_MAX = 100
"""How many databases that were not stamped are named."""


class StampUnknown(Invalid):
    """The revision is not in the Alembic directory; it has no name such as `head`."""


class AtAnotherRevision(Conflict):
    """The database is at another revision: `alembic stamp` can replace it."""


class NothingToStamp(Conflict):
    """The database has no table, so it is at no revision: migrate it."""


@dataclass(kw_only=True)
class StampReport:
    """How many databases were stamped, and which were not.

    Attributes:
        stamped: How many got the revision.
        unchanged: How many were at it already.
        refused_count: How many are at another revision, or cannot be read or written.
        refused: The names of the first ones, each with the reason.
    """

    stamped: int = 0
    unchanged: int = 0
    refused_count: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, name: str, error: Exception) -> None:
        """Count a database that was not stamped."""
        self.refused_count += 1
        if len(self.refused) < REFUSED_MAX:
            self.refused.append((name, explain(error)))


async def stamp(
    fleet: AttachedFleet,
    ctx: OperationContext,
    revision: str,
    *,
    only: Sequence[Tenant] = (),
) -> StampReport:
    """Write *revision* to the listed databases that have none, and record who has asked for it.

    With *only*, to these databases.

    Raises:
        StampUnknown: The Alembic directory does not have it.
        BadStream: The directory of revisions cannot be read.
        DatabaseUnavailable: The state cannot be reached.
    """
    streams, report = fleet.streams(), StampReport()
    assert streams.user is not None
    found = await asyncio.to_thread(streams.user.find, revision)
    if found is None:
        raise StampUnknown
    # First: it is recorded also if this process is killed.
    async with fleet.catalog.begin() as session:
        await audit.LOG.add(session, ctx, "fleet.stamp", found.name)
    page = only or await tenants.after(fleet.catalog, None, limit=DATABASES_READ)
    while page:
        # One that has left the list has no URL: it is refused if it was named.
        todo = iter([one for one in page if one.is_active or only])
        async with asyncio.TaskGroup() as group:
            for _ in range(fleet.options.concurrency):
                group.create_task(_stamp_each(fleet, todo, streams, found.id, report))
        last = page[-1].id
        page = [] if only else await tenants.after(fleet.catalog, last, limit=DATABASES_READ)
    return report


async def _stamp_each(
    fleet: AttachedFleet,
    todo: Iterator[Tenant],
    streams: Streams,
    revision: str,
    report: StampReport,
) -> None:
    for one in todo:
        try:
            before, after = await _stamp_one(fleet, one, streams, revision)
            await tenants.set_revision(fleet.catalog, one.id, str(after))
        except Exception as error:  # noqa: BLE001 - the others are stamped
            report.refuse(one.name, error)
            continue
        if after.user != revision:
            report.refuse(one.name, AtAnotherRevision())
        elif before == after:
            report.unchanged += 1
        else:
            report.stamped += 1


async def _stamp_one(
    fleet: AttachedFleet, tenant: Tenant, streams: Streams, revision: str
) -> tuple[SchemaRevision, SchemaRevision]:
    """Return the revision of a database before and after."""
    place = await fleet.databases.place_of(tenant)
    found = await fleet.migrator.read_schema(place.url, streams)
    if found.revision.user != BASE:
        return found.revision, found.revision
    if not found.has_tables(streams.user_table):
        raise NothingToStamp
    return found.revision, await fleet.migrator.stamp(place.url, streams, revision)
