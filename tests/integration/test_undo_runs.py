"""Undo exactly one run: in each tenant, what that run has applied there, and nothing else."""

import asyncio
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from tenantry.catalog import runs
from tenantry.catalog.runs import MigrationRun, RunState
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import Tenant
from tenantry.db.statements import Statement
from tenantry.fleet.approval import PlanRequired
from tenantry.fleet.dry_run import Preview
from tenantry.fleet.pending_revisions import LostData
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.fleet.run_undo import NothingToUndo, RunUnfinished, UndoOfUndo
from tenantry.kit.context import system_context
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.undo import NoDowngrade, RevisionLost
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.conftest import HEAD, HEAD_NAME, UNDO_HEAD, provision
from tests.integration.engines import on_postgresql
from tests.integration.gates import WAIT_SECONDS_MAX, Gate, mend, spoil, tenants, url_of
from tests.integration.programs import running

MOVED_ON = "not attempted: The database was migrated after the run, so the run is not undone there."

LOST = "The log of the database has lost what the run has applied: it is perhaps an older copy."


def add_table(folder: AlembicFolder, name: str, *, head: str = "", down: str | None = None) -> Path:
    """Add a revision that creates a table, and drops it when it is undone."""
    table = name.partition("_")[2]
    return folder.add(
        name,
        f"op.create_table({table!r}, sa.Column('id', sa.Integer, primary_key=True))",
        undo=f"op.drop_table({table!r})",
        head=head,
        down=down,
    )


@pytest.fixture(name="undoable")
def _undoable(settings: Settings, folder: AlembicFolder) -> Settings:
    """Settings of a fleet with one revision of the user, which changes nothing."""
    return settings.model_copy(update={"tenant_migrations": folder.begin()})


async def migrate(services: Services, **options: object) -> MigrationRun:
    """Run with these options, and return the run that has ended."""
    chosen = RunOptions(**options)  # type: ignore[arg-type]
    run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada", options=chosen)
    return await services.fleet.wait(run_id)


async def preview(services: Services, run: MigrationRun, *, rehearse: bool = False) -> Preview:
    options = RunOptions(undoes=run.id)
    return await services.fleet.preview(system_context("ada"), options, rehearse=rehearse)


def lost(table: str, column: str | None, count: int) -> LostData:
    return LostData(table=table, column=column, count=count, is_more=False, tenant_count=2)


def counts(run: MigrationRun) -> tuple[int, int]:
    return run.success_count, run.failed_count


async def errors(services: Services, run: MigrationRun) -> list[str | None]:
    return [one.error for one in await runs.ended(services.catalog, run.id)]


async def applied(services: Services, run: MigrationRun) -> list[str | None]:
    return [one.applied for one in await runs.ended(services.catalog, run.id)]


def dumps(services: Services, some: Sequence[Tenant]) -> list[raw_sql.Dump]:
    return [raw_sql.dump(url_of(services, one)) for one in some]


def versions(services: Services, tenant: Tenant) -> set[str]:
    found = raw_sql.rows(url_of(services, tenant), "SELECT version_num FROM alembic_version")
    return {version for (version,) in found}


class TestUndo:
    @pytest.mark.parametrize("head", ["", "online = True"], ids=["recorded", "live"])
    async def test_takes_back_what_the_run_has_applied_newest_first(
        self, undoable: Settings, folder: AlembicFolder, head: str
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 2)
            add_table(folder, "u1_note", head=head)
            await migrate(services)
            before = dumps(services, some)
            add_table(folder, "u2_mark", head=head)
            folder.add(
                "u3_text",
                "op.add_column('note', sa.Column('text', sa.String))",
                undo="op.drop_column('note', 'text')",
                head=head,
            )
            run = await migrate(services)
            undo = await migrate(services, undoes=run.id)
            after = dumps(services, some)
            seen = raw_sql.rows(undoable.catalog, "SELECT schema_revision FROM tenant")

            assert (undo.undoes, undo.state, counts(undo)) == (run.id, RunState.SUCCESS, (2, 0))
            assert await applied(services, undo) == ["u3_text,u2_mark"] * 2
        assert after == before
        assert seen == [(f"{HEAD}/u1",)] * 2

    async def test_back_to_no_revision_leaves_an_empty_version_table(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable.model_copy(update={"tenant_migrations": None})) as bare:
            (tenant,) = await tenants(bare, 1)
        (folder.path / "versions" / "begin.py").unlink()
        folder.last = None
        add_table(folder, "u1_note")
        async with open_services(undoable) as services:
            run = await migrate(services)
            undo = await migrate(services, undoes=run.id)

            assert counts(undo) == (1, 0)
            assert versions(services, tenant) == set()
            assert "note" not in raw_sql.tables(url_of(services, tenant))
            again = await migrate(services)
            assert (counts(again), versions(services, tenant)) == ((1, 0), {"u1"})

    async def test_leaves_tenants_that_have_moved_on_and_names_them(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            plain, later, by_hand = await tenants(services, 3)
            add_table(folder, "u1_note")
            run = await migrate(services)
            add_table(folder, "u2_mark")
            await migrate(services, tenant_ids=[later.id])
            raw_sql.run(url_of(services, by_hand), "UPDATE alembic_version SET version_num='begin'")
            before = dumps(services, [later, by_hand])

            seen = await preview(services, run)
            undo = await migrate(services, undoes=run.id)

            assert [one.error for one in seen.details] == [None, *[MOVED_ON[15:]] * 2]
            assert counts(undo) == (1, 2)
            assert undo.not_attempted_count == 2
            assert await errors(services, undo) == [None, MOVED_ON, MOVED_ON]
            assert dumps(services, [later, by_hand]) == before
            assert versions(services, plain) == {"begin"}

    async def test_leaves_a_revision_that_a_later_run_has_applied_after_a_downgrade_by_hand(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            (tenant,) = await tenants(services, 1)
            add_table(folder, "u1_note")
            run = await migrate(services)
            by_hand = "UPDATE alembic_version SET version_num = 'begin'"
            raw_sql.run(url_of(services, tenant), "DROP TABLE note", by_hand)
            later = await migrate(services)
            before = dumps(services, [tenant])
            undo = await migrate(services, undoes=run.id)

            assert await errors(services, undo) == [MOVED_ON]
            assert dumps(services, [tenant]) == before
            assert counts(await migrate(services, undoes=later.id)) == (1, 0)

    async def test_of_the_newest_run_and_then_of_the_one_before(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 1)
            before = dumps(services, some)
            add_table(folder, "u1_note")
            first = await migrate(services)
            add_table(folder, "u2_mark")
            second = await migrate(services)
            for run in (second, first):
                assert counts(await migrate(services, undoes=run.id)) == (1, 0)

            assert dumps(services, some) == before

    async def test_leaves_the_same_revision_that_a_later_run_has_applied_again(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            one, other = await tenants(services, 2)
            add_table(folder, "u1_note")
            run = await migrate(services)
            await migrate(services, undoes=run.id, tenant_ids=[one.id])
            assert counts(await migrate(services)) == (2, 0)
            undo = await migrate(services, undoes=run.id)

            assert (undo.total_count, counts(undo)) == (1, (1, 0))
            assert (versions(services, one), versions(services, other)) == ({"u1"}, {"begin"})

    async def test_touches_no_revision_of_tenantry_itself(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            (tenant,) = await tenants(services, 1)
            raw_sql.run(url_of(services, tenant), *UNDO_HEAD)
            alone = await migrate(services)
            with pytest.raises(NothingToUndo):
                await migrate(services, undoes=alone.id)
            raw_sql.run(url_of(services, tenant), *UNDO_HEAD)
            add_table(folder, "u1_note")
            mixed = await migrate(services)
            assert await applied(services, mixed) == [f"{HEAD_NAME},u1_note"]
            undo = await migrate(services, undoes=mixed.id)

            assert await applied(services, undo) == ["u1_note"]
            sql = "SELECT version_num FROM tenantry_version"
            assert raw_sql.rows(url_of(services, tenant), sql) == [(HEAD,)]

    async def test_of_one_branch_keeps_the_other(self, undoable: Settings, folder: AlembicFolder):
        async with open_services(undoable) as services:
            (tenant,) = await tenants(services, 1)
            add_table(folder, "a1_left")
            await migrate(services)
            before = dumps(services, [tenant])
            add_table(folder, "b1_right", down="begin")
            folder.last = "a1"
            merge = folder.add("m1_merge", "pass", undo="op.execute('SELECT 1')")
            merge.write_text(merge.read_text().replace("= 'a1'", "= ('a1', 'b1')"))
            add_table(folder, "u1_after")
            run = await migrate(services)
            undo = await migrate(services, undoes=run.id)

            assert counts(undo) == (1, 0), await errors(services, undo)
            assert await applied(services, undo) == ["u1_after,m1_merge,b1_right"]
            assert dumps(services, [tenant]) == before

    async def test_applies_no_revision_that_has_come_since(
        self, undoable: Settings, folder: AlembicFolder
    ):
        """Not even one, where one is undone in each of several tenants at the same revision."""
        undoable = undoable.model_copy(update={"migrate_concurrency": 1})
        async with open_services(undoable) as services:
            some = await tenants(services, 3)
            add_table(folder, "u1_note")
            run = await migrate(services)
            add_table(folder, "u2_mark")
            undo = await migrate(services, undoes=run.id)

            assert await applied(services, undo) == ["u1_note"] * 3
            assert [versions(services, one) for one in some] == [{"begin"}] * 3

    async def test_fails_where_the_log_has_lost_what_the_run_has_applied(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 2)
            add_table(folder, "u1_note")
            run = await migrate(services)
            lost = "DELETE FROM tenantry_migration_log WHERE stream = 'user'"
            raw_sql.run(url_of(services, some[0]), lost)
            undo = await migrate(services, undoes=run.id)

            assert counts(undo) == (1, 1)
            assert LOST in await errors(services, undo)
            assert [versions(services, one) for one in some] == [{"u1"}, {"begin"}]
            assert counts(await migrate(services, undoes=run.id)) == (0, 1)

    async def test_takes_back_what_a_late_process_has_applied_where_all_had_failed(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            [one] = await tenants(services, 1)
            add_table(folder, "u1_note")
            spoil(services, one)
            run = await migrate(services)
            assert counts(run) == (0, 1)
            mend(services, one)
            scripts = RunScripts(services.streams())
            late = await services.migrator.migrate(url_of(services, one), scripts, run_id=run.id)
            assert late.error is None
            undo = await migrate(services, undoes=run.id)

            assert await applied(services, undo) == ["u1_note"]
            assert versions(services, one) == {"begin"}

    async def test_opens_no_tenant_that_a_stopped_run_has_not_begun(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 3)
            add_table(folder, "u1_note")
            raw_sql.run(url_of(services, some[1]), "CREATE TABLE note (id INTEGER)")
            run = await migrate(services, waves=[1, 2, "100%"], max_failures=0)
            assert (run.state, counts(run)) == (RunState.STOPPED, (1, 2))
            before = raw_sql.dump(url_of(services, some[2]))
            undo = await migrate(services, undoes=run.id)

            assert (undo.total_count, counts(undo)) == (2, (2, 0))
            assert raw_sql.dump(url_of(services, some[2])) == before

    async def test_has_waves_and_a_budget_and_is_retried_as_an_undo(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 3)
            add_table(folder, "u1_note")
            run = await migrate(services)
            raw_sql.run(url_of(services, some[0]), "DROP TABLE note")
            undo = await migrate(services, undoes=run.id, waves=[1, "100%"], max_failures=0)
            assert (undo.state, counts(undo)) == (RunState.STOPPED, (0, 3))
            raw_sql.run(url_of(services, some[0]), "CREATE TABLE note (id INTEGER)")
            # Another run has found one at the head, and a late process has contradicted it.
            unknown = sa.update(tenant).values(schema_revision=None, failing_run_id=None)
            async with services.catalog.begin() as session:
                await session.execute(Statement[Any](unknown.where(tenant.c.id == some[1].id)))
            again = await migrate(services, retry_of=undo.id)

            assert (again.undoes, counts(again)) == (run.id, (3, 0))
            with pytest.raises(BadRunOptions):
                await migrate(services, retry_of=run.id, undoes=run.id)

    async def test_is_planned_rehearsed_and_started_as_it_was_reviewed(
        self, undoable: Settings, folder: AlembicFolder
    ):
        undoable = undoable.model_copy(update={"require_plan": "1"})
        async with open_services(undoable.model_copy(update={"require_plan": ""})) as services:
            some = await tenants(services, 2)
            before = dumps(services, some)
            add_table(folder, "u1_note")
            run = await migrate(services)
        async with open_services(undoable) as services:
            between = dumps(services, some)
            with pytest.raises(PlanRequired):
                await migrate(services, undoes=run.id)
            found = await preview(services, run, rehearse=True)
            assert dumps(services, some) == between
            assert [one.pending_migrations for one in found.details] == ["u1_note"] * 2
            assert [one.sql for one in found.revisions] == ["DROP TABLE note"]
            assert found.plan is not None
            assert found.plan.passed_count == 2
            run_id = await services.fleet.plan(
                system_context("ada"), triggered_by="ada", plan_id=found.plan.id
            )
            undo = await services.fleet.wait(run_id)

            assert (undo.undoes, counts(undo)) == (run.id, (2, 0))
            assert dumps(services, some) == before

    async def test_plan_counts_what_is_lost_over_all_tenants(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 2)
            add_table(folder, "u1_note")
            await migrate(services)
            folder.add(
                "u2_text",
                "op.add_column('note', sa.Column('text', sa.String))",
                undo="op.drop_column('note', 'text')",
            )
            add_table(folder, "u3_mark")
            run = await migrate(services)
            for tenant in some:
                url = url_of(services, tenant)
                raw_sql.run(url, "INSERT INTO note VALUES (1, 'a'), (2, 'b'), (3, NULL)")
                raw_sql.run(url, "INSERT INTO mark VALUES (1)")
            found = await preview(services, run, rehearse=True)

            assert [(one.revision, one.lost) for one in found.revisions] == [
                ("u3_mark", [lost("mark", None, 2)]),
                ("u2_text", [lost("note", "text", 4)]),
            ]

    @on_postgresql
    async def test_of_an_index_that_was_built_concurrently_drops_it_so(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 1)
            add_table(folder, "u1_note")
            await migrate(services)
            before = dumps(services, some)
            block = "with op.get_context().autocommit_block():\n    "
            folder.add(
                "u2_index",
                f"{block}op.create_index('ix', 'note', ['id'], postgresql_concurrently=True)",
                undo=f"{block}op.drop_index('ix', 'note', postgresql_concurrently=True)",
            )
            add_table(folder, "u3_mark")
            run = await migrate(services)
            undo = await migrate(services, undoes=run.id)

            assert counts(undo) == (1, 0), await errors(services, undo)
            assert await applied(services, undo) == ["u3_mark,u2_index"]
            assert dumps(services, some) == before


class TestRefusal:
    @pytest.mark.parametrize(
        "body",
        [
            None,
            "pass",
            '"""Not yet."""\n...',
            "raise NotImplementedError('later')",
            "name = op.f('mark')",
            "if False:\n    op.drop_table('mark')",
        ],
    )
    async def test_of_a_missing_or_empty_downgrade_names_the_line_and_starts_nothing(
        self, undoable: Settings, folder: AlembicFolder, body: str | None
    ):
        async with open_services(undoable) as services:
            await tenants(services, 1)
            add_table(folder, "u1_note")
            folder.add("u2_mark", "op.create_table('mark', sa.Column('id', sa.Integer))", undo=body)
            run = await migrate(services)
            with pytest.raises(
                NoDowngrade, match=r"^u2_mark.py, line \d+: `downgrade\(\)` (is|runs no) "
            ):
                await migrate(services, undoes=run.id)
            with pytest.raises(NoDowngrade):
                await preview(services, run)

    async def test_of_a_downgrade_without_effect_on_one_engine_leaves_its_tenants_as_they_are(
        self, undoable: Settings, folder: AlembicFolder, engine: str
    ):
        async with open_services(undoable) as services:
            some = await tenants(services, 1)
            add_table(folder, "u1_note")
            folder.add(
                "u2_mark",
                "op.create_table('mark', sa.Column('id', sa.Integer))",
                undo=f"if op.get_context().dialect.name != {engine!r}:\n    op.drop_table('mark')",
            )
            run = await migrate(services)
            before = dumps(services, some)
            rehearsed = await preview(services, run, rehearse=True)
            undo = await migrate(services, undoes=run.id)

            for error in (rehearsed.details[0].error, *await errors(services, undo)):
                assert "`downgrade()` runs no statement" in str(error)
            assert (counts(undo), dumps(services, some)) == ((0, 1), before)

    async def test_of_a_downgrade_without_a_statement_follows_its_upgrade(
        self, undoable: Settings, folder: AlembicFolder
    ):
        """A revision that has changed nothing needs no statement to be undone."""
        async with open_services(undoable) as services:
            await tenants(services, 1)
            add_table(folder, "u1_note")
            folder.add("u2_mark", "name = op.f('mark')", undo="name = op.f('mark')")
            undo = await migrate(services, undoes=(await migrate(services)).id)

            assert await applied(services, undo) == ["u2_mark,u1_note"]

    async def test_of_a_run_that_has_not_ended(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await tenants(services, 1)
            gate.build()
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            await gate.reached(1)
            with pytest.raises(RunUnfinished):
                await migrate(services, undoes=run_id)
            gate.open()
            await services.fleet.wait(run_id)

    async def test_of_an_undo_and_of_a_second_undo(self, undoable: Settings, folder: AlembicFolder):
        async with open_services(undoable) as services:
            await tenants(services, 1)
            add_table(folder, "u1_note")
            run = await migrate(services)
            undo = await migrate(services, undoes=run.id)
            with pytest.raises(UndoOfUndo):
                await migrate(services, undoes=undo.id)
            with pytest.raises(NothingToUndo):
                await migrate(services, undoes=run.id)
            with pytest.raises(NothingToUndo):
                await preview(services, run)

    async def test_of_a_revision_whose_file_is_gone(
        self, undoable: Settings, folder: AlembicFolder
    ):
        async with open_services(undoable) as services:
            await tenants(services, 1)
            file = add_table(folder, "u1_note")
            run = await migrate(services)
            file.unlink()
            with pytest.raises(RevisionLost, match="u1_note"):
                await migrate(services, undoes=run.id)


@pytest.mark.slow
async def test_a_killed_undo_is_finished_and_other_tenants_stay_byte_for_byte(
    undoable: Settings, folder: AlembicFolder
):
    async with open_services(undoable) as services:
        touched = await tenants(services, 8)
        others = [(await provision(services, f"other{number}")).tenant for number in range(3)]
        before = dumps(services, touched)
        for number in range(1, 4):
            table = f"u{number}_t{number}"
            add_table(folder, table, head="import time\nonline = True")
            file = folder.path / "versions" / f"{table}.py"
            file.write_text(file.read_text().replace("op.drop", "time.sleep(0.2)\n    op.drop"))
        run = await migrate(services, tenant_ids=[one.id for one in touched])
        written = [raw_sql.written(url_of(services, one), without="nothing") for one in others]
        urls = [url_of(services, one) for one in touched]
    one_by_one = undoable.model_copy(update={"migrate_concurrency": 1})
    async with running("undo", one_by_one, run.id) as process:
        undo_id = UUID(await process.line())
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while all("t3" in raw_sql.tables(url) for url in urls):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(random.uniform(0, 0.6))  # noqa: S311 - in the middle of the second
        process.signal(signal.SIGKILL)
    async with open_services(undoable) as services:
        between = dumps(services, touched)
        undo = await services.fleet.wait(undo_id)

        assert counts(undo) == (8, 0)
        assert await applied(services, undo) == ["u3_t3,u2_t2,u1_t1"] * 8
        assert dumps(services, touched) == before != between
        now = [raw_sql.written(url_of(services, one), without="nothing") for one in others]
        assert now == written
