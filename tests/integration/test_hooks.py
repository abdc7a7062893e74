"""Targets of notifications get what has happened to runs and servers, at least once."""

import asyncio
import base64
import hashlib
import hmac
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tenantry.catalog import notices, outbox, run_tenants, runs, workers
from tenantry.catalog.outbox import Notice
from tenantry.catalog.pace import Pace
from tenantry.catalog.runs import Outcome
from tenantry.catalog.tenants import get_by_name
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, RunOptions
from tenantry.kit import webhooks
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.hook_settings import Hook
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.hook_status import HookStatus, status_of
from testkit import raw_sql
from testkit.faults import Faults
from testkit.hook_endpoint import Endpoint, endpoint
from testkit.revisions import AlembicFolder
from tests.conftest import client_of, make_world, provision
from tests.integration import programs
from tests.integration.gates import url_of

KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
QUICK = Pace(redelivery_seconds=0.05)
CREATE = 'op.create_table("note", sa.Column("id", sa.Integer, primary_key=True))'
RUN = ["run.started", "run.ended"]


@pytest.fixture(name="hooked")
def _hooked() -> Iterator[Endpoint]:
    with endpoint() as served:
        yield served


@pytest.fixture(name="told")
def _told(settings: Settings, hooked: Endpoint, folder: AlembicFolder) -> Settings:
    """Settings with one target, which gets everything."""
    return _with(settings, folder, ops={"url": hooked.url, "secret": SECRET})


def _with(settings: Settings, folder: AlembicFolder, **hooks: dict[str, Any]) -> Settings:
    made = {name: Hook(**one) for name, one in hooks.items()}
    return settings.model_copy(update={"hooks": made, "tenant_migrations": folder.begin()})


@asynccontextmanager
async def tenants(settings: Settings, count: int = 2, **more: Any) -> AsyncIterator[Services]:
    async with open_services(settings, pace=QUICK, **more) as services:
        for number in range(count):
            await provision(services, f"t{number}")
        yield services


async def migrated(services: Services, options: RunOptions = EVERY_ACTIVE_TENANT) -> UUID:
    run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada", options=options)
    await services.fleet.wait(run_id)
    return run_id


async def _hold(services: Services, run_id: UUID, reason: str | None) -> None:
    async with services.catalog.begin() as session:
        await notices.hold(session, services.catalog.subscribed, run_id, reason, now=utc_now())


async def told_of(hooked: Endpoint, count: int) -> list[dict[str, Any]]:
    await asyncio.to_thread(hooked.wait_for, count)
    return hooked.messages


async def delivered(services: Services) -> HookStatus:
    """Return the status of the only target when nothing waits for it."""
    while True:
        [found] = await status_of(services.catalog, services.settings.hooks)
        if not found.counts.queued:
            return found
        await asyncio.sleep(0.05)


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{digest}"


def rows(settings: Settings) -> list[tuple[Any, ...]]:
    return raw_sql.rows(settings.catalog, "SELECT * FROM notification")


class TestRun:
    async def test_notifies_of_its_start_its_waves_its_first_failure_and_its_end(
        self, told: Settings, hooked: Endpoint, folder: AlembicFolder
    ):
        async with tenants(told, 4) as services:
            folder.add("u1_create_notes", CREATE)
            tenant = await get_by_name(services.catalog, "t1")
            raw_sql.run(url_of(services, tenant), "CREATE TABLE note (id int)")
            run_id = await migrated(services, RunOptions(waves=(2, "100%"), label="spring"))
            messages = await told_of(hooked, 4)

        assert hooked.events == [
            "run.started",
            "run.first_failure",
            "run.wave_ended",
            "run.ended",
        ]
        assert {one["data"]["runId"] for one in messages} == {str(run_id)}
        assert messages[1]["data"]["tenantName"] == "t1"
        assert messages[2]["data"]["text"] == (
            f"Migration run spring ({run_id}): "
            "wave 1 of 2 has ended: 1 succeeded, 1 failed, 2 left."
        )
        assert messages[3]["data"]["state"] == "failed"
        assert all(is_signed(*one) for one in hooked.received)
        assert len(set(hooked.ids)) == 4

    async def test_that_is_cancelled_notifies_of_its_end(self, told: Settings, hooked: Endpoint):
        async with tenants(told, works=False) as services:
            ctx = system_context("ada")
            run_id = await services.fleet.plan(ctx, triggered_by="ada")
            await services.fleet.cancel(ctx, run_id, ends_all=True)
        async with open_services(told, pace=QUICK):
            messages = await told_of(hooked, 2)

        assert hooked.events == RUN
        assert messages[1]["data"]["state"] == "cancelled"
        assert "2 not attempted" in messages[1]["data"]["text"]

    async def test_without_tenants_has_started_and_ended(self, told: Settings, hooked: Endpoint):
        async with tenants(told, 0) as services:
            await migrated(services)
            await told_of(hooked, 2)
        assert hooked.events == RUN

    async def test_notifies_of_holding_only_when_it_begins_to(
        self, told: Settings, hooked: Endpoint
    ):
        async with tenants(told, works=False) as services:
            ctx = system_context("ada")
            run_id = await services.fleet.plan(ctx, triggered_by="ada")
            for reason in ("a.", "b.", None, "c."):
                await _hold(services, run_id, reason)
        async with open_services(told, pace=QUICK):
            messages = await told_of(hooked, 4)

        assert [one["data"].get("reason") for one in messages] == [None, "a.", "c.", None]
        assert messages[1]["data"]["text"] == f"Migration run {run_id}: holding: a."

    async def test_that_has_ended_notifies_of_nothing_more(self, told: Settings, hooked: Endpoint):
        """Another process may find late that it has not the files, or end a tenant again."""
        async with tenants(told) as services:
            run_id = await migrated(services)
            await told_of(hooked, 2)

            await _hold(services, run_id, "No files.")
            ended = [Outcome(one) for one in await runs.ended(services.catalog, run_id)]
            async with services.catalog.begin() as session:
                again = await run_tenants.record(session, ended, new_id())

            assert again.notices == []
            assert (await delivered(services)).counts.delivered == 2

    async def test_notifies_in_the_transaction_of_its_outcomes(
        self, told: Settings, hooked: Endpoint, faults: Faults
    ):
        """A process that is killed before its COMMIT has written neither; and no notice twice."""

        def lose(_session: object, _subscribed: object, found: list[Notice], **_: object) -> None:
            if found and found[-1].event == "run.ended":
                faults.restore()
                raise DatabaseUnavailable

        async with tenants(told) as services:
            faults.after(outbox, "add", lose)
            await migrated(services)
            await told_of(hooked, 2)
            await delivered(services)
        assert hooked.events == RUN

    async def test_sends_each_target_only_what_it_wants(
        self, settings: Settings, hooked: Endpoint, folder: AlembicFolder
    ):
        with endpoint() as other:
            told = _with(
                settings,
                folder,
                ends={"url": hooked.url, "secret": SECRET, "events": ["run.ended"]},
                slack={"url": other.url, "format": "slack", "events": ["run.started"]},
            )
            async with tenants(told) as services:
                await migrated(services, RunOptions(label="<!channel> & co"))
                await told_of(hooked, 1)
                [text] = await told_of(other, 1)
        assert hooked.events == ["run.ended"]
        assert text.keys() == {"text"}
        assert "&lt;!channel&gt; &amp; co" in text["text"]
        assert "started by ada: 2 databases" in text["text"]

    async def test_without_targets_writes_nothing(self, settings: Settings, folder: AlembicFolder):
        async with tenants(_with(settings, folder)) as services:
            await migrated(services)
            assert rows(services.settings) == []


class TestDelivery:
    async def test_is_repeated_with_the_same_id_until_it_is_accepted(
        self, told: Settings, hooked: Endpoint
    ):
        hooked.answers = [500, 500, 200]
        async with tenants(told, 0) as services:
            await _queue(services, "run.ended")
            await told_of(hooked, 3)
            status = await delivered(services)

        assert len(set(hooked.ids)) == 1
        assert len({body for _, body in hooked.received}) == 1
        assert all(is_signed(*one) for one in hooked.received)
        assert (status.counts.delivered, status.last and status.last.result) == (1, "status 200")

    async def test_to_an_endpoint_that_hangs_delays_neither_a_run_nor_another_target(
        self, settings: Settings, hooked: Endpoint, folder: AlembicFolder, faults: Faults
    ):
        """Even if its attempt never ends: everything else does."""
        reached, released = asyncio.Event(), asyncio.Event()

        async def hang(url: str, *_: object) -> None:
            if url == hooked.url:
                reached.set()
                await released.wait()

        faults.before(webhooks, "post", hang)
        with endpoint() as other:
            told = _with(
                settings,
                folder,
                hangs={"url": hooked.url, "secret": SECRET},
                works={"url": other.url, "secret": SECRET},
            )
            async with tenants(told) as services:
                await _queue(services, "run.holding")
                await reached.wait()
                await migrated(services)
                await told_of(other, 3)
                assert hooked.received == []
                released.set()

    async def test_that_fails_unexpectedly_disturbs_no_other_target(
        self, settings: Settings, hooked: Endpoint, folder: AlembicFolder, faults: Faults
    ):
        """It is repeated with a pause, as after any failed attempt."""
        hooked.answers = [hooked.hang]
        with endpoint() as other:

            def break_once(url: str, *_: object) -> None:
                if url == other.url and not broken:
                    broken.append(url)
                    raise RuntimeError("a fault of this program")

            broken: list[str] = []
            faults.before(webhooks, "post", break_once)
            told = _with(
                settings,
                folder,
                hangs={"url": hooked.url, "secret": SECRET},
                works={"url": other.url, "secret": SECRET},
            )
            async with tenants(told, 0) as services:
                await _queue(services, "run.holding")
                await told_of(hooked, 1)
                await told_of(other, 1)
                await _queue(services, "run.ended")
                await told_of(other, 2)
                assert len(hooked.ids) == 1, "it still waits for its answer"
                hooked.released.set()

        assert len(broken) == 1

    async def test_stops_at_the_limit_of_attempts(self, told: Settings, hooked: Endpoint):
        hooked.answers = [400] * 9
        async with tenants(told, 0) as services:
            await _queue(services, "run.ended")
            await told_of(hooked, 1)
            most = f"UPDATE notification SET attempts = {outbox.ATTEMPTS_MAX}"
            # In a thread: a transaction of the services may have to end first.
            await asyncio.to_thread(raw_sql.run, told.catalog, most)
            status = await delivered(services)
        assert (status.counts.failed, status.last and status.last.result) == (1, "status 400")

    async def test_of_one_that_is_away_drops_the_oldest_of_a_bounded_queue(self, told: Settings):
        async with tenants(told, 0, works=False) as services:
            for number in range(outbox.QUEUED_MAX + 5):
                await _queue(services, "run.ended", number=number)
            await outbox.prune(services.catalog, now=utc_now())
            status = await status_of(services.catalog, told.hooks)
            kept = [json.loads(one[3]) for one in rows(told) if one[5] == "queued"]
            await outbox.prune(services.catalog, now=utc_now() + timedelta(days=2))
            later = await status_of(services.catalog, told.hooks)

        assert (status[0].counts.queued, status[0].counts.dropped) == (outbox.QUEUED_MAX, 5)
        assert min(one["data"]["number"] for one in kept) == 5
        assert (later[0].counts.queued, later[0].counts.failed) == (0, outbox.QUEUED_MAX)

    async def test_keeps_only_the_newest_of_those_that_have_ended(self, told: Settings):
        async with tenants(told, 0, works=False) as services:
            for number in range(outbox.ENDED_MAX + 5):
                await _queue(services, "run.ended", number=number)
            await outbox.prune(services.catalog, now=utc_now() + timedelta(days=2))
            await outbox.prune(services.catalog, now=utc_now())
            assert len(rows(told)) == outbox.ENDED_MAX

    async def test_of_a_process_that_is_silent_is_done_by_another_with_the_same_id(
        self, told: Settings, hooked: Endpoint
    ):
        async with tenants(told, 0, works=False) as services:
            dead = new_id()
            await workers.beat(services.catalog, dead)
            await _queue(services, "run.ended")
            claimed = await outbox.claim(services.catalog, "ops", worker_id=dead)
            own = services.heartbeat.worker_id
            assert await outbox.claim(services.catalog, "ops", worker_id=own) is None
            await workers.remove(services.catalog, dead)
            again = await outbox.claim(services.catalog, "ops", worker_id=own)
            # The one that was silent has no say any more.
            assert claimed is not None
            await outbox.end_attempt(
                services.catalog,
                claimed,
                worker_id=dead,
                is_delivered=True,
                result="status 200",
                now=utc_now(),
                pause_seconds=0,
            )
            [found] = await status_of(services.catalog, told.hooks)
        assert again == claimed
        assert found.counts.queued == 1
        assert hooked.received == []

    @pytest.mark.slow
    async def test_by_a_process_that_is_killed_is_repeated_by_another_with_the_same_id(
        self, told: Settings, hooked: Endpoint
    ):
        hooked.answers = [hooked.hang]
        async with tenants(told, 0, works=False) as services:
            await _queue(services, "run.ended")
        async with programs.running("work", told) as killed:
            await killed.line()
            await told_of(hooked, 1)
            killed.signal(signal.SIGKILL)
            await killed.ended()
        async with open_services(told, pace=QUICK) as services:
            await told_of(hooked, 2)
            status = await delivered(services)
        assert hooked.ids[0] == hooked.ids[1]
        assert status.counts.delivered == 1

    async def test_is_finished_by_a_command_before_it_ends(self, told: Settings, hooked: Endpoint):
        async with tenants(told) as services:
            await migrated(services)
        assert hooked.events == RUN

    async def test_waits_for_the_secret_that_is_in_a_file(
        self, settings: Settings, hooked: Endpoint, folder: AlembicFolder, tmp_path: Path
    ):
        file = tmp_path / "secret"
        file.write_text(f"{SECRET}\n")
        told = _with(settings, folder, ops={"url": hooked.url, "secret_file": file})
        file.rename(tmp_path / "away")
        async with tenants(told, 0) as services:
            await _queue(services, "run.ended")
            while "secret" not in await _last_result(services):  # noqa: ASYNC110 - it is in the catalog
                await asyncio.sleep(0.05)
            (tmp_path / "away").rename(file)
            await told_of(hooked, 1)
        assert is_signed(*hooked.received[0])


class TestServer:
    async def test_away_is_queued_once_by_all_processes_that_notice_it(self, told: Settings):
        async with tenants(told, 0, works=False) as services:
            for is_away in (True, True, False, False):
                async with services.catalog.begin() as session:
                    notice = notices.of_server("eu", is_away=is_away, at_ms=120_000)
                    await outbox.add(session, services.catalog.subscribed, [notice], now=utc_now())
            assert sorted(one[2] for one in rows(told)) == ["server.away", "server.back"]


class TestSecrets:
    async def test_are_neither_in_the_catalog_nor_in_the_list(
        self, told: Settings, hooked: Endpoint
    ):
        hooked.answers = [500]
        async with open_services(told, pace=QUICK) as services:
            world = await make_world(services)
            await migrated(services)
            await told_of(hooked, 2)
            async with await world.admin() as admin:
                response = await admin.get("/api/admin/hooks")
            async with client_of(world.app) as stranger:
                refused = await stranger.get("/api/admin/hooks")
            stored = str(rows(told))

        [item] = response.json()["data"]["items"]
        assert (item["name"], item["url"]) == ("ops", hooked.url.removesuffix("/secret/path"))
        assert refused.status_code == 401
        for secret in (SECRET, SECRET.removeprefix("whsec_"), "secret/path"):
            assert secret not in response.text
            assert secret not in stored
            assert secret not in repr(told)


async def _queue(services: Services, event: str, **data: object) -> None:
    notice = Notice(event, {"text": "It is a test.", **data})
    async with services.catalog.begin() as session:
        await outbox.add(session, services.catalog.subscribed, [notice], now=utc_now())


async def _last_result(services: Services) -> str:
    [found] = await status_of(services.catalog, services.settings.hooks)
    return found.last.result if found.last else ""
