"""Waves that wait: a run holds after a wave until it is continued."""

import ast
import asyncio
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import SecretStr

from tenantry.catalog import audit, holds, jobs, notices, run_claims, runs
from tenantry.catalog.holds import TenantsHeld
from tenantry.catalog.pace import Pace
from tenantry.catalog.run_tenants import RunNotHolding
from tenantry.catalog.runs import UNFINISHED_MAX, MigrationRun, RunState
from tenantry.catalog.tenants import Tenant
from tenantry.fleet import fleet_metrics
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.faults import Faults
from tests.integration.gates import Gate, is_migrated, mend, spoil, tenants, url_of
from tests.integration.programs import running

ADA = system_context("ada")
NOTE = "op.create_table('note', sa.Column('id', sa.Integer, primary_key=True))"
WAVES = [1, 2, "100%"]
END_SECONDS_MAX = 60
IMPATIENT = Pace(orphaned_seconds=1.0, unknown_seconds=0.2)


async def fleet(services: Services, gate: Gate, count: int) -> list[Tenant]:
    """Return new tenants that a run would migrate; nothing waits at the gate."""
    made = await tenants(services, count)
    gate.build()
    gate.open()
    return made


async def start(services: Services, *, hold: object = True, waves: object = WAVES) -> UUID:
    options = RunOptions(waves=waves, hold=hold)  # type: ignore[arg-type]
    return await services.fleet.plan(ADA, triggered_by="ada", options=options)


async def until(services: Services, run_id: UUID, state: RunState, wave: int | None = None):
    """Wait until a run has this state, and return it."""
    async with asyncio.timeout(END_SECONDS_MAX):
        while True:
            run = await runs.get(services.catalog, run_id)
            if (run.state, run.holding_wave) == (state, wave):
                return run
            await asyncio.sleep(0.02)


async def until_check(services: Services, run_id: UUID, part: str) -> MigrationRun:
    """Wait until a run shows *part* as the reason why it is holding."""
    async with asyncio.timeout(END_SECONDS_MAX):
        while True:
            run = await runs.get(services.catalog, run_id)
            if part in (run.held_because or ""):
                return run
            await asyncio.sleep(0.02)


async def until_done(services: Services, job_id: UUID) -> None:
    async with asyncio.timeout(END_SECONDS_MAX):
        while True:
            async with services.catalog.begin() as session:
                if (await jobs.get(session, job_id)).state == "done":
                    return
            await asyncio.sleep(0.02)


async def held(gated: Settings, gate: Gate, count: int) -> tuple[list[Tenant], UUID]:
    """Return new tenants, and a run of them that holds after the first; its process has ended."""
    async with open_services(gated) as services:
        made = await fleet(services, gate, count)
        run_id = await start(services, waves=[1, "100%"])
        await services.fleet.wait(run_id)
    return made, run_id


def migrated(services: Services, made: list[Tenant]) -> int:
    return sum(is_migrated(services, one) for one in made)


def open_items(services: Services) -> int:
    """Return how many tenants that have not ended may be claimed, or are."""
    is_open = "finished_at IS NULL AND (state = 'Pending' OR worker_id IS NOT NULL)"
    sql = f"SELECT count(*) FROM tenant_migration WHERE {is_open}"
    return int(raw_sql.rows(services.settings.catalog, sql)[0][0])


class TestHold:
    async def test_starts_no_tenant_of_the_next_wave_until_it_is_continued(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated, works=False) as made_by:
            made = await fleet(made_by, gate, 4)
        async with open_services(gated) as services, open_services(gated) as other:
            run_id = await start(services)
            run = await services.fleet.wait(run_id)
            await asyncio.sleep(1.5)

            assert (run.state, run.holding_wave) == (RunState.HOLDING, 1)
            assert run.held_because == "Wave 1 of 3 has ended. Continue or cancel the run."
            assert (migrated(services, made), open_items(services)) == (1, 0)
            assert (await fleet_metrics.read(services.catalog, "")).held_runs == 1

            await other.fleet.resume(ADA, run_id, wave=1)
            await until(services, run_id, RunState.HOLDING, 2)
            assert (migrated(services, made), open_items(services)) == (2, 0)

            await services.fleet.resume(ADA, run_id, wave=2)
            run = await services.fleet.wait(run_id)
            assert (run.state, run.success_count, run.held_because) == (RunState.SUCCESS, 4, None)
            assert (await fleet_metrics.read(services.catalog, "")).held_runs == 0

    async def test_is_only_after_the_waves_that_were_named(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await fleet(services, gate, 4)
            run_id = await start(services, hold=[2])
            run = await services.fleet.wait(run_id)
            assert (run.holds, run.holding_wave, run.success_count) == ([2], 2, 2)
            await services.fleet.resume(ADA, run_id, wave=2)
            assert (await services.fleet.wait(run_id)).success_count == 4

    async def test_needs_waves_and_their_numbers(self, gated: Settings):
        async with open_services(gated, works=False) as services:
            for hold, waves in [
                (True, None),
                ([], WAVES),
                ([0], WAVES),
                ([4], WAVES),
                ("check", WAVES),
            ]:
                with pytest.raises(BadRunOptions):
                    await start(services, hold=hold, waves=waves)

    async def test_of_a_plan_is_that_of_its_run(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await fleet(services, gate, 2)
            options = RunOptions(waves=[1, "100%"], hold=True)
            plan = (await services.fleet.preview(ADA, options, rehearse=False)).plan
            assert plan is not None
            run_id = await services.fleet.plan(ADA, triggered_by="ada", plan_id=plan.id)
            assert (await services.fleet.wait(run_id)).holding_wave == 1

    async def test_ends_with_the_run_when_it_is_cancelled(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await fleet(services, gate, 4)
            run_id = await start(services)
            await services.fleet.wait(run_id)

            await services.fleet.cancel(ADA, run_id, ends_all=True)

            run = await services.fleet.wait(run_id)
            assert (run.state, run.held_because) == (RunState.CANCELLED, None)
            assert (run.success_count, run.not_attempted_count) == (1, 3)
            with pytest.raises(RunNotHolding):
                await services.fleet.resume(ADA, run_id, wave=1)
            assert migrated(services, made) == 1

    @pytest.mark.slow
    async def test_survives_that_every_process_is_killed(self, gated: Settings, gate: Gate):
        async with open_services(gated, works=False) as services:
            made = await fleet(services, gate, 4)
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                run_id = await start(services)
                await until(services, run_id, RunState.HOLDING, 1)
                process.signal(signal.SIGKILL)
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                await asyncio.sleep(1.5)
                assert (await runs.get(services.catalog, run_id)).holding_wave == 1
                assert migrated(services, made) == 1
                await services.fleet.resume(ADA, run_id, wave=1)
                process.signal(signal.SIGKILL)
            assert open_items(services) <= 1
            async with running("work", gated) as process:
                await until(services, run_id, RunState.HOLDING, 2)
        assert migrated(services, made) == 2

    async def test_gives_the_next_wave_no_revision_that_the_first_one_never_had(
        self, gated: Settings, gate: Gate
    ):
        """The release that was deployed in the meantime has one more."""
        made, run_id = await held(gated, gate, 3)
        added = gate.folder.add("g2_more", 'op.create_table("more", sa.Column("id", sa.Integer))')

        async with open_services(gated, pace=IMPATIENT) as newer:
            await newer.fleet.resume(ADA, run_id, wave=1)
            await until_check(newer, run_id, "No running process has the files of the run.")
            await until_check(newer, run_id, f"{added.stem} is new")
            await asyncio.sleep(2 * IMPATIENT.orphaned_seconds)
            run = await runs.get(newer.catalog, run_id)
            assert (run.state, migrated(newer, made)) == (RunState.HOLDING, 1)

            await newer.fleet.cancel(ADA, run_id, ends_all=True)

            run = await newer.fleet.wait(run_id)
            assert (run.success_count, run.not_attempted_count) == (1, 2)

    async def test_goes_on_beside_files_that_are_no_revisions(self, gated: Settings, gate: Gate):
        """Databases and logs can be beside them; a plan compares those that are there."""
        made, run_id = await held(gated, gate, 2)
        (gate.folder.path / "note.txt").write_text("new")

        async with open_services(gated) as newer:
            await newer.fleet.resume(ADA, run_id, wave=1)
            await until(newer, run_id, RunState.SUCCESS)
            assert migrated(newer, made) == 2

    async def test_of_other_revisions_ends_at_once_when_it_is_cancelled(
        self, gated: Settings, gate: Gate
    ):
        """Also what a killed process has in work: nothing is applied to it after that."""
        async with open_services(gated, works=False) as services:
            await tenants(services, 3)
            gate.build()
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                run_id = await start(services, waves=[1, "100%"])
                await gate.reached(1)
                process.signal(signal.SIGKILL)
            gate.folder.add("g2_more", "pass")

            await services.fleet.cancel(ADA, run_id, ends_all=True)

        async with open_services(gated) as newer:
            run = await until(newer, run_id, RunState.CANCELLED)
            assert run.success_count == 0

    async def test_gives_the_next_wave_no_other_text_of_a_revision(
        self, gated: Settings, gate: Gate
    ):
        """It was edited in the meantime, and no plan says what it was."""
        made, run_id = await held(gated, gate, 3)
        file = gate.folder.path / "versions" / "g1_gate.py"
        before = file.read_text()
        file.write_text(before.replace('"note"', '"remark"'))

        async with open_services(gated, pace=IMPATIENT) as edited:
            await edited.fleet.resume(ADA, run_id, wave=1)
            await until_check(edited, run_id, "g1_gate has changed")
            await asyncio.sleep(2 * IMPATIENT.orphaned_seconds)
            assert migrated(edited, made) == 1
        file.write_text(before)

        async with open_services(gated, pace=IMPATIENT) as restored:
            run = await until(restored, run_id, RunState.SUCCESS)
            assert (run.success_count, run.held_reason) == (3, None)
            assert all("note" in raw_sql.tables(url_of(restored, one)) for one in made)

    async def test_goes_on_with_its_own_revisions_in_the_process_that_began_it(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated, pace=IMPATIENT) as services:
            made = await fleet(services, gate, 3)
            run_id = await start(services, waves=[1, "100%"])
            await services.fleet.wait(run_id)
            gate.folder.add("g2_more", 'op.create_table("more", sa.Column("id", sa.Integer))')
            await services.fleet.resume(ADA, run_id, wave=1)
            await until(services, run_id, RunState.SUCCESS)
            assert migrated(services, made) == 3
            assert not any("more" in raw_sql.tables(url_of(services, one)) for one in made)


async def undoable(gated: Settings, gate: Gate) -> UUID:
    """Return a run over two tenants that has ended, and can be undone."""
    async with open_services(gated) as services:
        await tenants(services, 2)
        gate.folder.add("u1_note", NOTE, undo="op.drop_table('note')")
        run_id = await services.fleet.plan(ADA, triggered_by="ada")
        await services.fleet.wait(run_id)
    return run_id


class TestAnotherRun:
    async def test_of_a_tenant_that_waits_is_refused_until_the_run_that_holds_is_continued(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated) as services:
            made = await fleet(services, gate, 3)
            held = await start(services, waves=[1, "100%"])
            await services.fleet.wait(held)

            for options in (
                RunOptions(),
                RunOptions(only_behind=True),
                RunOptions(tenant_ids=[made[0].id, made[2].id]),
                RunOptions(waves=[1, "100%"], hold=True),
            ):
                with pytest.raises(TenantsHeld) as refused:
                    await services.fleet.plan(ADA, triggered_by="ada", options=options)
                assert f"{held}, which holds after wave 1" in refused.value.message

            assert migrated(services, made) == 1
            assert (await runs.page(services.catalog, Window(1, 10))).total_count == 1
            await services.fleet.resume(ADA, held, wave=1)
            assert (await services.fleet.wait(held)).success_count == 3
            run_id = await services.fleet.plan(ADA, triggered_by="ada")
            assert (await services.fleet.wait(run_id)).success_count == 3

    async def test_of_a_tenant_that_waits_for_the_first_wave_is_refused_too(
        self, gated: Settings, gate: Gate
    ):
        """Its process may have been killed, so that it does not hold yet."""
        async with open_services(gated, works=False) as services:
            made = await fleet(services, gate, 2)
            held = await start(services, waves=[1, "100%"])

            with pytest.raises(TenantsHeld, match=f"{held}, which has waves to come"):
                await services.fleet.plan(ADA, triggered_by="ada")
            options = RunOptions(tenant_ids=[made[0].id])
            await services.fleet.plan(ADA, triggered_by="ada", options=options)

    async def test_of_a_tenant_in_an_undo_is_refused_until_the_undo_has_ended(
        self, gated: Settings, gate: Gate
    ):
        """It would find the tenant at the head, and the undo would take that back."""
        run_id = await undoable(gated, gate)
        undo = RunOptions(undoes=run_id)
        async with open_services(gated, works=False) as services:
            undone = await services.fleet.plan(ADA, triggered_by="ada", options=undo)
            with pytest.raises(TenantsHeld, match=f"{undone}, which undoes another one"):
                await services.fleet.plan(ADA, triggered_by="ada")
            await services.fleet.plan(ADA, triggered_by="ada", options=undo)
            await run_claims.claim(
                services.catalog, undone, new_id(), server_name="default", limit=1
            )
            for one in await runs.unfinished(services.catalog):
                await services.fleet.cancel(ADA, one.id, ends_all=True)
            with pytest.raises(TenantsHeld, match=f"{undone}, which undoes another one"):
                await services.fleet.plan(ADA, triggered_by="ada")
        async with open_services(gated) as services:
            for one in await runs.unfinished(services.catalog):
                await services.fleet.wait(one.id)
            assert await services.fleet.plan(ADA, triggered_by="ada")

    async def test_that_undoes_is_refused_until_a_tenant_has_ended_in_a_migration(
        self, gated: Settings, gate: Gate
    ):
        """That would apply again what the undo has taken back."""
        run_id = await undoable(gated, gate)
        undo = RunOptions(undoes=run_id)
        async with open_services(gated, works=False) as services:
            forward = await services.fleet.plan(ADA, triggered_by="ada")
            with pytest.raises(TenantsHeld, match=f"has not ended in .* {forward}, which goes"):
                await services.fleet.plan(ADA, triggered_by="ada", options=undo)
            await services.fleet.cancel(ADA, forward, ends_all=True)
            assert await services.fleet.plan(ADA, triggered_by="ada", options=undo)

    async def test_that_begins_in_the_same_moment_is_refused_too(
        self, gated: Settings, gate: Gate, faults: Faults
    ):
        """The second one sees the first, which is not committed when it asks."""

        async def wait(*_: object, **__: object) -> None:
            await asyncio.sleep(0.5)

        run_id = await undoable(gated, gate)
        async with (
            open_services(gated, works=False) as one,
            open_services(gated, works=False) as another,
        ):
            faults.after(holds, "refuse_waiting", wait)
            begun = await asyncio.gather(
                one.fleet.plan(ADA, triggered_by="ada"),
                another.fleet.plan(ADA, triggered_by="ada", options=RunOptions(undoes=run_id)),
                return_exceptions=True,
            )
            assert [type(found) for found in begun].count(TenantsHeld) == 1
            assert len(await runs.unfinished(one.catalog)) == 1

    async def test_of_other_tenants_is_started(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await fleet(services, gate, 3)
            spoil(services, made[0])
            options = RunOptions(tenant_ids=[one.id for one in made[:2]], waves=[1, 2], hold=True)
            held = await services.fleet.plan(ADA, triggered_by="ada", options=options)
            assert (await services.fleet.wait(held)).failed_count == 1
            mend(services, made[0])

            for options in (RunOptions(retry_of=held), RunOptions(tenant_ids=[made[2].id])):
                run_id = await services.fleet.plan(ADA, triggered_by="ada", options=options)
                assert (await services.fleet.wait(run_id)).success_count == 1

            assert [is_migrated(services, one) for one in made] == [True, False, True]
            assert (await runs.get(services.catalog, held)).holding_wave == 1

    async def test_of_a_plan_can_be_started_after_the_run_that_holds_was_cancelled(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated) as services:
            made = await fleet(services, gate, 2)
            held = await start(services, waves=[1, 2])
            await services.fleet.wait(held)
            plan = (await services.fleet.preview(ADA, rehearse=False)).plan
            assert plan is not None
            with pytest.raises(TenantsHeld):
                await services.fleet.plan(ADA, triggered_by="ada", plan_id=plan.id)

            await services.fleet.cancel(ADA, held, ends_all=True)
            run_id = await services.fleet.plan(ADA, triggered_by="ada", plan_id=plan.id)

            assert (await services.fleet.wait(run_id)).success_count == 2
            assert migrated(services, made) == 2

    async def test_of_many_tenants_is_refused_also_if_the_last_one_waits(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated, pace=Pace(added_max=2)) as services:
            made = await fleet(services, gate, 5)
            options = RunOptions(tenant_ids=[made[0].id, made[4].id], waves=[1, 2], hold=True)
            held = await services.fleet.plan(ADA, triggered_by="ada", options=options)
            await services.fleet.wait(held)

            with pytest.raises(TenantsHeld, match=made[4].name):
                await services.fleet.plan(ADA, triggered_by="ada")

            assert migrated(services, made) == 1


class TestContinue:
    async def test_twice_does_not_skip_the_next_hold(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await fleet(services, gate, 4)
            run_id = await start(services)
            await services.fleet.wait(run_id)
            tries = [services.fleet.resume(ADA, run_id, wave=1) for _ in range(4)]

            found = await asyncio.gather(*tries, return_exceptions=True)

            refused = [one for one in found if one is not None]
            assert (len(refused), {type(one) for one in refused}) == (3, {RunNotHolding})
            await until(services, run_id, RunState.HOLDING, 2)
            with pytest.raises(RunNotHolding):
                await services.fleet.resume(ADA, run_id, wave=1)
            assert migrated(services, made) == 2

    async def test_opens_a_large_wave_in_batches_and_is_in_the_audit_log(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated, pace=Pace(opened_max=2)) as services:
            await fleet(services, gate, 6)
            run_id = await start(services, waves=[1, "100%"])
            await services.fleet.wait(run_id)
            await services.fleet.resume(ADA, run_id, wave=1)

            assert (await services.fleet.wait(run_id)).success_count == 6

            page = await audit.LOG.page(services.catalog, Window(1, 100))
            targets = [one.target for one in page.items if one.action == "migration-run.continue"]
            assert targets == [f"{run_id} wave 1"]


def check(script: str) -> str:
    """Return a command that runs this program."""
    return shlex.join([sys.executable, "-c", script])


def with_check(settings: Settings, command: str, **more: object) -> Settings:
    return settings.model_copy(update={"wave_check": SecretStr(command), **more})


def is_alive(process_id: int) -> bool:
    stat = Path(f"/proc/{process_id}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"


async def until_dead(process_id: int) -> None:
    await until_true(lambda: not is_alive(process_id))


async def until_true(is_so: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(END_SECONDS_MAX):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class TestCheck:
    async def test_continues_the_run_if_it_succeeds_and_gets_no_secret(
        self, gated: Settings, gate: Gate, tmp_path: Path
    ):
        told = tmp_path / "told"
        script = f"import os; open({str(told)!r}, 'a').write(repr(dict(os.environ)) + '\\n')"
        async with open_services(with_check(gated, check(script))) as services:
            await fleet(services, gate, 4)
            run_id = await start(services, hold="check")

            run = await services.fleet.wait(run_id)

            assert (run.state, run.success_count) == (RunState.SUCCESS, 4)
            page = await audit.LOG.page(services.catalog, Window(1, 100))
            found = [one for one in page.items if one.action == "migration-run.continue"]
            assert {one.actor for one in found} == {holds.CHECKER}
        first, second = (ast.literal_eval(line) for line in told.read_text().splitlines())
        assert (first["WAVE_NUMBER"], second["WAVE_NUMBER"]) == ("1", "2")
        assert (first["WAVE_RUN_ID"], first["WAVE_COUNT"]) == (str(run_id), "3")
        assert (second["WAVE_SUCCEEDED"], second["WAVE_TENANTS"]) == ("2", "4")
        assert not [name for name in first if name.startswith(("TENANTRY", "PG", "AWS"))]

    async def test_leaves_the_run_to_a_person_if_it_fails(self, gated: Settings, gate: Gate):
        script = "print('x' * 10**6 + ' p99 is \\x1b[31m3 s'); raise SystemExit(7)"
        async with open_services(with_check(gated, check(script))) as services:
            made = await fleet(services, gate, 4)
            run_id = await start(services, hold="check")

            run = await services.fleet.wait(run_id)

            reason = run.held_because or ""
            assert reason.startswith(
                "Wave 1 of 3 has ended. The check has failed: exit status 7. x"
            )
            assert reason.endswith("p99 is [31m3 s")
            assert len(reason) < 500
            assert migrated(services, made) == 1
            (job,) = (await jobs.page(services.catalog, Window(1, 10))).items
            assert (job.kind, job.state) == ("wave-check", "failed")
            await services.fleet.resume(ADA, run_id, wave=1)
            assert (await services.fleet.wait(run_id)).holding_wave == 2

    async def test_has_failed_after_its_deadline_and_all_its_processes_are_killed(
        self, gated: Settings, gate: Gate, tmp_path: Path
    ):
        note = tmp_path / "pid"
        script = f"echo $$ > {note}; sleep 60 & sleep 60"
        command = shlex.join(["sh", "-c", script])
        slow = with_check(gated, command, wave_check_seconds=5.0)
        async with open_services(slow) as services:
            await fleet(services, gate, 2)
            run_id = await start(services, hold="check")
            run = await services.fleet.wait(run_id)
            assert "it took longer than 5 s." in (run.held_because or "")
            await until_dead(int(note.read_text()))

    async def test_of_a_url_needs_a_success_and_follows_no_redirect(
        self, gated: Settings, gate: Gate
    ):
        answers, asked = [(503, "not yet"), (302, "")], []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            asked.append(head)
            status, text = answers.pop(0) if answers else (204, "")
            more = f"content-length: {len(text)}\r\nlocation: http://127.0.0.1:1/"
            writer.write(f"HTTP/1.1 {status} x\r\n{more}\r\n\r\n{text}".encode())
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with (
            server,
            open_services(with_check(gated, f"http://127.0.0.1:{port}/ok")) as services,
        ):
            await fleet(services, gate, 3)
            waves = [1, 2, 3]
            run_id = await start(services, hold="check", waves=waves)
            run = await services.fleet.wait(run_id)
            assert "status of 2xx. status 503. not yet" in (run.held_because or "")
            await services.fleet.resume(ADA, run_id, wave=1)
            run = await services.fleet.wait(run_id)
            assert "status 302" in (run.held_because or "")
            await services.fleet.resume(ADA, run_id, wave=2)
            assert (await services.fleet.wait(run_id)).success_count == 3
            run_id = await start(services, hold="check", waves=waves)
            assert (await services.fleet.wait(run_id)).success_count == 3
        assert all(one.startswith(b"POST /ok HTTP/1.1") for one in asked)

    async def test_that_is_cancelled_leaves_the_run_to_a_person(self, gated: Settings, gate: Gate):
        idle = with_check(gated, "sleep 60", job_concurrency=0)
        async with open_services(idle) as services:
            await fleet(services, gate, 2)
            for cancel_all in (True, False):
                run_id = await start(services, hold="check")
                run = await until(services, run_id, RunState.HOLDING, 1)
                assert "The check has not ended yet." in (run.held_because or "")
                (job, *_) = (await jobs.page(services.catalog, Window(1, 1))).items
                if cancel_all:
                    await services.queue.cancel_queued(ADA)
                else:
                    await services.queue.cancel(ADA, job.id)
                run = await services.fleet.wait(run_id)
                assert "The check has failed: It was cancelled." in (run.held_because or "")
                await services.fleet.cancel(ADA, run_id, ends_all=True)

    async def test_decides_nothing_after_a_person_has(
        self, gated: Settings, gate: Gate, tmp_path: Path
    ):
        began, may_end = tmp_path / "began", tmp_path / "may_end"
        script = f"touch {began}; while ! [ -e {may_end}$WAVE_NUMBER ]; do sleep 0.05; done"
        checked = with_check(gated, shlex.join(["sh", "-c", script]))
        async with open_services(checked) as services:
            await fleet(services, gate, 3)
            run_id = await start(services, hold="check", waves=[1, 2, 3])
            await until_true(began.exists)
            (first,) = (await jobs.page(services.catalog, Window(1, 10))).items
            await services.fleet.resume(ADA, run_id, wave=1)
            await until(services, run_id, RunState.HOLDING, 2)

            may_end.with_name("may_end1").touch()
            await until_done(services, first.id)

            assert (await runs.get(services.catalog, run_id)).holding_wave == 2
            await services.fleet.cancel(ADA, run_id)
            assert (await services.fleet.wait(run_id)).success_count == 2

    @pytest.mark.slow
    async def test_dies_with_its_process_and_is_repeated_by_another(
        self, gated: Settings, gate: Gate, tmp_path: Path
    ):
        log, good = tmp_path / "log", tmp_path / "good"
        script = f"echo $$ >> {log}; while ! [ -e {good} ]; do sleep 0.05; done"
        checked = with_check(gated, shlex.join(["sh", "-c", script]))
        async with open_services(checked, works=False) as services:
            await fleet(services, gate, 2)
            async with running("work", checked) as process:
                assert await process.line() == "ready"
                run_id = await start(services, hold="check", waves=[1, 2])
                await until_true(lambda: log.exists() and bool(log.read_text()))
                process.signal(signal.SIGKILL)
                await until_dead(int(log.read_text()))
            async with running("work", checked) as process, running("work", checked):
                await until_true(lambda: len(log.read_text().split()) == 2)
                assert (await runs.get(services.catalog, run_id)).holding_wave == 1
                good.touch()
                assert (await services.fleet.wait(run_id)).success_count == 2
        assert len(log.read_text().split()) == 2


class TestForgotten:
    @pytest.mark.slow
    async def test_holds_do_not_stop_new_runs(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            first, *others = await fleet(services, gate, UNFINISHED_MAX + 6)
            held = []
            for one in others:
                options = RunOptions(tenant_ids=[first.id, one.id], waves=[1, 2], hold=True)
                held.append(await services.fleet.plan(ADA, triggered_by="ada", options=options))
            for run_id in held:
                assert (await services.fleet.wait(run_id)).holding_wave == 1

            options = RunOptions(tenant_ids=[first.id])
            run_id = await services.fleet.plan(ADA, triggered_by="ada", options=options)

            assert (await services.fleet.wait(run_id)).success_count == 1
            await services.fleet.resume(ADA, held[0], wave=1)
            assert (await services.fleet.wait(held[0])).success_count == 2

    async def test_runs_without_files_come_after_the_others(self, gated: Settings, gate: Gate):
        async with open_services(gated, works=False) as services:
            await fleet(services, gate, 1)
            first, second = [await start(services, hold=False, waves=[1]) for _ in range(2)]
            async with services.catalog.begin() as session:
                subscribed = services.catalog.subscribed
                await notices.hold(session, subscribed, first, "No files.", now=utc_now())

            found = await holds.workable(services.catalog, limit=1)

            assert [one.id for one in found] == [second]
