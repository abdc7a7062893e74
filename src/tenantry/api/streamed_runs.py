"""Encode migration runs as JSON in chunks: a run has one detail for each tenant.

At most a few hundred details are in memory, even for a large run and a slow client.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable

import msgspec

from tenantry.api.streaming import Source
from tenantry.catalog import runs
from tenantry.catalog.activity import activity_of
from tenantry.catalog.runs import MigrationRun, MigrationState, RunTenant
from tenantry.catalog.session import CatalogSession
from tenantry.kit.pages import Page
from tenantry.schemas.migrations import (
    Details,
    MigrationDetailResponse,
    MigrationResultTotals,
    MigrationRunDetailResponse,
    MigrationRunPage,
    MigrationRunStateResponse,
)

_encode = msgspec.json.Encoder().encode


async def stream_result(catalog: CatalogSession, run: MigrationRun) -> Source:
    """Yield a `MigrationResultResponse`, of a run that `Fleet.wait` has returned."""
    yield _encode(MigrationResultTotals.of_result(run))[:-1] + b',"details":['
    async with contextlib.aclosing(_each(catalog, run, MigrationDetailResponse.of)) as chunks:
        async for chunk in chunks:
            yield chunk
    yield b"]}"


async def stream_run(catalog: CatalogSession, run: MigrationRun, details: Details) -> Source:
    """Yield a `MigrationRunResponse`. If all details are sent, the counts match them.

    No transaction is open while the details are sent.
    """
    # The object and the array are left open until the details are in them.
    activity = await activity_of(catalog, run)
    yield _encode(MigrationRunStateResponse.of_state(run, activity))[:-1] + b',"details":['
    if details is not Details.NONE:
        state = MigrationState.FAILED if details is Details.FAILED else None
        each = _each(catalog, run, MigrationRunDetailResponse.of, state=state)
        async with contextlib.aclosing(each) as chunks:
            async for chunk in chunks:
                yield chunk
    yield b"]}"


async def stream_page(
    catalog: CatalogSession, page: Page[MigrationRun], details: Details
) -> Source:
    """Yield a `MigrationRunPage`, as `stream_run` does a run."""
    before, items, after = _encode(MigrationRunPage.of_page(page, [])).partition(b"[]")
    yield before + items[:1]
    for at, run in enumerate(page.items):
        if at:
            yield b","
        async with contextlib.aclosing(stream_run(catalog, run, details)) as chunks:
            async for chunk in chunks:
                yield chunk
    yield items[1:] + after


async def _each(
    catalog: CatalogSession,
    run: MigrationRun,
    represent: Callable[[RunTenant], object],
    *,
    state: MigrationState | None = None,
) -> AsyncGenerator[bytes, None]:
    comma = b""
    async for items in runs.each_ended(catalog, run.id, state=state):
        # Tenants that ended after the run was read are not in its counts.
        chosen = [represent(item) for item in items if run.counts(item)]
        if chosen:
            yield comma + _encode(chosen)[1:-1]
            comma = b","
