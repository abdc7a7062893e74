"""The migration of a tenant ends at its deadline, whatever the server does."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.lock_retries import Inspection
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaState
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import MakeMigrator, Rig
from tests.integration.engines import on_postgresql
from tests.integration.gates import Gate
from tests.own_time import own_seconds

# A migration comes to each of the moments within it, also on a busy machine.
DEADLINE_SECONDS = 5.0
# The shorter ones can pass before the lock is asked for, on a busy machine.
DEADLINES = (1.0, 5.0, 25.0)
# With these there are three seconds to read what was committed.
LONG_DEADLINES = (15.0, 60.0)
FROZEN_SECONDS_MAX = 60.0
# A busy machine is late; a deadline that is not kept never ends.
LATE_SECONDS_MAX = 5.0
BYTES_MAX = 65_536
AWAITED = (
    "The database did not answer in time, while it was asked for the lock of a migration: perhaps "
    "another one has not ended, or its process is frozen."
)
CREATE_NOTES = "op.create_table('note', sa.Column('id', sa.Integer))"
# Bytes that a client sends in each step.
MOMENTS = {
    "the connection": b"tenantry-migrate",
    "the first read": b"tenantry_version",
    "the swap": b"BEGIN",
    "the script": b"CREATE TABLE note",
    "the end": b"COMMIT",
}


@asynccontextmanager
async def silenced(url: str, moment: bytes, *, cuts: bool = False) -> AsyncIterator[str]:
    """Yield the URL of a proxy that stops forwarding once, when a client sends *moment*.

    Args:
        url: The URL of the server.
        moment: The bytes that it waits for.
        cuts: Whether it closes the connection instead.
    """
    items = urlsplit(url)
    was_sent = False
    silence = asyncio.Event()  # held here: a task that only waits for its own future is collected

    async def forward(
        read: asyncio.StreamReader, write: asyncio.StreamWriter, *, to_server: bool
    ) -> None:
        nonlocal was_sent
        with contextlib.suppress(OSError):
            while data := await read.read(BYTES_MAX):
                if to_server and moment in data and not was_sent:
                    was_sent = True
                    write.transport.abort() if cuts else await silence.wait()
                write.write(data)
            write.close()

    async def serve(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        behind_read, behind_write = await asyncio.open_connection(items.hostname, items.port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(forward(read, behind_write, to_server=True))
                group.create_task(forward(behind_read, write, to_server=False))
        finally:
            write.transport.abort()
            behind_write.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    try:
        yield url.replace(f":{items.port}/", f":{port}/")
    finally:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Outcome = tuple[SchemaState | Exception, float]


@pytest.fixture(name="migrate")
def _migrate(rig: Rig, make_migrator: MakeMigrator) -> Callable[[str], "asyncio.Future[Outcome]"]:
    async def migrate(url: str) -> Outcome:
        migrator, scripts = make_migrator(DEADLINE_SECONDS), RunScripts(rig.streams())
        with own_seconds() as seconds:
            try:
                done: SchemaState | Exception = await migrator.migrate(
                    url, scripts, run_id=new_id()
                )
            except Exception as error:  # noqa: BLE001 - the assertion is about it
                done = error
            return done, seconds()

    return lambda url: asyncio.ensure_future(migrate(url))


async def _said_at_last(
    make_migrator: MakeMigrator, ask: Callable[[Migrator], Awaitable[SchemaState | Inspection]]
) -> str:
    """Return the error with the first deadline after which it is `AWAITED`, or the longest."""
    said = ""
    for seconds in DEADLINES:
        try:
            error = (await ask(make_migrator(seconds))).error
        except Exception as late:  # noqa: BLE001 - the assertion is about it
            error = late
        assert error is not None
        said = explain(error)
        if said == AWAITED:
            break
    return said


class TestAnotherMigration:
    @pytest.mark.parametrize("rehearses", [False, True])
    async def test_that_does_not_end_is_named(
        self, tenant_url: str, gate: Gate, rig: Rig, make_migrator: MakeMigrator, *, rehearses: bool
    ):
        async def ask(migrator: Migrator) -> SchemaState | Inspection:
            scripts = RunScripts(rig.streams())
            if rehearses:
                return await migrator.inspect(tenant_url, scripts, rehearses=True)
            return await migrator.migrate(tenant_url, scripts, run_id=new_id())

        gate.build()
        frozen = asyncio.create_task(rig.migrate(tenant_url))
        await gate.reached(1)
        try:
            said = await _said_at_last(make_migrator, ask)
        finally:
            gate.open()

        assert said == AWAITED
        assert (await frozen).error is None


class TestFrozenProcess:
    @pytest.mark.slow
    async def test_knows_what_it_has_committed_after_its_deadline(
        self, tenant_url: str, gate: Gate, rig: Rig, make_migrator: MakeMigrator
    ):
        """While it is frozen, here its event loop, the server commits what it was sent."""
        gate.build()
        for seconds in LONG_DEADLINES:
            migrator, scripts = make_migrator(seconds), RunScripts(rig.streams())
            running = asyncio.create_task(migrator.migrate(tenant_url, scripts, run_id=new_id()))
            reached = asyncio.create_task(gate.reached(1))
            await asyncio.wait([running, reached], return_when=asyncio.FIRST_COMPLETED)
            if reached.done() and not running.done():
                break
        gate.open()
        _freeze_until_committed(tenant_url, seconds)
        done = await running

        assert (done.error, [one.revision for one in done.applied]) == (None, ["g1_gate"])
        assert "note" in raw_sql.tables(tenant_url)


def _freeze_until_committed(url: str, seconds: float) -> None:
    """Keep the event loop from running until the gate's table is there, and *seconds* are over."""
    ends = time.monotonic() + seconds
    while "note" not in raw_sql.tables(url) or time.monotonic() < ends:
        assert time.monotonic() < ends + FROZEN_SECONDS_MAX
        time.sleep(0.05)


def _error_of(done: SchemaState | Exception) -> Exception:
    error = done.error if isinstance(done, SchemaState) else done
    assert error is not None
    return error


@on_postgresql
class TestDeadline:
    @pytest.mark.slow
    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_is_kept_with_a_server_that_goes_silent(
        self,
        folder: AlembicFolder,
        tenant_url: str,
        migrate: Callable[[str], "asyncio.Future[Outcome]"],
        moment: str,
    ):
        folder.add("u1_create_notes", CREATE_NOTES)

        async with silenced(tenant_url, MOMENTS[moment]) as url:
            done, took = await migrate(url)

        said = AWAITED if moment == "the swap" else "The database did not answer in time."
        assert explain(_error_of(done)) == said
        assert took < DEADLINE_SECONDS + LATE_SECONDS_MAX
        assert "note" not in raw_sql.tables(tenant_url)

    @pytest.mark.parametrize(
        ("moment", "sentence"),
        [
            ("the script", "u1_create_notes: The connection to the server was lost."),
            ("the end", "The connection to the server was lost."),
        ],
    )
    async def test_leaves_time_to_find_out_what_stayed(
        self,
        folder: AlembicFolder,
        tenant_url: str,
        migrate: Callable[[str], "asyncio.Future[Outcome]"],
        moment: str,
        sentence: str,
    ):
        """Where another connection can be had."""
        folder.add("u1_create_notes", CREATE_NOTES)

        async with silenced(tenant_url, MOMENTS[moment], cuts=True) as url:
            done, _ = await migrate(url)

        assert isinstance(done, SchemaState)
        assert done.error is not None
        assert explain(done.error) == sentence
        assert done.applied == []
        assert done.revision.user == ""
