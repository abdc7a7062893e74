"""Migration runs as JSON, piece by piece: a run has as many details as there are tenants.

No more than a few hundred details are in memory, however large a run or slow a client.
"""

import contextlib
from collections.abc import AsyncGenerator

import msgspec

from tenantry.api.pieces import Source
from tenantry.catalog import runs
from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.runs import MigrationRun, MigrationState
from tenantry.catalog.waiting import away_servers
from tenantry.kit.pages import Page
from tenantry.schemas.migrations import (
    Details,
    MigrationRunDetailResponse,
    MigrationRunStateResponse,
)

_encode = msgspec.json.Encoder().encode


async def run_in_pieces(catalog: CatalogSession, run: MigrationRun, details: Details) -> Source:
    """Yield a `MigrationRunResponse`: the counts are those of the details, if all are told.

    Args:
        catalog: Where the details are; no transaction is held while they are sent.
        run: What is told.
        details: Which of them.
    """
    # The object and the array are left open until the details are in them.
    away = await away_servers(catalog, run)
    yield _encode(MigrationRunStateResponse.of_state(run, away))[:-1] + b',"details":['
    async with contextlib.aclosing(_details(catalog, run, details)) as pieces:
        async for piece in pieces:
            yield piece
    yield b"]}"


async def page_in_pieces(
    catalog: CatalogSession, page: Page[MigrationRun], details: Details
) -> Source:
    """Yield a `MigrationRunPage`, as `run_in_pieces` does a run."""
    yield b'{"items":['
    for at, run in enumerate(page.items):
        if at:
            yield b","
        async with contextlib.aclosing(run_in_pieces(catalog, run, details)) as pieces:
            async for piece in pieces:
                yield piece
    facts = {
        "page": page.window.page,
        "pageSize": page.window.size,
        "totalCount": page.total_count,
        "totalPages": page.total_pages,
    }
    yield b"]," + _encode(facts)[1:]


async def _details(
    catalog: CatalogSession, run: MigrationRun, details: Details
) -> AsyncGenerator[bytes, None]:
    if details is Details.NONE:
        return
    state = MigrationState.FAILED if details is Details.FAILED else None
    comma = b""
    async for parts in runs.each_ended(catalog, run.id, state=state):
        # What has ended since the run was read is not in its counts.
        told = [MigrationRunDetailResponse.of(part) for part in parts if run.counts(part)]
        if told:
            yield comma + _encode(told)[1:-1]
            comma = b","
