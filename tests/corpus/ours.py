"""Run a project as Tenantry does: the revisions of a tenant, through the engine of the fleet."""

from collections.abc import Collection
from concurrent.futures import Executor
from pathlib import Path

from tenantry.kit.ids import new_id
from tenantry.migration import dialects
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator, RunScripts, TimeLimits
from tenantry.migration.recorder import Unrecorded, record
from tenantry.migration.streams import NO_STREAM, Stream, Streams
from tenantry.tenant.stream import STREAM
from tests.corpus.plain import imports_forgotten

LIMITS = TimeLimits(connect_seconds=5.0, deadline_seconds=30.0, lock_ms=2_000)


async def make_tenant(url: str, threads: Executor) -> None:
    """Make an empty database a tenant's, without revisions of its own."""
    migrator = Migrator(threads, LIMITS)
    await migrator.initialise(url, RunScripts(Streams(STREAM)), run_id=new_id())


async def upgrade(
    ini: Path, url: str, threads: Executor, driver: str, own: Stream = STREAM
) -> str | None:
    """Bring the database to the head of the project; return why it failed, as in the history.

    It is a tenant's, unless *own* is `NO_STREAM`: then it is an attached one.
    """
    user, is_attached = Stream("user", ini.parent / "migrations"), own is NO_STREAM
    streams = Streams(own, user, "alembic_version", is_attached=is_attached)
    try:
        migrator = Migrator(threads, LIMITS, driver=driver)
        done = await migrator.migrate(url, RunScripts(streams), run_id=new_id())
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return explain(error)
    return explain(done.error) if done.error else None


def live_revisions(ini: Path, engines: Collection[str], driver: str) -> list[str]:
    """Return the revisions of the project that are not recorded, on any of *engines*."""
    known = {"sqlite": dialects.SQLITE, "postgresql": dialects.postgresql((18,), driver)}
    with imports_forgotten(ini.parent):
        revisions = Stream("user", ini.parent / "migrations").revisions
        return [
            one.name
            for engine in engines
            for one in revisions
            if isinstance(record(one, known[engine]), Unrecorded)
        ]
