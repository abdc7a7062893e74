"""Waves that name their tenants, the order of the others, and the failure budget of each wave."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from tenantry.catalog import runs, stored_plans
from tenantry.catalog.pace import Pace
from tenantry.catalog.runs import MigrationRun, RunTenant
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.run_options import Amount, BadRunOptions, RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.kit.server_settings import TenantServer
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser
from testkit import raw_sql
from tests.conftest import provision
from tests.integration.gates import Gate, is_migrated, mend, spoil, tenants, url_of
from tests.integration.programs import running

SMALL_BATCHES = Pace(added_max=3, opened_max=2, closed_max=2)
CANARY = "name=tenant04"
ADA = system_context("ada")


async def plan(services: Services, options: RunOptions) -> UUID:
    return await services.fleet.plan(ADA, triggered_by="ada", options=options)


async def ended(
    services: Services, options: RunOptions
) -> tuple[MigrationRun, dict[str, RunTenant]]:
    """Return a run that has ended, and its items by the names of their tenants."""
    run = await services.fleet.wait(await plan(services, options))
    return run, {one.tenant_name: one for one in await runs.ended(services.catalog, run.id)}


def opened(settings: Settings) -> list[str]:
    """Return the names of the tenants that may start, or have started."""
    sql = "SELECT tenant_name FROM tenant_migration WHERE state <> 'Waiting' ORDER BY tenant_name"
    return [name for (name,) in raw_sql.rows(settings.catalog, sql)]


def begin_in_order(found: dict[str, RunTenant], *waves: Sequence[str]) -> bool:
    """Return whether each of these waves began when all of the one before had ended."""
    assert sorted(found) == sorted(name for wave in waves for name in wave)
    ends = [max(str(found[name].finished_at) for name in wave) for wave in waves]
    begins = [min(str(found[name].started_at) for name in wave) for wave in waves]
    return all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


def named(*numbers: int) -> list[str]:
    return [f"tenant{number:02}" for number in numbers]


class TestNames:
    async def test_are_of_the_tenants_that_a_wave_opens(self, settings: Settings):
        """They count in the amounts of the later waves, and are in no later wave again."""
        async with open_services(settings, works=False, pace=SMALL_BATCHES) as services:
            await tenants(services, 6)
            run_id = await plan(services, RunOptions(waves=[CANARY, "50%", "100%"]))
            assert opened(settings) == named(4)

        async with open_services(settings, pace=SMALL_BATCHES) as services:
            run = await services.fleet.wait(run_id)
            items = await runs.ended(services.catalog, run_id)
            found = {one.tenant_name: one for one in items}

        assert run.waves == [1, 3, 6]
        assert [one["where"] for one in run.wave_details or ()] == [CANARY, None, None]
        assert (run.success_count, run.failed_count) == (6, 0)
        assert begin_in_order(found, named(4), named(0, 1), named(2, 3, 5))

    async def test_can_be_those_of_a_server_and_count_in_the_first_wave_that_has_them(
        self, settings: Settings, tmp_path: Path
    ):
        eu = TenantServer.model_validate({"url": f"sqlite:///{tmp_path / 'eu'}"})
        both = settings.model_copy(update={"tenant_servers": {"eu": eu}})
        owner = NewUser(email="o@example.com", full_name="Owner", password="correct horse battery")
        async with open_services(both) as services:
            await tenants(services, 2)
            for name in ("Berlin", "Rome"):
                await services.lifecycle.provision(ADA, name=name, owner=owner, server_name="eu")

            waves = ["name=ROME", "server=eu", "server = default"]
            run, found = await ended(services, RunOptions(waves=waves))

        assert run.waves == [1, 2, 4]
        assert begin_in_order(found, ["Rome"], ["Berlin"], named(0, 1))

    @pytest.mark.parametrize(
        "waves", [["name=nobody", "100%"], [CANARY, CANARY, "100%"]], ids=["unknown", "twice"]
    )
    async def test_of_no_tenant_are_refused(self, settings: Settings, waves: list[Amount]):
        """A canary that is not there would let the next wave be the first one."""
        async with open_services(settings) as services:
            await tenants(services, 5)
            options = RunOptions(waves=waves)
            with pytest.raises(BadRunOptions, match="selects none of the run"):
                await plan(services, options)
            with pytest.raises(BadRunOptions, match="selects none of the run"):
                await services.fleet.preview(ADA, options, rehearse=False)
            assert (await runs.page(services.catalog, Window(1, 1))).total_count == 0

    async def test_of_a_run_of_no_tenants_are_not_missed(self, services: Services):
        await tenants(services, 1)

        run, _ = await ended(services, RunOptions(tenant_ids=[], waves=[CANARY, "100%"]))

        assert (run.total_count, run.waves) == (0, None)

    async def test_add_to_an_amount_that_they_have_reached(self, services: Services):
        """The wave of this amount is left out, as one that is smaller than the one before."""
        await tenants(services, 4)
        waves = ["name=tenant03", "name=tenant02", "25%", "100%"]

        run, found = await ended(services, RunOptions(waves=waves))

        assert run.waves == [1, 2, 4]
        assert begin_in_order(found, named(3), named(2), named(0, 1))

    @pytest.mark.slow
    async def test_hold_over_processes_and_kills(self, gated: Settings, gate: Gate):
        """A process is killed in the first wave; two others end it, and open the next one."""
        async with open_services(gated) as services:
            await tenants(services, 6)
            await services.worker.stop()
            gate.build()
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                run_id = await plan(services, RunOptions(waves=[CANARY, "100%"]))
                sql = "SELECT tenant_name FROM tenant_migration WHERE worker_id IS NOT NULL"
                async with asyncio.timeout(60):
                    while raw_sql.rows(gated.catalog, sql) != [("tenant04",)]:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
            gate.open()

        async with running("work", gated) as one, running("work", gated) as other:
            assert (await one.line(), await other.line()) == ("ready", "ready")
            async with open_services(gated, works=False) as services:
                await services.fleet.wait(run_id)
                items = await runs.ended(services.catalog, run_id)

        assert {one.applied for one in items} == {"g1_gate"}
        found = {one.tenant_name: one for one in items}
        assert begin_in_order(found, named(4), named(0, 1, 2, 3, 5))


class TestOrder:
    async def test_by_name_decides_who_is_in_a_wave(self, services: Services):
        for name in ("b", "C", "a", "canary"):
            await provision(services, name)

        waves = ["name=canary", 3, "100%"]
        _, found = await ended(services, RunOptions(waves=waves, order="name"))

        assert begin_in_order(found, ["canary"], ["a", "b"], ["C"])

    async def test_is_that_of_their_creation_by_default(self, services: Services):
        for name in ("b", "a"):
            await provision(services, name)

        _, found = await ended(services, RunOptions(waves=[1, "100%"]))

        assert begin_in_order(found, ["b"], ["a"])

    async def test_by_a_label_takes_tenants_without_it_last(self, services: Services):
        values = {"a": "2", "b": None, "c": "10", "d": "B"}
        for name, value in values.items():
            made = (await provision(services, name)).tenant
            if value is not None:
                await services.lifecycle.update(ADA, made, labels={"tier": value})

        waves = [1, 2, 3, "100%"]
        _, found = await ended(services, RunOptions(waves=waves, order="label:tier"))

        assert begin_in_order(found, ["c"], ["a"], ["d"], ["b"])

    async def test_by_size_is_measured_when_the_run_or_its_plan_is_made(
        self, services: Services, engine: str
    ):
        rows = {
            "sqlite": "SELECT zeroblob(100000 * {})",
            "postgresql": "SELECT generate_series(1, 20000 * {}) AS number",
        }
        for name, factor in (("a", 2), ("b", 1), ("c", 3)):
            made = (await provision(services, name)).tenant
            url = url_of(services, made)
            raw_sql.run(url, f"CREATE TABLE filler AS {rows[engine].format(factor)}")
        waves = [1, 2, "100%"]

        _, smallest = await ended(services, RunOptions(waves=waves, order="size"))
        largest = RunOptions(waves=waves, order="-size")
        stored = (await services.fleet.preview(ADA, largest, rehearse=False)).plan
        assert stored is not None
        raw_sql.run(url_of(services, made), "DROP TABLE filler")
        run_id = await services.fleet.plan(ADA, triggered_by="ada", plan_id=stored.id)
        await services.fleet.wait(run_id)
        planned = {one.tenant_name: one for one in await runs.ended(services.catalog, run_id)}

        assert begin_in_order(smallest, ["b"], ["a"], ["c"])
        assert begin_in_order(planned, ["c"], ["a"], ["b"])

    async def test_by_size_takes_a_tenant_without_a_database_last(self, services: Services):
        made = await tenants(services, 2)
        await services.databases.forget(made[0].id)
        await services.databases.server("default").drop(made[0].database_name)

        _, found = await ended(services, RunOptions(waves=[1, "100%"], order="size"))

        assert begin_in_order(found, named(1), named(0))

    @pytest.mark.parametrize(
        "order", ["", "label:", "label:Plan", "label:name", "label", "--size", "size "]
    )
    def test_that_does_not_exist_is_refused(self, order: str):
        with pytest.raises(BadRunOptions, match="`order` must be creation, name, label:KEY, size"):
            RunOptions(waves=[1, "100%"], order=order).check()


class TestWaveMaxFailures:
    async def test_is_none_by_default_of_a_first_wave_that_names_its_tenants(
        self, gated: Settings, gate: Gate
    ):
        """A failed canary stops the run, although the run allows more; its retry is a run."""
        async with open_services(gated, pace=SMALL_BATCHES) as services:
            made = await spoiled(services, gate, 4)

            options = RunOptions(waves=[CANARY, "100%"], max_failures=5)
            run, found = await ended(services, options)
            mend(services, made[4])
            again, retried = await ended(services, RunOptions(retry_of=run.id))

        assert "already exists" in (found.pop("tenant04").error or "")
        reason = f"not attempted: one of wave 1 ({CANARY}) failed"
        assert {one.error for one in found.values()} == {reason}
        assert (run.failed_count, run.not_attempted_count) == (6, 5)
        assert (again.success_count, len(retried)) == (6, 6)

    async def test_counts_the_failures_of_each_wave_alone(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await spoiled(services, gate, 0, 2)

            options = RunOptions(waves=[2, 4, "100%"], wave_max_failures=[1, 1])
            run, _ = await ended(services, options)

        assert (run.success_count, run.failed_count, run.stop_reason) == (4, 2, None)

    async def test_stops_the_run_in_a_later_wave(self, gated: Settings, gate: Gate):
        """As a percentage, it is of the tenants of this wave: 25 % of 4 are one."""
        async with open_services(gated) as services:
            made = await spoiled(services, gate, 0, 1, 2, 3)

            options = RunOptions(waves=[1, 5, "100%"], wave_max_failures=["100%", "25%"])
            run, found = await ended(services, options)

            assert run.stop_reason == "not attempted: more than one of wave 2 failed"
            assert found["tenant05"].error == run.stop_reason
            assert not is_migrated(services, made[5])

    async def test_is_not_there_for_amounts_unless_it_is_given(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await spoiled(services, gate, 0)

            kept, _ = await ended(services, RunOptions(waves=[1, "100%"]))
            stopped, _ = await ended(
                services, RunOptions(waves=[1, "100%"], wave_max_failures=[0], retry_of=kept.id)
            )

        assert (kept.success_count, kept.failed_count, kept.wave_details) == (5, 1, None)
        assert (stopped.total_count, stopped.failed_count) == (1, 1)


class TestPlan:
    async def test_keeps_its_waves_when_tenants_change(self, settings: Settings):
        """The tenants that were reviewed as the canary are the canary, and so is the order."""
        async with open_services(settings, works=False) as services:
            made = await tenants(services, 5)
            options = RunOptions(waves=[CANARY, 3, "100%"], order="name", wave_max_failures=[0])
            stored = (await services.fleet.preview(ADA, options, rehearse=False)).plan
            assert stored is not None
            names = ["z", "tenant04", "y", "x", "other"]
            for at in (4, 0, 1, 2, 3):
                await services.lifecycle.update(ADA, made[at], name=names[at])

            run_id = await services.fleet.plan(ADA, triggered_by="ada", plan_id=stored.id)
            assert opened(settings) == ["other"]
            again = await stored_plans.get(services.catalog, stored.id)

        async with open_services(settings) as services:
            run = await services.fleet.wait(run_id)
            found = {one.tenant_name: one for one in await runs.ended(services.catalog, run_id)}

        assert (run.waves, again.options[0]["order"]) == ([1, 3, 5], "name")
        assert begin_in_order(found, ["other"], ["z", "tenant04"], ["y", "x"])

    async def test_is_another_one_with_other_waves(self, settings: Settings):
        """Also a start with other waves is refused."""
        async with open_services(settings, works=False) as services:
            await tenants(services, 3)
            options = [RunOptions(waves=[one, "100%"]) for one in ("name=tenant01", 1)]
            first, other = [
                (await services.fleet.preview(ADA, one, rehearse=False)).plan for one in options
            ]
            assert first is not None
            assert other is not None
            with pytest.raises(BadRunOptions, match="`waves` is not that of the plan"):
                await services.fleet.plan(
                    ADA, triggered_by="ada", plan_id=first.id, options=options[1]
                )

        assert first.digest != other.digest


async def spoiled(services: Services, gate: Gate, *numbers: int) -> list[Tenant]:
    """Return six tenants; the next revision will fail for these of them."""
    made = await tenants(services, 6)
    gate.build()
    gate.open()
    spoil(services, *(made[number] for number in numbers))
    return made
