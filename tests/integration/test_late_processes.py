"""A process of a run is late: it was paused, or cut off, and the run was undone in the meantime."""

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from tenantry.catalog import run_claims, run_tenants, runs
from tenantry.catalog.run_tables import tenant_migration
from tenantry.catalog.runs import MigrationState
from tenantry.catalog.workers import NO_WORKER, SILENCE_MS
from tenantry.db.statements import Statement
from tenantry.fleet import outcomes
from tenantry.fleet.claims import POLL_SECONDS
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.migration.errors import is_lock_timeout, is_write_refused
from tenantry.migration.lock_retries import RunUndone
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaState
from tenantry.migration.streams import NO_STREAM, Stream, Streams
from tenantry.migration.undo import UndoScripts
from tenantry.services import open_services
from tenantry.settings import SERVER_DEFAULT, Settings
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import DEADLINE_SECONDS, MakeMigrator
from tests.integration.engines import on_postgresql
from tests.integration.gates import Gate, is_migrated, tenants, until_held

NOTE = "op.create_table('note', sa.Column('id', sa.Integer, primary_key=True))"
BLOCK = "with op.get_context().autocommit_block():\n    "
WAITS_SECONDS = 0.5
"""An undo that does not wait has ended long before."""
LOG = "SELECT stream, revision FROM tenantry_migration_log WHERE stream <> 'tenantry'"
NOT_IDLE = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
AND query ILIKE 'CREATE INDEX CONCURRENTLY%'
"""


some_kinds = pytest.mark.parametrize("kind", ["tenant", "first of an attached"], indirect=True)


@dataclass
class Commit:
    """The moment before a COMMIT, in which a transaction can be kept open."""

    is_reached: threading.Event = field(default_factory=threading.Event)
    may_follow: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> bool:
        """Wait for the test; the COMMIT follows."""
        self.is_reached.set()
        return self.may_follow.wait(DEADLINE_SECONDS)

    async def reached(self) -> None:
        """Wait until a transaction is kept open."""
        assert await asyncio.to_thread(self.is_reached.wait, DEADLINE_SECONDS)


@dataclass(frozen=True)
class Case:
    """A database, and the run that is undone in it."""

    migrator: Migrator
    streams: Callable[[], Streams]
    url: str
    run_id: UUID = field(default_factory=new_id)

    def migrate(
        self, *, run_id: UUID | None = None, **options: Any
    ) -> Coroutine[Any, Any, SchemaState]:
        """Migrate it in the run, or in another one."""
        scripts = options.pop("scripts", None) or RunScripts(self.streams())
        return self.migrator.migrate(self.url, scripts, run_id=run_id or self.run_id, **options)

    def undo(self, migrator: Migrator | None = None) -> Coroutine[Any, Any, SchemaState]:
        """Undo the run."""
        scripts = UndoScripts(self.streams(), self.run_id)
        return (migrator or self.migrator).migrate(self.url, scripts, run_id=new_id())

    def dump(self) -> raw_sql.Dump:
        return raw_sql.dump(self.url)

    def log(self) -> list[tuple[str, str]]:
        """Return what is logged of the user's revisions, in order."""
        return raw_sql.rows(self.url, f"{LOG} ORDER BY position")


@pytest.fixture(name="new")
def _new(
    kind: str, new_tenant: Callable[[], str], new_database: Callable[[], str]
) -> Callable[[], str]:
    """Makes databases of the kind, without a revision of the user."""
    return new_database if "attached" in kind else new_tenant


@pytest.fixture(
    name="kind",
    params=["tenant", "first revision of a tenant", "attached", "first of an attached", "SQL"],
)
def _kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="case")
async def _case(
    kind: str,
    new: Callable[[], str],
    make_migrator: MakeMigrator,
    folder: AlembicFolder,
    tmp_path: Path,
) -> Case:
    """A database in which the run has a revision to apply; of "first", without a version table."""
    path, is_attached = folder.path, "attached" in kind
    if kind == "SQL":
        path = tmp_path / "sql"
        path.mkdir()
        (path / "1_begin.sql").write_text("CREATE TABLE begun (id integer);")
    elif "first" not in kind:
        folder.begin()

    def streams() -> Streams:
        own = NO_STREAM if is_attached else STREAM
        return Streams(own, Stream("user", path), is_attached=is_attached)

    case = Case(make_migrator(DEADLINE_SECONDS), streams, new())
    if "first" not in kind:
        assert (await case.migrate(run_id=new_id())).error is None
    if kind == "SQL":
        (path / "2_note.sql").write_text("CREATE TABLE note (id integer);")
        (path / "2_note.down.sql").write_text("DROP TABLE note;")
    else:
        folder.add("u1_note", NOTE, undo="op.drop_table('note')")
    return case


@pytest.fixture(name="commit")
def _commit() -> Iterator[Commit]:
    commit = Commit()
    yield commit
    commit.may_follow.set()


async def still_waits(task: "asyncio.Task[SchemaState]") -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(WAITS_SECONDS):
            await asyncio.shield(task)
    return not task.done()


class TestOpenTransaction:
    async def test_is_waited_for_and_undone(self, case: Case, commit: Commit):
        async with asyncio.TaskGroup() as group:
            late = group.create_task(case.migrate(has_files=commit.wait))
            await commit.reached()
            undo = group.create_task(case.undo())
            assert await still_waits(undo), undo.result()
            commit.may_follow.set()

        assert (late.result().error, undo.result().error) == (None, None)
        assert len(undo.result().applied) == 1
        assert "note" not in raw_sql.tables(case.url)
        assert isinstance((await case.migrate()).error, RunUndone)

    @on_postgresql
    @pytest.mark.parametrize("kind", ["first revision of a tenant"])
    @pytest.mark.parametrize("ms", range(0, 120, 5))
    async def test_may_end_between_two_reads_of_the_undo(self, case: Case, commit: Commit, ms: int):
        """The first one finds no version table of the user, and the second one the log."""
        async with asyncio.TaskGroup() as group:
            late = group.create_task(case.migrate(has_files=commit.wait))
            await commit.reached()
            undo = group.create_task(case.undo())
            await asyncio.sleep(ms / 1000)
            commit.may_follow.set()

        assert (late.result().error, undo.result().error) == (None, None)
        assert (await case.undo()).error is None
        assert "note" not in raw_sql.tables(case.url)

    async def test_that_is_rolled_back_leaves_nothing_to_undo(self, case: Case, commit: Commit):
        async with asyncio.TaskGroup() as group:
            late = group.create_task(case.migrate(has_files=lambda: not commit.wait()))
            await commit.reached()
            undo = group.create_task(case.undo())
            assert await still_waits(undo), undo.result()
            commit.may_follow.set()

        assert late.result().error is not None
        assert (undo.result().error, undo.result().applied) == (None, [])
        assert "note" not in raw_sql.tables(case.url)

    @some_kinds
    async def test_that_does_not_end_lets_the_undo_fail_until_it_has_ended(
        self, case: Case, commit: Commit, make_migrator: MakeMigrator
    ):
        async with asyncio.TaskGroup() as group:
            group.create_task(case.migrate(has_files=commit.wait))
            await commit.reached()
            try:
                failed = (await case.undo(make_migrator(1.5))).error
            except TimeoutError as error:  # there was no time left to read the state
                failed = error
            commit.may_follow.set()

        assert failed is not None
        assert is_lock_timeout(failed) or isinstance(failed, TimeoutError)
        assert (await case.undo()).error is None
        assert "note" not in raw_sql.tables(case.url)

    @on_postgresql
    async def test_of_an_index_that_is_built_concurrently_is_waited_for(
        self, make_migrator: MakeMigrator, tenant_url: str, folder: AlembicFolder
    ):
        folder.add("u1_note", NOTE)
        case = Case(
            make_migrator(DEADLINE_SECONDS),
            lambda: Streams(STREAM, Stream("user", folder.path)),
            tenant_url,
        )
        assert (await case.migrate(run_id=new_id())).error is None
        index = "'ix', 'note', ['id'], postgresql_concurrently=True"
        drop = "op.drop_index('ix', 'note', postgresql_concurrently=True)"
        folder.add("u2_index", f"{BLOCK}op.create_index({index})", undo=BLOCK + drop)
        before = case.dump()
        async with asyncio.TaskGroup() as group:
            with raw_sql.connected(tenant_url) as query:
                query("BEGIN")
                query("INSERT INTO note VALUES (1)")
                late = group.create_task(case.migrate())
                while not raw_sql.rows(tenant_url, NOT_IDLE):  # noqa: ASYNC110 - by the server
                    await asyncio.sleep(0.02)
                undo = group.create_task(case.undo())
                assert await still_waits(undo), undo.result()
                query("ROLLBACK")

        assert (late.result().error, undo.result().error) == (None, None)
        assert len(undo.result().applied) == 1
        assert case.dump() == before


class TestNothingIsOpen:
    @on_postgresql
    async def test_where_the_role_may_not_write(
        self, make_migrator: MakeMigrator, new_database: Callable[[], str], folder: AlembicFolder
    ):
        url = new_database()
        folder.add("u1_note", NOTE, undo="op.drop_table('note')")

        def streams() -> Streams:
            return Streams(NO_STREAM, Stream("user", folder.path), is_attached=True)

        role = f"reader_{secrets.token_hex(4)}"
        raw_sql.run(url, f"CREATE ROLE {role} LOGIN")
        as_reader = url.replace("//postgres@", f"//{role}@")
        case = Case(make_migrator(DEADLINE_SECONDS), streams, as_reader)
        refused = (await case.migrate()).error
        before = raw_sql.dump(url)
        undo = await case.undo()
        raw_sql.run(url, f"DROP ROLE {role}")

        assert refused is not None
        assert is_write_refused(refused)
        assert (undo.error, undo.applied) == (None, [])
        assert raw_sql.dump(url) == before

    def test_in_a_file_that_may_not_be_written(self, tmp_path: Path):
        path = tmp_path / "a.db"
        path.touch()
        with (
            closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file,
            pytest.raises(sqlite3.OperationalError) as refused,
        ):
            file.execute("CREATE TABLE note (id integer)")

        assert is_write_refused(refused.value)


class TestLateStart:
    @pytest.mark.parametrize("options", [{"is_first": True}, {"is_first": False}])
    async def test_applies_nothing_after_the_undo(self, case: Case, options: dict[str, bool]):
        undo = await case.undo()
        before = case.dump()
        late = await case.migrate(**options)

        assert (undo.error, undo.applied) == (None, [])
        assert isinstance(late.error, RunUndone)
        assert (late.applied, case.dump()) == ([], before)

    @some_kinds
    async def test_that_assumes_the_revision_of_the_last_database_applies_nothing(
        self, case: Case, new: Callable[[], str]
    ):
        scripts = RunScripts(case.streams())
        assert (await case.undo()).error is None
        before = case.dump()
        await case.migrator.migrate(new(), scripts, run_id=case.run_id)
        late = await case.migrate(scripts=scripts)

        assert isinstance(late.error, RunUndone)
        assert (late.applied, case.dump()) == ([], before)

    @some_kinds
    async def test_does_not_keep_another_run_from_applying_the_revisions(self, case: Case):
        await case.undo()
        done = await case.migrate(run_id=new_id())

        assert (done.error, [one.revision for one in done.applied][-1:]) == (
            None,
            ["2_note" if "begun" in raw_sql.tables(case.url) else "u1_note"],
        )

    @some_kinds
    async def test_of_the_undo_itself_marks_the_run_once(self, case: Case):
        first, second = await case.undo(), await case.undo()

        assert (first.error, second.error) == (None, None)
        assert case.log()[-1:] == [(f"closed {case.run_id.hex}", "")]
        assert [stream for stream, _ in case.log()].count(f"closed {case.run_id.hex}") == 1


class TestOlderRelease:
    @some_kinds
    async def test_has_closed_a_run_as_undone_without_a_revision(self, case: Case):
        undo_id = new_id()
        scripts = UndoScripts(case.streams(), case.run_id)
        assert (await case.migrate(run_id=undo_id, scripts=scripts)).error is None
        older = f"UPDATE tenantry_migration_log SET stream = 'undone {case.run_id.hex}'"
        raw_sql.run(case.url, f"{older} WHERE stream LIKE 'closed %'")
        found = await case.migrator.read_state(case.url, case.streams(), run_id=undo_id)

        assert found.applied == []
        assert isinstance((await case.migrate()).error, RunUndone)


class TestTakenOver:
    """A process finds nothing to do where another one was in the middle of the same run."""

    async def test_lets_the_late_process_apply_nothing_after_an_undo_of_another_run(
        self, case: Case
    ):
        other = replace(case, run_id=new_id())
        assert (await other.migrate()).error is None
        ended = await case.migrate(is_first=False)
        assert len((await other.undo()).applied) == 1
        before = case.dump()
        late = [await case.migrate(is_first=is_first) for is_first in (True, False)]

        assert (ended.error, ended.applied) == (None, [])
        assert [type(one.error) for one in late] == [RunUndone, RunUndone]
        assert case.dump() == before

    async def test_waits_for_an_undo_that_is_open_and_applies_what_that_takes_back(
        self, case: Case, commit: Commit
    ):
        other = replace(case, run_id=new_id())
        assert (await other.migrate()).error is None
        scripts = UndoScripts(case.streams(), other.run_id)
        async with asyncio.TaskGroup() as group:
            undo = group.create_task(
                case.migrate(run_id=new_id(), scripts=scripts, has_files=commit.wait)
            )
            await commit.reached()
            ended = group.create_task(case.migrate(is_first=False))
            assert await still_waits(ended), ended.result()
            commit.may_follow.set()

        assert (undo.result().error, ended.result().error) == (None, None)
        assert len(ended.result().applied) == 1
        assert "note" in raw_sql.tables(case.url)

    @some_kinds
    async def test_ends_well_when_it_is_taken_over_again(self, case: Case):
        assert (await case.migrate(run_id=new_id())).error is None
        ended = [await case.migrate(is_first=False) for _ in range(2)]

        assert [(one.error, one.applied) for one in ended] == [(None, []), (None, [])]
        assert case.log()[-1:] == [(f"closed {case.run_id.hex}", str(case.streams().head))]
        assert [stream for stream, _ in case.log()].count(f"closed {case.run_id.hex}") == 1

    @some_kinds
    async def test_ends_well_by_two_processes_at_once(self, case: Case, commit: Commit):
        assert (await case.migrate(run_id=new_id())).error is None
        async with asyncio.TaskGroup() as group:
            first = group.create_task(case.migrate(is_first=False, has_files=commit.wait))
            await commit.reached()
            second = group.create_task(case.migrate(is_first=False))
            assert await still_waits(second), second.result()
            commit.may_follow.set()

        assert (first.result().error, second.result().error) == (None, None)
        assert [stream for stream, _ in case.log()].count(f"closed {case.run_id.hex}") == 1

    @some_kinds
    async def test_is_continued_by_a_process_with_later_revisions(
        self, case: Case, folder: AlembicFolder
    ):
        assert (await case.migrate(run_id=new_id())).error is None
        assert (await case.migrate(is_first=False)).error is None
        folder.add("u2_page", "op.create_table('page', sa.Column('id', sa.Integer))")
        later = await case.migrate(is_first=False)

        assert (later.error, [one.revision for one in later.applied]) == (None, ["u2_page"])

    @some_kinds
    async def test_with_later_revisions_closes_it_for_the_late_process(
        self, case: Case, folder: AlembicFolder
    ):
        earlier = RunScripts(case.streams())
        assert earlier.head() == case.streams().head  # it has read the files
        page = "op.create_table('page', sa.Column('id', sa.Integer))"
        folder.add("u2_page", page, undo="op.drop_table('page')")
        later = replace(case, run_id=new_id())
        assert (await later.migrate()).error is None
        assert (await case.migrate(is_first=False)).error is None
        assert len((await later.undo()).applied) == 2
        before = case.dump()
        late = await case.migrate(scripts=earlier)

        assert isinstance(late.error, RunUndone)
        assert case.dump() == before

    @some_kinds
    async def test_is_closed_by_its_undo_for_these_too(self, case: Case, folder: AlembicFolder):
        assert (await case.migrate(run_id=new_id())).error is None
        assert (await case.migrate(is_first=False)).error is None
        assert (await case.undo()).error is None
        folder.add("u2_page", "op.create_table('page', sa.Column('id', sa.Integer))")

        assert isinstance((await case.migrate(is_first=False)).error, RunUndone)

    @some_kinds
    async def test_is_undone_as_any_other(self, case: Case):
        """What the late process has applied before is in the log."""
        assert (await case.migrate()).error is None
        ended = await case.migrate(is_first=False)
        undo = await case.undo()

        assert (ended.error, undo.error) == (None, None)
        assert len(undo.applied) == 1
        assert "note" not in raw_sql.tables(case.url)

    @some_kinds
    async def test_writes_nothing_if_none_was_there_before(self, case: Case):
        assert (await case.migrate(run_id=new_id())).error is None
        before = case.log()
        assert (await case.migrate(is_first=True)).error is None

        assert case.log() == before

    @some_kinds
    async def test_writes_nothing_if_that_has_applied_the_last_revision(self, case: Case):
        assert (await case.migrate()).error is None
        before = case.log()
        ended = await case.migrate(is_first=False)

        assert (ended.error, len(ended.applied)) == (None, 1)
        assert case.log() == before

    async def test_writes_nothing_without_a_log(
        self, new_database: Callable[[], str], make_migrator: MakeMigrator, folder: AlembicFolder
    ):
        folder.add("u1_note", NOTE)

        def streams() -> Streams:
            user = Stream("user", folder.path)
            return Streams(NO_STREAM, user, has_log=False, is_attached=True)

        case = Case(make_migrator(DEADLINE_SECONDS), streams, new_database())
        assert (await case.migrate()).error is None
        before = raw_sql.tables(case.url)
        ended = await case.migrate(is_first=False)

        assert (ended.error, ended.applied, raw_sql.tables(case.url)) == (None, [], before)


@pytest.mark.slow
class TestSilentProcess:
    async def test_starts_no_tenant_that_others_have_taken_over(self, gated: Settings, gate: Gate):
        """They may have ended it, and what was applied to it may be undone by now."""
        settings = gated.model_copy(update={"migrate_concurrency": 1})
        async with open_services(settings) as services:
            some = await tenants(services, 3)
            gate.build()
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            await gate.reached(1)
            await until_held(settings, len(some))
            pause_until_ended(settings, run_id)
            gate.open()
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not services.worker.is_idle:  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.02)

            assert [is_migrated(services, one) for one in some] == [True, False, False]

    @pytest.mark.parametrize(
        "holder",
        [
            pytest.param(NO_WORKER, id="that another one has given back"),
            pytest.param(None, id="that it has returned without an answer"),
        ],
    )
    async def test_takes_no_tenant_back_on_which_it_still_works(
        self, gated: Settings, gate: Gate, holder: UUID | None
    ):
        """The outcome of its first attempt would count for the second one, which applies later."""
        async with open_services(gated) as services:
            await tenants(services, 1)
            gate.build()
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            await gate.reached(1)
            lost = sa.update(tenant_migration).values(worker_id=holder)
            async with services.catalog.begin() as session:
                await session.execute(Statement[Any](lost))
            services.worker.hint()
            await asyncio.sleep(3 * POLL_SECONDS)
            holders = raw_sql.rows(gated.catalog, "SELECT worker_id FROM tenant_migration")
            gate.open()
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not (ended := await runs.ended(services.catalog, run_id)):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

        assert [one and UUID(str(one)) for (one,) in holders] == [holder]
        assert [item.state for item in ended] == [MigrationState.SUCCESS.value]


def pause_until_ended(settings: Settings, run_id: UUID) -> None:
    """Stop this process, as SIGSTOP does, until another one has taken over its tenants."""
    other = threading.Thread(target=lambda: asyncio.run(end_in_its_place(settings, run_id)))
    other.start()
    other.join()


async def end_in_its_place(settings: Settings, run_id: UUID) -> None:
    """Take all tenants of a run over when its process is silent, and end them."""
    async with open_services(settings, works=False) as services:
        own, catalog = services.heartbeat.worker_id, services.catalog
        await asyncio.sleep(SILENCE_MS / 1000 + 0.2)
        items = await run_claims.claim(
            catalog, run_id, own, server_name=SERVER_DEFAULT, limit=100, were_held=True
        )
        now = utc_now()
        ended = [
            outcomes.succeeded(one, applied=[], started_at=now, position=None) for one in items
        ]
        async with catalog.begin() as session:
            await run_tenants.record(session, ended, own)
        assert (await runs.get(catalog, run_id)).finished_at is not None
