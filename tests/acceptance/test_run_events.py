"""GET /api/admin/tenants/migration-history/{id}/events, over a real socket."""

import asyncio
import dataclasses
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.access import admins
from tenantry.access.principal import Person, Role
from tenantry.access.tokens import Tokens
from tenantry.api import events
from tenantry.api.door import Api
from tenantry.api.streaming import Source
from tenantry.api.table import ENDPOINTS
from tenantry.app import app_over
from tenantry.fleet.watchers import Watchers
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.request_log import AccessLog
from tenantry.services import Services
from testkit.programs import free_port, running, variables
from tests.acceptance.histories import add_run
from tests.acceptance.migrations import Migrations, WithMigrations
from tests.acceptance.shapes import IN_WORK, RUN, RUN_TENANT, list_of, must_be
from tests.acceptance.sockets import served
from tests.acceptance.streams import Event, watching
from tests.acceptance.support import (
    HISTORY,
    MIGRATE_ALL,
    UNKNOWN_ID,
    catalog_of,
    lost,
    ok,
    refused,
    until,
)
from tests.conftest import PASSWORD, World
from tests.own_time import own_seconds

RUNS = "/api/admin/migration-runs"
ENDS_SECONDS_MAX = 5


def events_of(run_id: object) -> str:
    return f"{HISTORY}/{run_id}/events"


@asynccontextmanager
async def admin_of(world: World, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an admin's client on a socket."""
    token = token or await world.admin_token()
    async with (
        served(world.app) as at,
        at.client(authorization=f"Bearer {token}") as client,
    ):
        yield client


def must_be_in_order(seen: list[Event]) -> None:
    """Check the shape of each event, and that the ids lead on."""
    for event in seen:
        data = dict(event.data)
        assert list_of(IN_WORK)(data.pop("inWork", []))
        must_be(data, {"tenant": RUN_TENANT, "run": RUN}[event.name])
    ids = [int(event.id) for event in seen]
    assert ids == sorted(ids)
    sequences = [int(event.id) for event in seen if event.name == "tenant"]
    assert len(set(sequences)) == len(sequences)


async def tenants_of(admin: httpx.AsyncClient, run_id: str) -> Any:
    return ok(await admin.get(f"{RUNS}/{run_id}/tenants"))["items"]


class TestEvents(WithMigrations):
    async def test_of_a_finished_run_report_it_and_end(self, world: World) -> None:
        """The run, its tenants as in the history, and at last the run again."""
        async with admin_of(world) as admin:
            ok(await admin.post(MIGRATE_ALL))
            [run] = ok(await admin.get(RUNS))["items"]
            details = await tenants_of(admin, run["id"])
            async with watching(admin, events_of(run["id"])) as stream:
                seen = await stream.rest()

        head = stream.answer.headers
        assert head["content-type"] == "text/event-stream"
        assert head["cache-control"] == "no-store"
        assert head["x-request-id"]
        assert "content-length" not in head
        must_be_in_order(seen)
        assert [event.name for event in seen] == ["run", "tenant", "tenant", "run"]
        assert seen[0].data == seen[-1].data == run
        told = [event.data for event in seen[1:-1]]
        assert sorted(told, key=lambda one: one["customerId"]) == details

    @pytest.mark.slow
    async def test_of_a_run_come_while_it_goes_on(
        self, world: World, mine: Migrations, tmp_path: Path
    ) -> None:
        """Each tenant as soon as it has ended, with the counts; the end comes last."""
        go_on = tmp_path / "go_on"
        mine.add_held("a1_take_a_while", go_on)
        async with admin_of(world) as admin:
            answer = await admin.post(MIGRATE_ALL, headers={"Prefer": "respond-async"})
            run_id = ok(answer, 202)["id"]
            async with watching(admin, events_of(run_id)) as stream:
                first = await stream.next()
                seen = [first] if first else []
                go_on.touch()
                while len([one for one in seen if one.name == "tenant"]) < 1:
                    event = await stream.next()
                    assert event is not None
                    seen.append(event)
                running = ok(await admin.get(f"{HISTORY}/{run_id}"))
                go_on.touch()
                seen += await stream.rest()
            run = ok(await admin.get(f"{RUNS}/{run_id}"))
            details = await tenants_of(admin, run_id)

        must_be_in_order(seen)
        assert seen[0].name == "run"
        assert (seen[0].data["finishedAt"], seen[0].data["totalCount"]) == (None, 2)
        assert running["finishedAt"] is None
        tenants = [event.data for event in seen if event.name == "tenant"]
        assert sorted(tenants, key=lambda one: one["customerId"]) == details
        assert {one["appliedMigrations"] for one in tenants} == {"a1_take_a_while"}
        assert seen[-1].data == run
        assert run["finishedAt"] is not None
        counts = [event.data["successCount"] for event in seen if event.name == "run"]
        assert counts == sorted(counts)
        assert [event.data["finishedAt"] for event in seen if event.name == "run"].index(
            run["finishedAt"]
        ) == len(counts) - 1

    async def test_go_on_after_the_last_one_that_was_seen(self, world: World) -> None:
        """By its id. An id of another run starts over: a refusal would be final."""
        run_id = await add_run(world, ["Success", "Failed", "Success"])
        async with admin_of(world) as admin:

            async def names(last: str) -> list[str]:
                async with watching(admin, events_of(run_id), last_event_id=last) as stream:
                    return [one.data.get("customerName", one.name) for one in await stream.rest()]

            every = await names("")
            for last, missed in (("0", 3), ("1", 2), ("2", 1), ("3", 0)):
                assert await names(last) == ["run", *every[4 - missed : 4], "run"], last
            for bad in ("4", "-1", "x", "1.0", "1, 1", "9" * 5_000):
                assert await names(bad) == every, bad
        assert every == ["run", *(f"Tenant number {number}" for number in (1, 2, 3)), "run"]

    @pytest.mark.slow
    async def test_are_kept_alive_by_comments(self, world: World) -> None:
        """When nothing happens for a while, something is sent that is no event."""
        run_id = await add_run(world, total=1)

        async def show(_ctx: Any, services: Services, _request: Any, **asked: Any) -> Source:
            updates = services.watchers.watch(asked["run_id"])
            return events.events_of(updates, asked["readmit"], comment_seconds=0.2)

        [endpoint] = [one for one in ENDPOINTS if one.path == events_of("{runId}")]
        often = dataclasses.replace(endpoint, handler=show)
        api = Api([often], world.services, AccessLog(as_json=True))
        async with (
            admin_of(dataclasses.replace(world, app=api)) as admin,
            watching(admin, events_of(run_id)) as stream,
        ):
            assert await stream.next() is not None
            await stream.wait_for_comments(2)

    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_are_cut_when_the_catalog_is_lost(self, world: World) -> None:
        """The client does not get an end of the run, and can resume."""
        run_id = await add_run(world, ["Success"], total=2)
        async with admin_of(world) as admin:
            async with watching(admin, events_of(run_id)) as stream:
                assert await stream.next() is not None
                with lost(catalog_of(world)), pytest.raises(httpx.RemoteProtocolError):
                    await stream.rest()
            async with watching(admin, events_of(run_id), last_event_id="1") as stream:
                assert await stream.next() is not None

    async def test_of_an_unknown_run_are_404(self, world: World) -> None:
        admin = await world.admin()

        for unknown in (UNKNOWN_ID, "1", world.acme.tenant.id):
            refused(await admin.get(events_of(unknown)), 404)

    @pytest.mark.slow
    async def test_are_those_of_every_process(
        self, world: World, mine: Migrations, tmp_path: Path
    ) -> None:
        """A run that this process works on can be watched at another, and that ends in time."""
        mine.add_slow("a1_take_a_while", 0.3)
        port = free_port()
        environment = {
            **variables(world.services.settings),
            "TENANTRY_TENANT_MIGRATIONS": str(mine.folder),
        }
        token = await world.admin_token()
        with running(tmp_path, "serve", "--port", str(port), **environment) as program:
            program.wait_for("answers at")
            there = httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers={"authorization": f"Bearer {token}"},
                timeout=60,
            )
            async with there:
                run_id = await world.services.fleet.plan(
                    system_context("test"), triggered_by="ada@example.com"
                )
                async with watching(there, events_of(run_id)) as stream:
                    seen = await stream.rest()

                must_be_in_order(seen)
                assert [one.name for one in seen].count("tenant") == 2
                assert seen[-1].data["successCount"] == 2
                assert seen[-1].data["finishedAt"] is not None
                async with watching(there, events_of(await add_run(world, total=1))) as stream:
                    assert await stream.next() is not None
                    with own_seconds() as seconds:
                        assert program.end(signal.SIGTERM) == 0
                        assert seconds() < ENDS_SECONDS_MAX
                    assert await stream.rest() == []


@pytest.mark.slow
class TestCredential:
    async def test_that_expires_ends_its_streams(self, world: World) -> None:
        """Within 5 seconds, and the client sees an end."""
        account = world.admin_account
        tokens = Tokens(world.services.signing_keys, lifetime=timedelta(seconds=5))
        person = Person(account.id, account.email, Role.ADMIN, account.generation)
        issued = await tokens.issue(person, now=utc_now())
        run_id = await add_run(world, total=1)

        async with (
            admin_of(world, issued.token) as admin,
            watching(admin, events_of(run_id)) as stream,
        ):
            left = (issued.expires_at - utc_now()).total_seconds()
            with own_seconds() as seconds:
                seen = await stream.rest()
                took = seconds()

            assert [event.data["finishedAt"] for event in seen] == [None]
            assert utc_now() >= issued.expires_at
            assert took < left + ENDS_SECONDS_MAX
            refused(await admin.get(events_of(run_id)), 401)

    async def test_of_an_admin_who_is_switched_off_ends_its_streams(self, world: World) -> None:
        """Within 5 seconds; the others' go on."""
        grace = await admins.create(
            system_context("test"),
            world.services.catalog,
            world.services.passwords,
            email="grace@example.com",
            password=PASSWORD,
        )
        person = Person(grace.id, grace.email, Role.ADMIN, grace.generation)
        issued = await world.services.tokens.issue(person, now=utc_now())
        run_id = await add_run(world, total=1)

        async with (
            admin_of(world) as ada,
            admin_of(world, issued.token) as client,
            watching(ada, events_of(run_id)) as staying,
            watching(client, events_of(run_id)) as stream,
        ):
            assert await stream.next() is not None
            assert await staying.next() is not None
            patched = await ada.patch(
                f"/api/admin/admins/{grace.id}",
                json={"isActive": False},
            )
            ok(patched)
            with own_seconds() as seconds:
                assert await stream.rest() == []
                assert seconds() < ENDS_SECONDS_MAX
            refused(await client.get(events_of(run_id)), 403)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.7):
                    await staying.next()


class TestBound:
    @pytest.fixture(name="world")
    async def _world(self, world: World) -> World:
        services = world.services
        watchers = Watchers(services.catalog, services.worker, watchers_max=1)
        services = dataclasses.replace(services, watchers=watchers)
        return dataclasses.replace(world, services=services, app=app_over(services))

    async def test_refuses_more_streams_than_there_may_be(self, world: World) -> None:
        """503 for one too many; a client that disconnects frees a place."""
        run_id: UUID = await add_run(world, total=1)
        async with admin_of(world) as admin:
            async with watching(admin, events_of(run_id)) as stream:
                assert await stream.next() is not None
                refused(await admin.get(events_of(run_id)), 503)
                refused(await admin.get(events_of(UNKNOWN_ID)), 404)
                assert (await admin.head(events_of(run_id))).status_code == 503
            await until(
                lambda: admin.head(events_of(run_id)), lambda answer: answer.status_code == 200
            )

            for _ in range(3):
                assert (await admin.head(events_of(run_id))).status_code == 200
            async with watching(admin, events_of(run_id)) as stream:
                assert await stream.next() is not None
