"""Approved plans: what was reviewed is what runs."""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from pydantic import SecretStr

from tenantry.catalog import runs, stored_plans
from tenantry.catalog.pace import Pace
from tenantry.catalog.runs import MigrationRun, RunState
from tenantry.catalog.stored_plans import PlanNotFound, PlanUsed, StoredPlan
from tenantry.catalog.tenants import Tenant
from tenantry.fleet import approvals
from tenantry.fleet.approval import OwnPlan, PlanChanged, PlanExpired, PlanRequired
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, BadRunOptions, RunOptions
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.hook_settings import Hook
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.migration.run_scripts import RunScripts
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.faults import Faults
from testkit.hook_endpoint import endpoint
from testkit.revisions import AlembicFolder
from tests.conftest import provision
from tests.integration.gates import HEAD, Gate, spoil, tenants, url_of

CREATE = "op.create_table({!r}, sa.Column('id', sa.Integer, primary_key=True))"
QUICK = Pace(unknown_seconds=0.1, orphaned_seconds=1.0)


@pytest.fixture(name="planned")
def _planned(settings: Settings, folder: AlembicFolder) -> Settings:
    """Settings of a fleet with one revision of the user, which changes nothing."""
    return settings.model_copy(update={"tenant_migrations": folder.begin()})


def quick(settings: Settings, *, works: bool = True) -> AbstractAsyncContextManager[Services]:
    """Open a process that polls runs with other files often."""
    return open_services(settings, works=works, pace=QUICK)


async def plan(
    services: Services,
    options: RunOptions = EVERY_ACTIVE_TENANT,
    *,
    actor: str = "ada",
    rehearse: bool = False,
) -> StoredPlan:
    found = await services.fleet.preview(system_context(actor), options, rehearse=rehearse)
    assert found.plan is not None
    return found.plan


async def start(
    services: Services, plan_id: UUID, *, actor: str = "ada", passed_only: bool = False
) -> MigrationRun:
    """Start a plan, wait for its end, and return the run."""
    run_id = await services.fleet.plan(
        system_context(actor), triggered_by=actor, plan_id=plan_id, passed_only=passed_only
    )
    return await services.fleet.wait(run_id)


async def is_refused(services: Services, plan_id: UUID, *words: str) -> None:
    """Check that the plan is refused with these words, and that nothing was started."""
    with pytest.raises(PlanChanged) as refused:
        await start(services, plan_id)
    for word in words:
        assert word in refused.value.message
    assert (await runs.page(services.catalog, Window(1, 1))).total_count == 0


def counts(run: MigrationRun) -> tuple[int, int]:
    return run.success_count, run.failed_count


async def errors(services: Services, run: MigrationRun) -> Sequence[str | None]:
    return [one.error for one in await runs.ended(services.catalog, run.id)]


class TestPlan:
    async def test_runs_what_was_reviewed_and_remembers_it(
        self, planned: Settings, folder: AlembicFolder
    ):
        async with open_services(planned) as services:
            await tenants(services, 2)
            folder.add("u1_note", CREATE.format("note"))
            options = RunOptions(waves=[1, "100%"], label="trial")
            made = await plan(services, options)
            run = await start(services, made.id)
            stored = await stored_plans.get(services.catalog, made.id)

        assert counts(run) == (2, 0)
        assert (run.plan_id, run.label, run.waves) == (made.id, "trial", [1, 2])
        assert stored == stored_plans.StoredPlan(
            **{name: getattr(made, name) for name in made.__struct_fields__ if name != "run_id"},
            run_id=run.id,
        )

    async def test_does_not_run_a_revision_that_was_deployed_after_the_review(
        self, planned: Settings, folder: AlembicFolder
    ):
        async with open_services(planned) as services:
            [tenant] = await tenants(services, 1)
            folder.add("u1_note", CREATE.format("note"))
            made = await plan(services)
            folder.add("u2_drop", "op.drop_table('note')")
            await is_refused(services, made.id, "u2_drop is new", "the head is", "/u2, not ")
            versions = raw_sql.rows(url_of(services, tenant), "SELECT * FROM alembic_version")

        assert versions == [("begin",)]

    async def test_is_refused_if_a_file_has_changed(self, planned: Settings, folder: AlembicFolder):
        async with open_services(planned) as services:
            await tenants(services, 1)
            folder.add("u1_note", CREATE.format("note"))
            made = await plan(services)
            file = folder.path / "versions" / "u1_note.py"
            before = file.read_text()
            file.write_text(before.replace("note", "memo"))
            await is_refused(services, made.id, "user:u1_note has changed")
            file.write_text(before)
            assert counts(await start(services, made.id)) == (1, 0)

    async def test_is_refused_with_the_name_of_a_file_that_disappears_while_it_is_checked(
        self, planned: Settings, folder: AlembicFolder, faults: Faults
    ):
        async with open_services(planned) as services:
            await tenants(services, 1)
            folder.add("u1_note", CREATE.format("note"))
            made = await plan(services)
            file = folder.path / "versions" / "u1_note.py"
            faults.before(RunScripts, "hashes", lambda _: file.unlink(missing_ok=True))
            await is_refused(services, made.id, "u1_note")

    async def test_is_refused_if_a_module_was_replaced_that_this_process_has_imported(
        self,
        planned: Settings,
        folder: AlembicFolder,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        """The process still has the old module in memory; another one would import the new one."""
        module = f"names_{new_id().hex}"
        helper = tmp_path / f"{module}.py"
        helper.write_text("NAME = 'note'\n")
        monkeypatch.syspath_prepend(tmp_path)
        async with open_services(planned) as services:
            await tenants(services, 1)
            folder.add(
                "u1_note",
                f"from {module} import NAME\nop.create_table(NAME, sa.Column('id', sa.Integer))",
            )
            made = await plan(services, rehearse=True)
            helper.write_text("NAME = 'memo'\n")
            await is_refused(services, made.id, f"{module}.py has changed")

    async def test_is_refused_if_alembic_ini_moves_the_head(
        self, planned: Settings, folder: AlembicFolder
    ):
        async with open_services(planned) as services:
            await tenants(services, 1)
            folder.add("u1_note", CREATE.format("note"))
            made = await plan(services)
            folder.add("u2_tag", CREATE.format("tag"), below="../more")
            (folder.path.parent / "alembic.ini").write_text(
                f"[alembic]\nscript_location = {folder.path}\npath_separator = newline\n"
                f"version_locations =\n  {folder.path}/versions\n  {folder.path}/more\n"
            )
            await is_refused(services, made.id, "/u2, not ", "u2_tag is new")

    async def test_is_refused_if_there_is_another_tenant(
        self, planned: Settings, folder: AlembicFolder
    ):
        async with open_services(planned) as services:
            first, _ = await tenants(services, 2)
            folder.add("u1_note", CREATE.format("note"))
            every = await plan(services)
            chosen = await plan(services, RunOptions(tenant_ids=[first.id]))
            await provision(services, "newcomer")
            await is_refused(services, every.id, "newcomer is not in the plan")
            assert counts(await start(services, chosen.id)) == (1, 0)

    async def test_is_refused_if_a_tenant_is_gone(self, planned: Settings, folder: AlembicFolder):
        async with open_services(planned) as services:
            first, _ = await tenants(services, 2)
            folder.add("u1_note", CREATE.format("note"))
            for options in (EVERY_ACTIVE_TENANT, RunOptions(tenant_ids=[first.id])):
                made = await plan(services, options)
                await _set_active(services, first.id, is_active=False)
                await is_refused(services, made.id, "tenant00 of the plan would not be in the run")
                await _set_active(services, first.id, is_active=True)

    async def test_is_refused_if_a_tenant_has_moved_on(
        self, planned: Settings, folder: AlembicFolder
    ):
        """Also without Tenantry, so that the catalog does not know it."""
        async with open_services(planned) as services:
            first, _ = await tenants(services, 2)
            folder.add("u1_note", CREATE.format("note"))
            made = await plan(services)
            raw_sql.run(url_of(services, first), "UPDATE alembic_version SET version_num = 'u1'")
            await is_refused(services, made.id, "tenant00 is at ", "/u1, not ", "/begin")

    async def test_starts_one_run_even_in_two_processes_at_once(
        self, planned: Settings, folder: AlembicFolder, faults: Faults
    ):
        async with open_services(planned) as services:
            await tenants(services, 1)
            folder.add("u1_note", CREATE.format("note"))
            made = await plan(services)
            checked = asyncio.Barrier(2)
            faults.after(approvals.Approvals, "check", lambda *_, **__: checked.wait())
            async with open_services(planned) as others:
                both = await asyncio.gather(
                    start(services, made.id), start(others, made.id), return_exceptions=True
                )
            faults.restore()
            with pytest.raises(PlanUsed):
                await start(services, made.id)
            total = (await runs.page(services.catalog, Window(1, 1))).total_count

        assert total == 1
        assert [type(one) for one in both if isinstance(one, Exception)] == [PlanUsed]

    async def test_expires(self, planned: Settings):
        async with open_services(planned, works=False) as services:
            await tenants(services, 1)
            made = await plan(services)
            late = system_context("ada").at(utc_now() + timedelta(days=31))
            with pytest.raises(PlanExpired):
                await services.fleet.plan(late, triggered_by="ada", plan_id=made.id)
            await stored_plans.prune(services.catalog, now=late.now)
            for plan_id in (made.id, new_id()):
                with pytest.raises(PlanNotFound):
                    await start(services, plan_id)
            assert raw_sql.rows(services.settings.catalog, "SELECT * FROM plan_tenant") == []

    async def test_is_kept_while_it_is_one_of_the_newest_or_its_run_continues(
        self, planned: Settings
    ):
        async with open_services(planned, works=False) as services:
            await tenants(services, 1)
            used, old, *kept = [(await plan(services)).id for _ in range(4)]
            ctx = system_context("ada")
            await services.fleet.plan(ctx, triggered_by="ada", plan_id=used)
            await stored_plans.prune(services.catalog, now=utc_now(), kept_max=2)
            left = (await stored_plans.page(services.catalog, Window(1, 10))).items

        assert [one.id for one in left] == [*reversed(kept), used]
        assert old not in kept

    async def test_refuses_options_that_contradict_it(self, planned: Settings):
        async with open_services(planned, works=False) as services:
            [tenant] = await tenants(services, 1)
            options = RunOptions(waves=["50%"], tenant_ids=[tenant.id], label="one")
            made = await plan(services, options)
            ctx = system_context("ada")
            for other in (
                replace(options, waves=["10%"]),
                replace(options, tenant_ids=[]),
                replace(options, max_failures=0),
            ):
                with pytest.raises(BadRunOptions):
                    await services.fleet.plan(
                        ctx, triggered_by="ada", options=other, plan_id=made.id
                    )
            with pytest.raises(BadRunOptions, match="rehearsal"):
                await start(services, made.id, passed_only=True)
            await services.fleet.plan(ctx, triggered_by="ada", options=options, plan_id=made.id)

    async def test_of_a_rehearsal_migrates_those_that_passed(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 3)
            gate.build()
            gate.open()
            spoil(services, made[1])
            rehearsed = await plan(services, rehearse=True)
            raw_sql.run(url_of(services, made[1]), "DELETE FROM alembic_version")  # not in the run
            run = await start(services, rehearsed.id, passed_only=True)
            [cause] = await stored_plans.causes(services.catalog, rehearsed.id)

        assert (rehearsed.total_count, rehearsed.passed_count, rehearsed.failed_count) == (3, 2, 1)
        assert (cause.count, cause.sample_tenant_id) == (1, made[1].id)
        assert counts(run) == (2, 0)

    async def test_that_was_not_stored_to_the_end_is_hidden_and_removed(self, planned: Settings):
        small = Pace(added_max=1)
        async with open_services(planned, works=False, pace=small) as services:
            await tenants(services, 3)
            storing = asyncio.create_task(plan(services))
            while not raw_sql.rows(planned.catalog, "SELECT plan_id FROM plan_tenant"):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            storing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await storing
            left = raw_sql.rows(planned.catalog, "SELECT count(*) FROM plan_tenant")[0][0]
            listed = (await stored_plans.page(services.catalog, Window(1, 10))).total_count
            later = utc_now() + timedelta(hours=2)
            for _ in range(3):
                await stored_plans.prune(services.catalog, now=later, limit=2)
            rows = raw_sql.rows(planned.catalog, "SELECT id FROM plan")

        assert (0 < left < 3, listed, rows) == (True, 0, [])

    async def test_is_made_again_each_time_with_the_same_digest(
        self, planned: Settings, folder: AlembicFolder
    ):
        """Also if the SQL differs each time: then it is not recorded."""
        async with open_services(planned) as services:
            await tenants(services, 1)
            body = 'op.execute(sa.text("SELECT \'" + uuid.uuid4().hex + "\'"))'
            folder.add("u1_random", body, head="import uuid")
            first, second = await plan(services), await plan(services)
            assert counts(await start(services, second.id)) == (1, 0)

        assert first.digest == second.digest


class TestSetting:
    async def test_refuses_runs_without_a_plan(self, planned: Settings):
        required = planned.model_copy(update={"require_plan": "1"})
        async with open_services(required) as services:
            await tenants(services, 1)
            with pytest.raises(PlanRequired):
                await services.fleet.plan(system_context("ada"), triggered_by="ada")
            made = await plan(services)
            assert counts(await start(services, made.id)) == (1, 0)

    async def test_refuses_the_plan_of_the_same_admin(self, planned: Settings):
        required = planned.model_copy(update={"require_plan": "other"})
        async with open_services(required) as services:
            await tenants(services, 1)
            made = await plan(services)
            with pytest.raises(OwnPlan):
                await start(services, made.id)
            by_command = await plan(services, actor="cli:ada@one")
            with pytest.raises(OwnPlan):
                await start(services, by_command.id, actor="cli:bob@two")
            assert counts(await start(services, made.id, actor="bob")) == (1, 0)


class TestRun:
    async def test_is_held_by_a_process_with_other_files_and_continued_by_one_with_the_right_ones(
        self, gated: Settings, gate: Gate, tmp_path: Path
    ):
        run_id = await _planned_run(gated, gate, 4)
        other = AlembicFolder(tmp_path / "other")
        other.begin()
        Gate(other, gate.path).build("g1_gate_")
        gate.open()
        async with quick(gated.model_copy(update={"tenant_migrations": other.path})) as first:
            held = await _until_held_because(first, run_id)
            await asyncio.sleep(1.5)  # longer than a run without a plan is kept
        async with quick(gated) as second:
            run = await second.fleet.wait(run_id)

        assert held.state is RunState.HOLDING
        assert held.held_because is not None
        assert "user:g1_gate is missing; user:g1_gate_ is new." in held.held_because
        assert (counts(run), run.held_because) == ((4, 0), None)

    async def test_that_is_held_is_told_once(self, gated: Settings, gate: Gate, tmp_path: Path):
        with endpoint() as hooked:
            hook = Hook(url=SecretStr(hooked.url), format="slack", events=("run.holding",))
            hooked_up = gated.model_copy(update={"hooks": {"ops": hook}})
            run_id = await _planned_run(hooked_up, gate, 2)
            other = AlembicFolder(tmp_path / "other")
            other.begin()
            others = hooked_up.model_copy(update={"tenant_migrations": other.path})
            async with quick(others) as one, quick(others):
                await _until_held_because(one, run_id)
                await asyncio.to_thread(hooked.wait_for, 1)
                await asyncio.sleep(1.5)  # the other one holds it, too
        [message] = hooked.messages
        assert message["text"].startswith(f"Migration run {run_id}: holding: No running process")

    async def test_stops_where_a_file_is_replaced_between_two_tenants(
        self, gated: Settings, gate: Gate
    ):
        """A process that has begun has the revisions in memory, and not what they will import."""
        data = gated.tenant_migrations / "data.sql"  # type: ignore[operator]
        data.write_text("SELECT 1")
        async with quick(gated) as services:
            await tenants(services, 4)
            gate.build()
            made = await plan(services)
            run_id = await services.fleet.plan(
                system_context("ada"), triggered_by="ada", plan_id=made.id
            )
            await gate.reached(2)
            data.write_text("DROP TABLE note")
            gate.open()
            held = await _until_held_because(services, run_id)
            data.write_text("SELECT 1")
            run = await services.fleet.wait(run_id)

        assert held.success_count <= 2
        assert "data.sql has changed" in (held.held_because or "")
        assert counts(run) == (4, 0)

    async def test_commits_nothing_after_a_file_is_replaced_that_a_revision_reads(
        self, planned: Settings, folder: AlembicFolder, tmp_path: Path
    ):
        """The tenant is rolled back, and migrated when the file of the plan is there again."""
        data, gate = folder.path / "data.sql", Gate(folder, tmp_path / "gate")
        data.write_text("CREATE TABLE reviewed (id INTEGER)")
        async with quick(planned) as services:
            [tenant] = await tenants(services, 1)
            body = f"""
                pathlib.Path({str(tmp_path / "arrived")!r}).touch()
                while not pathlib.Path({str(gate.path)!r}).exists():
                    time.sleep(0.01)
                op.execute(pathlib.Path({str(data)!r}).read_text())
            """
            folder.add("g1_gate", body, head=HEAD)
            made = await plan(services)
            run_id = await services.fleet.plan(
                system_context("ada"), triggered_by="ada", plan_id=made.id
            )
            async with asyncio.timeout(60):
                while not (tmp_path / "arrived").exists():  # noqa: ASYNC110 - by a thread
                    await asyncio.sleep(0.01)
            data.write_text("CREATE TABLE unseen (id INTEGER)")
            gate.open()
            held = await _until_held_because(services, run_id)
            data.write_text("CREATE TABLE reviewed (id INTEGER)")
            run = await services.fleet.wait(run_id)
            found = raw_sql.tables(url_of(services, tenant))

        assert "data.sql has changed" in (held.held_because or "")
        assert counts(run) == (1, 0)
        assert found & {"reviewed", "unseen"} == {"reviewed"}

    async def test_fails_a_tenant_that_moves_on_after_the_start(self, gated: Settings, gate: Gate):
        async with quick(gated, works=False) as services:
            first, second = await tenants(services, 2)
            gate.build()
            gate.open()
            made = await plan(services)
            run_id = await services.fleet.plan(
                system_context("ada"), triggered_by="ada", plan_id=made.id
            )
            raw_sql.run(url_of(services, second), "UPDATE alembic_version SET version_num = 'g1'")
            async with quick(gated):
                run = await services.fleet.wait(run_id)
            reasons = await errors(services, run)

        assert counts(run) == (1, 1)
        assert reasons[0] is None
        assert "/g1 now: nothing was applied" in (reasons[1] or "")
        assert first.id < second.id

    async def test_fails_a_tenant_that_the_plan_could_not_read(self, gated: Settings, gate: Gate):
        """For its own reason, or as not planned if it can be read later."""
        async with quick(gated, works=False) as services:
            lost, back = await tenants(services, 2)
            gate.build()
            gate.open()
            for one in (lost, back):
                raw_sql.run(url_of(services, one), "ALTER TABLE tenantry_version RENAME TO away")
            made = await plan(services)
            run_id = await services.fleet.plan(
                system_context("ada"), triggered_by="ada", plan_id=made.id
            )
            raw_sql.run(url_of(services, back), "ALTER TABLE away RENAME TO tenantry_version")
            async with quick(gated):
                run = await services.fleet.wait(run_id)
            first, second = await errors(services, run)

        assert counts(run) == (0, 2)
        assert "not a database of Tenantry" in (first or "")
        assert "at revision (unknown), and it is at " in (second or "")

    async def test_continues_a_tenant_that_a_dead_process_has_migrated(
        self, gated: Settings, gate: Gate
    ):
        """Its log shows that this run has applied the planned revisions."""
        async with quick(gated, works=False) as services:
            [tenant] = await tenants(services, 1)
            gate.build()
            gate.open()
            made = await plan(services)
            run_id = await services.fleet.plan(
                system_context("ada"), triggered_by="ada", plan_id=made.id
            )
            scripts = RunScripts(services.streams())
            await services.migrator.migrate(url_of(services, tenant), scripts, run_id=run_id)
            nobody = f"UPDATE tenant_migration SET worker_id = '{_no_worker(gated)}'"
            await asyncio.to_thread(raw_sql.run, gated.catalog, nobody)
            async with quick(gated):
                run = await services.fleet.wait(run_id)

        assert counts(run) == (1, 0)

    async def test_that_is_held_can_be_cancelled(self, gated: Settings, gate: Gate, tmp_path: Path):
        run_id = await _planned_run(gated, gate, 2)
        other = AlembicFolder(tmp_path / "other")
        other.begin()
        async with quick(gated.model_copy(update={"tenant_migrations": other.path})) as services:
            await _until_held_because(services, run_id)
            await services.fleet.cancel(system_context("ada"), run_id, ends_all=True)
            run = await services.fleet.wait(run_id)

        assert (run.state, run.held_because) == (RunState.CANCELLED, None)


class TestDeployment:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(3))
    async def test_at_any_moment_adds_nothing_to_a_plan(
        self, planned: Settings, folder: AlembicFolder, seed: int
    ):
        """Revisions are added and edited before the start, during it, and during the run."""
        random = Random(seed)  # noqa: S311 - it has to be the same again
        files, allowed = list[Path](), set[str]()
        outcomes = set[str]()

        def deploy() -> None:
            if files and random.random() < 0.5:
                text = files[-1].read_text()
                files[-1].write_text(text.replace("table('t", "table('tt"))
            else:
                name = f"r{len(files):02}"
                files.append(folder.add(f"{name}_add", CREATE.format(f"t_{name}")))

        async with quick(planned) as services:
            made = await tenants(services, 3)
            for _ in range(12):
                deploy()
                reviewed = await plan(services)
                tables = set(re.findall(r"t+_r\d+", "".join(one.read_text() for one in files)))
                if random.random() < 0.3:
                    deploy()
                starting = asyncio.create_task(
                    services.fleet.plan(
                        system_context("ada"), triggered_by="ada", plan_id=reviewed.id
                    )
                )
                for _ in range(random.randrange(3)):
                    await asyncio.sleep(random.uniform(0, 0.03))
                    deploy()
                try:
                    run_id = await starting
                except PlanChanged:
                    outcomes.add("refused")
                else:
                    outcomes.add("started")
                    allowed |= tables
                    run = await _until_held_because(services, run_id)
                    if run.finished_at is None:
                        await services.fleet.cancel(system_context("ada"), run_id, ends_all=True)
                        await services.fleet.wait(run_id)
                for tenant in made:
                    assert _tables_of(services, tenant) <= allowed

        assert outcomes == {"refused", "started"}


def _tables_of(services: Services, tenant: Tenant) -> set[str]:
    is_sqlite = services.settings.catalog.startswith("sqlite")
    place = "name FROM sqlite_master" if is_sqlite else "tablename FROM pg_tables"
    found = {row[0] for row in raw_sql.rows(url_of(services, tenant), f"SELECT {place}")}
    return {one for one in found if re.fullmatch(r"t+_r\d+", one)}


async def _planned_run(settings: Settings, gate: Gate, count: int) -> UUID:
    """Start a run of a plan, in a process that ends: its heartbeat says that it has the files."""
    async with quick(settings, works=False) as services:
        await tenants(services, count)
        gate.build()
        made = await plan(services)
        ctx = system_context("ada")
        return await services.fleet.plan(ctx, triggered_by="ada", plan_id=made.id)


async def _until_held_because(services: Services, run_id: UUID) -> MigrationRun:
    async with asyncio.timeout(60):
        while True:
            run = await runs.get(services.catalog, run_id)
            if run.held_because is not None or run.finished_at is not None:
                return run
            await asyncio.sleep(0.05)


def _no_worker(settings: Settings) -> str:
    is_sqlite = settings.catalog.startswith("sqlite")
    return UUID(int=0).hex if is_sqlite else str(UUID(int=0))


async def _set_active(services: Services, tenant_id: UUID, *, is_active: bool) -> None:
    is_sqlite = services.settings.catalog.startswith("sqlite")
    found = tenant_id.hex if is_sqlite else tenant_id
    sql = f"UPDATE tenant SET is_active = {'true' if is_active else 'false'} WHERE id = '{found}'"
    await asyncio.to_thread(raw_sql.run, services.settings.catalog, sql)
