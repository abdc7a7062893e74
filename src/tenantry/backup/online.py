"""Move a PostgreSQL database while it is written to: copy a snapshot, then follow the changes.

Before writes are rejected, the whole copy is compared, in a later snapshot. After that, each change
is compared when it is made. So the pause is as long as the last changes take.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import structlog

from tenantry.backup import dumps, same_engine
from tenantry.backup.dumps import CONNECT_SECONDS, POSTGRESQL
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying import checksums, move_obstacles, replication
from tenantry.db.copying.change_copy import HELD_BYTES_MAX, ChangeCopy
from tenantry.db.postgres import schema_signature
from tenantry.db.postgres.connector import Raw
from tenantry.db.postgres.tools import PostgresTools
from tenantry.db.postgres.visibility import CURRENT
from tenantry.db.servers import FENCE_SECONDS_MAX, Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Conflict, Unavailable
from tenantry.kit.stopping import run_in_thread
from tenantry.work.progress import Progress

SMALL_BYTES = 24 * 2**20
"""A smaller database is copied in a second, and needs no slot."""
CAUGHT_UP_SECONDS = 0.2
"""Writes are rejected when following the changes takes no longer: it is part of the pause."""
TRANSACTION_SECONDS_MAX = 0.5
"""Of a transaction in the database when writes are rejected: the pause lasts until it ends."""
POLL_SECONDS = 0.1

_log = structlog.get_logger(__name__)


class Way(StrEnum):
    """How a tenant is moved between two servers of PostgreSQL."""

    AUTO = "auto"  # online if possible, and if the database is not small
    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(frozen=True, kw_only=True)
class MoveLimits:
    """How long each step of a move may take, in seconds, and how much memory.

    Attributes:
        begin_seconds: For transactions on the server, before an online move can begin.
        catch_up_seconds: Until the changes are followed quickly enough to reject writes.
        transaction_seconds: Of a transaction in the database when writes are rejected.
        fence_seconds: For transactions of the tenant that have begun before writes are rejected.
        online_fence_seconds: The same in an online move, whose pause is to be short.
        finish_seconds: For the last changes, while writes are rejected.
        held_bytes: Of the changes that are later than a snapshot.
    """

    begin_seconds: float = replication.BEGIN_SECONDS_MAX
    catch_up_seconds: float = 600.0
    transaction_seconds: float = TRANSACTION_SECONDS_MAX
    fence_seconds: float = FENCE_SECONDS_MAX
    online_fence_seconds: float = 5.0
    finish_seconds: float = 5.0
    held_bytes: int = HELD_BYTES_MAX


MOVE_LIMITS = MoveLimits()


class OnlineImpossible(Conflict):
    """The tenant cannot be moved online; the message has the reason."""


class NotCaughtUp(Unavailable):
    """The tenant is written to faster than its changes can be copied, or has long transactions."""


class PauseTooLong(Unavailable):
    """The last changes were not copied within 5 s: the tenant is where it was. Try again."""


class SchemaChanged(Conflict):
    """The schema of the tenant was changed while it was moved: try again."""


async def find_obstacle(tenant: Tenant, source: Server, target: Server, *, way: Way) -> str | None:
    """Return why a tenant is not moved online from *source* to *target*; None if it is.

    Raises:
        OnlineImpossible: The operator wants nothing else.
        DatabaseUnavailable: A server cannot be reached.
    """
    if way is Way.OFFLINE:
        return "it was not requested"
    found = await _obstacle(tenant, source, target, way)
    if found is not None and way is Way.ONLINE:
        raise OnlineImpossible(f"The tenant cannot be moved online: {found}.")
    return found


def describe(obstacle: str | None) -> str:
    """Return a sentence about how a tenant is moved."""
    if obstacle is None:
        return "Online: writes are rejected only at the end."
    return f"Not online, because {obstacle}: the tenant is read-only during the copy."


async def _obstacle(tenant: Tenant, source: Server, target: Server, way: Way) -> str | None:
    url, new_url = source.url(tenant.database_name), target.url_before(tenant.database_name)
    if {dumps.engine_of(url), dumps.engine_of(new_url)} != {POSTGRESQL}:
        return move_obstacles.NOT_POSTGRESQL
    if tenant.is_read_only or not tenant.is_active:
        return "the tenant accepts no writes"
    async with dumps.connected(url) as raw, dumps.connected(new_url) as new:
        found = await move_obstacles.find_on_target(new) or await move_obstacles.find(raw)
        size = int(await raw.fetchval("SELECT pg_database_size(current_database())"))
    if found is None and way is Way.AUTO and size < SMALL_BYTES:
        return f"the database is small ({size / 1e6:.0f} MB)"
    return found


@dataclass(frozen=True, kw_only=True)
class Following:
    """A copy that follows its original.

    Attributes:
        source: The URL of the original.
        target: The URL of the copy.
        signature: Of the schema, when the copy was begun.
    """

    source: str
    target: str
    changes: ChangeCopy
    signature: str
    limits: MoveLimits

    async def finish(self) -> None:
        """Copy the last changes of the original, which rejects writes.

        Raises:
            PauseTooLong: That takes too long.
            SchemaChanged: The schema is not the one that was copied.
            ChangeDiffers: A change has another result in the copy.
            OnlineImpossible: The original has got contents that cannot be followed.
            DatabaseUnavailable: A database cannot be reached.
            Exception: Any other error of the drivers.
        """
        try:
            async with asyncio.timeout(self.limits.finish_seconds):
                await run_in_thread(self.changes.copy_until_now)
                async with dumps.connected(self.source) as raw, dumps.connected(self.target) as new:
                    await replication.copy_sequences(raw, new)
                    await self.check_schema(raw)
                    found = await move_obstacles.find_in_contents(raw)
        except TimeoutError as error:
            raise PauseTooLong from error
        if found is not None:
            raise OnlineImpossible(f"The tenant cannot be moved online: {found}.")

    async def check_schema(self, raw: Raw) -> None:
        """Check that the original has the schema of the copy.

        Raises:
            SchemaChanged: It has not.
        """
        if await schema_signature.read_signature(raw) != self.signature:
            raise SchemaChanged


@asynccontextmanager
async def following(
    server: Server,
    database_name: str,
    target: str,
    *,
    job_id: UUID,
    progress: Progress,
    tools: PostgresTools,
    limits: MoveLimits,
) -> AsyncIterator[Following]:
    """Copy a database that is written to, compare the copy, and follow the changes in the block.

    When the block begins, the copy is as old as the last changes take to be copied. After the
    block, the original is not followed any longer. The database at the URL *target* must be empty.
    Any process can clean up for the job.

    Raises:
        TransactionsTooLong, NotCaughtUp, TooManyChanges: The server or the tenant is too busy.
        SchemaChanged: Its schema was changed during the copy.
        CopyDiffers, ChangeDiffers: The copy is not the same.
        DatabaseUnavailable, ToolMissing, ToolTooOld, ToolFailed: As for other copies.
        Exception: Any other error of the drivers.
    """
    source, slot = server.url(database_name), replication.name_of(job_id)
    try:
        async with dumps.connected(source) as raw:
            await replication.begin(raw, slot, seconds_max=limits.begin_seconds)
        snapshot, signature = await copy_snapshot(source, target, progress, tools, slot)
        changes = await asyncio.to_thread(
            ChangeCopy,
            source,
            target,
            slot,
            snapshot,
            connect_seconds=CONNECT_SECONDS,
            count=progress.add,
            held_bytes_max=limits.held_bytes,
        )
        try:
            copy = Following(
                source=source, target=target, changes=changes, signature=signature, limits=limits
            )
            await catch_up(copy)
            await compare_rows(copy)
            await catch_up(copy)
            yield copy
        finally:
            await asyncio.to_thread(changes.close)
    finally:
        # Also if this process has lost its job, so that no other process does it.
        await asyncio.shield(_stop(server, database_name, slot))


async def copy_snapshot(
    source: str, target: str, progress: Progress, tools: PostgresTools, slot: str
) -> tuple[str, str]:
    """Copy a snapshot; return it, and the signature of the schema in it.

    Raises:
        SchemaChanged: It has a table that is newer than the publication.
    """
    async with dumps.opened_snapshot(source) as (raw, exported):
        if not await replication.is_complete(raw, slot):
            raise SchemaChanged
        snapshot = str(await raw.fetchval(CURRENT))
        signature = await schema_signature.read_signature(raw)
        contents = await dumps.copy_snapshot(
            raw, exported, source, target, progress.add, tools=tools, is_whole=True
        )
    await dumps.check_loaded(target, contents, is_foreign=False)
    return snapshot, signature


async def catch_up(copy: Following) -> None:
    """Copy changes until that is quick, and no transaction of the tenant lasts long."""
    until = monotonic_seconds() + copy.limits.catch_up_seconds
    async with dumps.connected(copy.source) as raw:
        while not await _is_caught_up(copy, raw):
            if monotonic_seconds() > until:
                raise NotCaughtUp
            await asyncio.sleep(POLL_SECONDS)
        await copy.check_schema(raw)


async def _is_caught_up(copy: Following, raw: Raw) -> bool:
    began = monotonic_seconds()
    await run_in_thread(copy.changes.copy_until_now)
    if monotonic_seconds() - began >= CAUGHT_UP_SECONDS:
        return False
    return not await replication.has_long_transactions(raw, seconds=copy.limits.transaction_seconds)


async def compare_rows(copy: Following) -> None:
    """Compare every row, in one snapshot of the original, while that is written to."""
    async with dumps.opened_snapshot(copy.source) as (raw, _exported):
        snapshot = str(await raw.fetchval(CURRENT))
        await run_in_thread(lambda stop: copy.changes.copy_until_now(stop, within=snapshot))
        async with dumps.connected(copy.target) as copied:
            sums = await asyncio.gather(
                checksums.checksums_postgres(copied), checksums.checksums_postgres(raw)
            )
    same_engine.compare(*sums)


async def _stop(server: Server, database_name: str, slot: str) -> None:
    try:
        await server.stop_following(database_name, slot)
    except DatabaseUnavailable:  # the cleanup of the job tries again
        _log.warning("replication slot not dropped yet", slot=slot, exc_info=True)
