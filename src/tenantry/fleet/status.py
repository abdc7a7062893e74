"""How far the fleet is, by the catalog's index alone: no tenant database is opened."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from tenantry.catalog import tenants
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import RevisionCount
from tenantry.migration.schema_state import BASE
from tenantry.migration.streams import Stream, Streams


@dataclass(frozen=True, kw_only=True)
class SchemaStatus:
    """Where the databases of the active tenants were last seen.

    Attributes:
        head: Where they should be.
        behind: At an older revision.
        unknown: Never seen, or at a revision that this code does not know.
    """

    head: str
    total: int
    up_to_date: int
    behind: int
    unknown: int
    revisions: list[RevisionCount]


class _Place(Enum):
    HEAD = auto()
    BEHIND = auto()
    UNKNOWN = auto()


async def schema_status(catalog: CatalogSession, streams: Streams) -> SchemaStatus:
    """Return how far the fleet is.

    Raises:
        BadStream: The directory of revisions cannot be read.
        DatabaseUnavailable: The catalog cannot be reached.
    """
    counts = await tenants.count_by_revision(catalog)
    places: Counter[_Place] = Counter()
    for one in counts:
        places[await asyncio.to_thread(_place, one.revision, streams)] += one.count
    return SchemaStatus(
        head=str(await asyncio.to_thread(lambda: streams.head)),
        total=places.total(),
        up_to_date=places[_Place.HEAD],
        behind=places[_Place.BEHIND],
        unknown=places[_Place.UNKNOWN],
        revisions=counts,
    )


def _place(revision: str | None, streams: Streams) -> _Place:
    if revision == str(streams.head):
        return _Place.HEAD
    if revision is None:
        return _Place.UNKNOWN
    own, _, user = revision.partition("/")
    # A stream that the code has lost, or never had, leaves nothing to compare with.
    is_known = _knows(streams.own, own) and (not user or _knows(streams.user, user))
    return _Place.BEHIND if is_known else _Place.UNKNOWN


def _knows(stream: Stream | None, revision: str) -> bool:
    return stream is not None and (
        revision == BASE or revision in {one.id for one in stream.revisions}
    )
