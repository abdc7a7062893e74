"""The metrics of a process, and their access control."""

import asyncio
import contextlib
import io
import json
import select
import socket
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenantry.app import app_over
from tenantry.catalog import outbox
from tenantry.catalog.job_states import CANCELLED, Job, JobState
from tenantry.catalog.jobs import ADD
from tenantry.catalog.outbox import Notice
from tenantry.catalog.session import CatalogSession
from tenantry.cli.serving.metrics_port import CONNECTIONS_MAX, SILENCE_SECONDS_MAX
from tenantry.fleet import fleet_metrics
from tenantry.kit.clock import utc_now
from tenantry.kit.ids import new_id
from tenantry.kit.metrics import Metrics
from tenantry.kit.request_log import AccessLog
from tenantry.kit.sizes import mark_of, space_above
from testkit import raw_sql
from testkit.programs import free_port, only_line, run, running
from tests.acceptance.commands import wait_until
from tests.acceptance.support import LOGIN, MIGRATE_ALL, PROFILE, database_of, lost, session
from tests.conftest import PASSWORD, World
from tests.own_time import own_seconds

METRICS = "/metrics"
# Of a process on a busy machine.
ANSWER_SECONDS_MAX = 60
NOTICE = Notice("run.ended", {})
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = dict[str, str]


async def scraped(world: World) -> str:
    answer = await (await world.admin()).get(METRICS)
    assert answer.status_code == 200
    return answer.text


def value(text: str, name: str, **labels: str) -> float:
    """Return the value of the one sample with this name and these labels; 0 if there is none."""
    found = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1, f"{name} {labels} is there {len(found)} times"
    return found[0] if found else 0


async def read_once(metrics: Metrics) -> None:
    """Wait for the first read; the next one is 15 s later."""
    while metrics.fleet is None:  # noqa: ASYNC110 - the program has no event for it
        await asyncio.sleep(0.01)


async def add_job(
    session: CatalogSession, state: JobState, at: datetime, *, error: str | None = None
) -> None:
    finished_at = None if state is JobState.QUEUED else at
    ended = {"finished_at": finished_at, "error": error}
    added = Job(new_id(), "backup", None, None, "ada", at, state=state.value, **ended)
    await session.execute(ADD, **msgspec.structs.asdict(added))


class TestMetrics:
    async def test_have_the_form_of_prometheus(self, world: World):
        """The body is the text, in version 0.0.4 of the format, and has no envelope."""
        answer = await (await world.admin()).get(METRICS)

        assert answer.headers["content-type"] == CONTENT_TYPE
        names = {family.name for family in text_string_to_metric_families(answer.text)}
        assert names >= {
            "tenantry_requests",
            "tenantry_request_duration_seconds",
            "tenantry_migrated_tenants",
            "tenantry_migration_runs",
            "tenantry_login_failures",
            "tenantry_pool_connections",
            "tenantry_hashing_queue",
            "tenantry_build_info",
            "process_resident_memory_bytes",
        }

    async def test_show_the_state_of_the_service(self, world: World):
        """Read from the catalog by every process, with the ages at the time of the scrape."""
        with raw_sql.connected(world.services.settings.catalog) as query:
            query("UPDATE tenant SET schema_revision = NULL")
        hour_ago, services = utc_now() - timedelta(hours=1), world.services
        async with services.catalog.begin() as session:  # before a worker claims the job
            await add_job(session, JobState.QUEUED, hour_ago)
            await add_job(session, JobState.DONE, hour_ago)
            await add_job(session, JobState.FAILED, utc_now(), error="no space")
            await add_job(session, JobState.FAILED, utc_now(), error=CANCELLED)
            await add_job(session, JobState.FAILED, hour_ago, error="no space")
            await outbox.add(session, {"desk": ["run.ended"]}, [NOTICE], now=hour_ago)
            state = await fleet_metrics.read(session, str(services.streams().head), ["desk"])
            without = await fleet_metrics.read(session, str(services.streams().head))
        admin = await world.admin()
        await read_once(services.metrics)
        services.metrics.fleet = state
        found = (await admin.get(METRICS)).text

        assert value(found, "tenantry_tenants_behind") == 2
        assert value(found, "tenantry_tenants_failing") == 0
        assert value(found, "tenantry_queued_jobs") == 1
        assert value(found, "tenantry_held_runs") == 0
        assert value(found, "tenantry_failed_jobs", kind="backup") == 1
        assert value(found, "tenantry_failed_jobs", kind="move") == 0
        assert without.oldest_notification_at is None
        for name in ("oldest_queued_job", "last_backup", "oldest_notification"):
            assert 3600 <= value(found, f"tenantry_{name}_age_seconds") < 3660
        assert "tenantry_active_run_age_seconds" not in found

    async def test_have_no_state_of_the_service_that_is_not_known(self, world: World):
        await read_once(world.services.metrics)
        admin = await world.admin()
        world.services.metrics.fleet = None

        assert "tenantry_tenants_behind" not in (await admin.get(METRICS)).text

    async def test_name_the_release(self, world: World):
        """The label of `tenantry_build_info` is the release of the process."""
        found = await scraped(world)

        assert value(found, "tenantry_build_info", version=version("tenantry")) == 1

    async def test_count_requests_by_route(self, world: World):
        """A request counts under the template of its endpoint, its method and its status."""
        before = await scraped(world)
        path = f"/api/admin/tenants/{world.acme.tenant.id}"
        for client in (await world.admin(), world.stranger()):
            await client.get(path)
        after = await scraped(world)

        route = {"method": "GET", "route": "/api/admin/tenants/{tenantId}"}
        for status in ("200", "401"):
            counted = ("tenantry_requests_total", {**route, "status": status})
            assert value(after, counted[0], **counted[1]) == 1 + value(
                before, counted[0], **counted[1]
            )
        lasted = "tenantry_request_duration_seconds"
        assert value(after, f"{lasted}_count", **route) == 2
        assert value(after, f"{lasted}_bucket", le="+Inf", **route) == 2
        assert 0 < value(after, f"{lasted}_sum", **route) < 60

    async def test_count_the_5xx_of_each_tenant_for_runs_but_show_no_tenant(self, world: World):
        """Also those of a broken database; a caller without a tenant is counted for none."""
        acme, globex = world.acme, world.globex
        clients = [await session(world, one) for one in (acme, globex)]
        before = world.services.metrics.requests.answers.copy()
        with lost(database_of(world, acme.tenant)):
            for client in clients:
                await client.get(PROFILE)
        await world.stranger().get(PROFILE)

        found = world.services.metrics.requests.answers
        for one, errors in ((acme, 1), (globex, 0)):
            key = one.tenant.id.int
            assert found.counts[key] == before.counts[key] + 1
            assert found.errors.get(key, 0) == errors
        assert len(found.counts) == 2
        assert str(acme.tenant.id) not in await scraped(world)

    async def test_count_what_is_no_endpoint_as_one(self, world: World):
        """Invented paths and methods are not stored: they would fill the memory."""
        for path in ("/a", "/b", "/c?d=e"):
            await world.stranger().get(path)
        await world.stranger().request("BREW", "/livez")
        text = await scraped(world)

        counted = "tenantry_requests_total"
        assert value(text, counted, method="GET", route="-", status="404") == 3
        assert value(text, counted, method="-", route="-", status="405") == 1
        assert "BREW" not in text

    async def test_count_failed_logins(self, world: World):
        """Wrong passwords and rejected attempts, each by its reason."""
        client = world.public(world.acme)
        body = {"email": "nobody@example.com", "password": PASSWORD}
        statuses = []
        while 429 not in statuses:  # the wait after five is short, and a busy machine slow
            statuses.append((await client.post(LOGIN, json=body)).status_code)
        text = await scraped(world)

        failures, wrong = "tenantry_login_failures_total", statuses.count(401)
        assert wrong >= 5
        assert value(text, failures, reason="wrong password") == wrong
        assert value(text, failures, reason="too many attempts") == 1

    async def test_count_what_is_rejected_for_now(self, world: World):
        """By the reason; in the log it is a warning, because the service is not at fault."""
        before = await scraped(world)
        database_of(world, world.acme.tenant).destroy()
        logged = io.StringIO()
        app = app_over(world.services, AccessLog(logged, as_json=True))
        key = {"x-api-key": world.acme.key.secret}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://tenantry") as client:
            answer = await client.get("/api/public/blog/posts", headers=key)

        assert answer.status_code == 503
        assert json.loads(logged.getvalue())["level"] == "warning"
        counted, reason = "tenantry_unavailable_total", "DatabaseUnavailable"
        rise = value(await scraped(world), counted, reason=reason)
        assert rise - value(before, counted, reason=reason) == 1

    async def test_count_what_was_migrated(self, world: World):
        """Tenants by their outcome; a run in which one failed is a failed run."""
        admin = await world.admin()
        await admin.post(MIGRATE_ALL)
        once = await scraped(world)
        database_of(world, world.acme.tenant).destroy()
        await admin.post(MIGRATE_ALL)
        twice = await scraped(world)

        def counted(text: str) -> list[float]:
            return [
                value(text, f"tenantry_{what}_total", outcome=outcome)
                for what in ("migrated_tenants", "migration_runs")
                for outcome in ("success", "failed")
            ]

        assert counted(once) == [2, 0, 1, 0]
        assert counted(twice) == [3, 1, 1, 1]

    async def test_include_pools_and_queue(self, world: World):
        """Open and idle connections of each server, and what waits to be hashed."""
        await world.public(world.acme).get("/api/public/blog/posts")
        text = await scraped(world)

        for server in ("catalog", "tenants/default"):
            opened = value(text, "tenantry_pool_connections", server=server, state="open")
            idle = value(text, "tenantry_pool_connections", server=server, state="idle")
            most = value(text, "tenantry_pool_connections_max", server=server)
            assert 0 < idle <= opened <= most <= 64
        assert value(text, "tenantry_hashing_queue") == 0

    async def test_show_the_heartbeat_and_the_space_until_writes_are_rejected(self, world: World):
        """The space is that of a folder of SQLite files; a PostgreSQL server has no sample."""
        settings = world.services.settings
        text = await scraped(world)

        assert 0 < value(text, "tenantry_heartbeat_age_seconds") < 60
        folder = world.services.databases.server("default").folder
        shown = value(text, "tenantry_writable_bytes", server="tenants/default")
        if folder is None:
            assert "tenantry_writable_bytes{" not in text
        else:
            measured = space_above(folder, mark_of(settings.free_space_mark))
            assert shown == pytest.approx(measured, abs=10**9)

    async def test_name_no_tenant(self, world: World):
        """No tenant, person or key is ever in a label."""
        for of in (world.acme, world.globex):
            await (await world.owner(of)).get("/api/tenant/modules")
        await (await world.admin()).post(MIGRATE_ALL)
        text = await scraped(world)

        labels = {
            label
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            for label in sample.labels
        }
        assert labels == {
            "method", "route", "status", "le", "outcome", "reason", "server", "state", "version",
            "kind",
        }  # fmt: skip
        for word in ("acme", "globex", str(world.acme.tenant.id), "owner@", "tnk_"):
            assert word not in text

    async def test_are_of_one_process(self, world: World):
        """Two sets of metrics in one process share nothing."""
        other = Metrics()
        other.count_run("success")

        assert value(await scraped(world), "tenantry_migration_runs_total", outcome="success") == 0


def still_open(sockets: list[socket.socket]) -> list[socket.socket]:
    """Return those that the other side has not closed."""
    closed, _, _ = select.select(sockets, [], [], 0)
    return [one for one in sockets if one not in closed]


@pytest.mark.slow
class TestMetricsPort:
    def test_answers_without_credentials(self, tmp_path: Path):
        """Where the settings say so, until the process ends; on no other address."""
        port, metrics = free_port(), free_port()
        with running(
            tmp_path, "serve", "--port", str(port), TENANTRY_METRICS_PORT=str(metrics)
        ) as program:
            program.wait_for("^Tenantry answers")
            httpx.get(f"http://127.0.0.1:{port}/livez", timeout=ANSWER_SECONDS_MAX)
            answer = httpx.get(f"http://127.0.0.1:{metrics}/metrics", timeout=ANSWER_SECONDS_MAX)

            assert answer.headers["content-type"].startswith("text/plain")
            requests = {"method": "GET", "route": "/livez", "status": "200"}
            assert value(answer.text, "tenantry_requests_total", **requests) == 1
            assert "tenantry_queued_jobs 0.0" in answer.text
            assert (
                httpx.get(
                    f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_SECONDS_MAX
                ).status_code
                == 401
            )
            assert program.end() == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{metrics}/metrics", timeout=ANSWER_SECONDS_MAX)

    def test_answers_on_one_path_and_names_no_server(self, tmp_path: Path):
        """Every other path is 404, and no answer has the version of what sends it."""
        port, metrics = free_port(), free_port()
        with running(
            tmp_path, "serve", "--port", str(port), TENANTRY_METRICS_PORT=str(metrics)
        ) as program:
            program.wait_for("^Tenantry answers")

            statuses = {}
            for method, path in (
                ("GET", "/metrics"),
                ("GET", "/metrics?name[]=up"),
                ("GET", "/"),
                ("GET", "/metrics/"),
                ("GET", "/api/admin/tenants"),
                ("POST", "/metrics"),
            ):
                answer = httpx.request(
                    method, f"http://127.0.0.1:{metrics}{path}", timeout=ANSWER_SECONDS_MAX
                )
                statuses[method, path] = answer.status_code
                assert "server" not in answer.headers
                assert "Python" not in answer.text or path.startswith("/metrics")

        assert list(statuses.values()) == [200, 200, 404, 404, 404, 501]

    def test_bounds_the_number_and_the_time_of_connections(self, tmp_path: Path):
        """Idle connections do not use up the descriptors of the API."""
        port, metrics = free_port(), free_port()
        with running(
            tmp_path, "serve", "--port", str(port), TENANTRY_METRICS_PORT=str(metrics)
        ) as program:
            program.wait_for("^Tenantry answers")
            with contextlib.ExitStack() as stack:
                silent = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", metrics)))
                    for _ in range(CONNECTIONS_MAX + 30)
                ]

                with own_seconds() as seconds:
                    wait_until(lambda: len(still_open(silent)) <= CONNECTIONS_MAX)
                    assert seconds() < SILENCE_SECONDS_MAX / 2
                    assert len(still_open(silent)) > 0
                    wait_until(lambda: still_open(silent) == [])
                    assert seconds() < SILENCE_SECONDS_MAX + 2
                assert (
                    httpx.get(
                        f"http://127.0.0.1:{metrics}/metrics", timeout=ANSWER_SECONDS_MAX
                    ).status_code
                    == 200
                )
            assert "Traceback" not in program.stderr

    def test_must_be_free(self, tmp_path: Path):
        """A port that is taken ends the start with one line that says which."""
        with running(tmp_path, "serve", "--port", str(port := free_port())) as program:
            program.wait_for("^Tenantry answers")
            (tmp_path / "other").mkdir()
            ended = run(
                tmp_path / "other",
                "serve",
                "--port",
                str(free_port()),
                TENANTRY_METRICS_PORT=str(port),
            )

        assert ended.returncode == 3
        last = ended.stderr.splitlines(keepends=True)[-1]
        assert f"Port {port} of 127.0.0.1 is in use" in only_line(last)
        assert "set another TENANTRY_METRICS_PORT" in last


class TestManyAtOnce:
    async def test_lose_no_request(self, world: World):
        """Each of many concurrent requests is counted."""
        before = value(await scraped(world), "tenantry_requests_total", route="/livez")
        client = world.stranger()
        await asyncio.gather(*(client.get("/livez") for _ in range(200)))

        assert (
            value(await scraped(world), "tenantry_requests_total", route="/livez") == before + 200
        )
