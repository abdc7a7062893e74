"""How far the fleet is, by the catalog's index alone: no tenant database is opened."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from tenantry.catalog import drift, fleet_map, tenant_counts
from tenantry.catalog.fleet_map import MapTenant
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenant_counts import RevisionCount

if TYPE_CHECKING:
    from tenantry.migration.streams import Streams


class SchemaStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Where the databases of the active tenants were last seen.

    Attributes:
        head: The revision where they should be.
        total: The active tenants that are not read-only: the sum of the next three.
        up_to_date: At the head.
        behind: At an older revision.
        unknown: Never seen, or at a revision that this code does not know.
        failing: Failed in the latest attempt to migrate them; they are also counted where they were
            last seen.
        drifted: The schema was found to differ from that of the revision; without failing ones.
        suspended: The tenants that are not active, and not in the other counts.
        read_only: The active tenants that are read-only, and not in the other counts.
    """

    head: str
    total: int
    up_to_date: int
    behind: int
    unknown: int
    failing: int
    drifted: int
    suspended: int
    read_only: int
    revisions: Sequence["PlacedCount"]


class Place(StrEnum):
    """Where a tenant is, by the revision at which it was last seen."""

    HEAD = "head"
    BEHIND = "behind"
    UNKNOWN = "unknown"


class PlacedCount(msgspec.Struct, frozen=True):
    """How many active tenants are at a revision.

    Attributes:
        revision: The revision; None for tenants that were never seen.
        place: ``head``, ``behind`` (older), or ``unknown`` to the answering process.
        count: How many tenants were last seen there.
        failing: How many of them failed in the latest attempt to migrate them.
        drifted: Of the others, how many have another schema than the revision defines.
    """

    revision: str | None
    place: Place
    count: int
    failing: int
    drifted: int


class PlacedTenant(msgspec.Struct, frozen=True):
    """A tenant of the map, and where it is."""

    tenant: MapTenant
    place: Place


async def schema_status(catalog: CatalogSession, streams: "Streams") -> SchemaStatus:
    """Return how far the fleet is.

    Raises:
        BadStream: The directory of revisions cannot be read.
        DatabaseUnavailable: The catalog cannot be reached.
    """
    counts = await tenant_counts.by_revision(catalog)
    drifted = await drift.by_revision(catalog)
    others = await tenant_counts.others(catalog)
    placed = await asyncio.to_thread(_placed, counts, drifted, streams)
    places: Counter[Place] = Counter()
    for one in placed:
        places[one.place] += one.count
    return SchemaStatus(
        head=str(streams.head),
        total=places.total(),
        up_to_date=places[Place.HEAD],
        behind=places[Place.BEHIND],
        unknown=places[Place.UNKNOWN],
        failing=sum(one.failing for one in placed),
        drifted=sum(one.drifted for one in placed),
        suspended=others.suspended,
        read_only=others.read_only,
        revisions=placed,
    )


async def tenant_map(
    catalog: CatalogSession, streams: "Streams", *, after: UUID | None, where: str | None = None
) -> list[PlacedTenant]:
    """Return up to `MAP_MAX` tenants created after the one with the id *after*, with their places.

    With *where*, only those that it selects.

    Raises:
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
        BadStream: The directory of revisions cannot be read.
        DatabaseUnavailable: The catalog cannot be reached.
    """
    found = await fleet_map.map_after(catalog, after, where=where)
    revisions = {one.schema_revision for one in found}
    places = await asyncio.to_thread(lambda: {one: place_of(one, streams) for one in revisions})
    return [PlacedTenant(one, places[one.schema_revision]) for one in found]


def place_of(revision: str | None, streams: "Streams") -> Place:
    """Return where a tenant is that was last seen at *revision*; this may read files.

    Raises:
        BadStream: The directory of revisions cannot be read.
    """
    if revision == str(streams.head):
        return Place.HEAD
    if revision is None:
        return Place.UNKNOWN
    # A stream that the code has lost, or never had, leaves nothing to compare with.
    return Place.BEHIND if streams.have(revision) else Place.UNKNOWN


def _placed(
    counts: list[RevisionCount], drifted: Mapping[str | None, int], streams: "Streams"
) -> list[PlacedCount]:
    return [
        PlacedCount(
            revision=one.revision,
            place=place_of(one.revision, streams),
            count=one.count,
            failing=one.failing,
            drifted=drifted.get(one.revision, 0),
        )
        for one in counts
    ]
