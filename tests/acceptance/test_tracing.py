"""Traces, as a collector of OpenTelemetry on loopback receives them."""

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tenantry.app import app_over
from tenantry.catalog import job_queue
from tenantry.kit import tracing
from tenantry.kit.request_log import AccessLog
from testkit.hook_endpoint import Endpoint, endpoint
from testkit.programs import free_port, running
from tests.acceptance.support import (
    HISTORY,
    LOGIN,
    MIGRATE_ALL,
    OWN_POSTS,
    POSTS,
    database_of,
    log_in,
    lost,
    ok,
    session,
)
from tests.conftest import PASSWORD, World
from tests.own_time import own_seconds

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SERVER, CLIENT, FAILED = 2, 3, 2
DRIFT_CHECK = "/api/admin/tenants/{}/drift/check"


class Collector:
    """What a collector has received."""

    def __init__(self, received: Endpoint) -> None:
        self._endpoint = received

    @property
    def raw(self) -> bytes:
        return b"".join(body for _, body in list(self._endpoint.received))

    @property
    def resource(self) -> dict[str, str]:
        request = ExportTraceServiceRequest.FromString(self._endpoint.received[0][1])
        attributes = request.resource_spans[0].resource.attributes
        return {one.key: one.value.string_value for one in attributes}

    def spans(self, name: str | None = None) -> list[Any]:
        return [
            span
            for _, body in list(self._endpoint.received)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if name in {None, span.name}
        ]

    def statements_below(self, span: Any) -> list[str]:
        below = (one for one in self.spans() if one.parent_span_id == span.span_id)
        return [attributes(one)["db.query.text"] for one in below if one.kind == CLIENT]


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Export to a collector during the block; after it, everything has arrived."""
    with endpoint() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        with tracing.exporting():
            yield Collector(received)


class TestRequest:
    async def test_is_a_span_with_its_statements_below(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        with collecting(monkeypatch) as collector:
            ok(await world.public(world.acme).get(POSTS))

        [found] = collector.spans(f"GET {POSTS}")
        shown = attributes(found)
        assert found.kind == SERVER
        assert (shown["http.route"], shown["http.response.status_code"]) == (POSTS, 200)
        assert shown["tenantry.tenant_id"] == str(world.acme.tenant.id)
        statements = collector.statements_below(found)
        assert any("tenantry_post" in one for one in statements)
        assert collector.resource["service.name"] == "tenantry"

    async def test_has_the_trace_of_its_client_and_the_log_shows_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        logged = io.StringIO()
        app = app_over(world.services, AccessLog(logged, as_json=True))
        transport = httpx.ASGITransport(app)
        with collecting(monkeypatch) as collector:
            async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
                await client.get("/livez", headers={"traceparent": TRACEPARENT})
                await client.get("/readyz", headers={"traceparent": TRACEPARENT.upper()})
                twice = [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)]
                await client.get("/livez", headers=twice)

        honoured, invalid, repeated = [one for one in collector.spans() if one.kind == SERVER]
        assert (honoured.trace_id.hex(), honoured.parent_span_id.hex()) == (TRACE, PARENT)
        for other in (invalid, repeated):
            assert other.trace_id.hex() != TRACE
            assert other.parent_span_id == b""
        lines = [json.loads(line) for line in logged.getvalue().splitlines()]
        assert [one["trace"] for one in lines] == [
            one.trace_id.hex() for one in (honoured, invalid, repeated)
        ]

    async def test_that_failed_says_so_with_the_class_of_its_error(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        with collecting(monkeypatch) as collector, lost(database_of(world, world.acme.tenant)):
            answer = await world.public(world.acme).get(POSTS)

        assert answer.status_code == 503
        [found] = collector.spans(f"GET {POSTS}")
        assert found.status.code == FAILED
        assert found.status.message == ""
        assert attributes(found)["error.type"] == "DatabaseUnavailable"
        assert not any(one.events for one in collector.spans())

    async def test_exports_no_secret_and_no_value_of_a_tenant(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        with collecting(monkeypatch) as collector:
            client = await session(world, world.acme)
            body = {"title": "Kept private", "content": "The words of a tenant."}
            assert (await client.post(OWN_POSTS, json=body)).status_code == 201
            await world.public(world.acme).get(f"{POSTS}?search=private-words")
            await log_in(world, world.acme, "a wrong password")

        assert collector.spans(f"POST {LOGIN}")
        for secret in (
            world.acme.key.secret,
            world.acme.owner.email,
            PASSWORD,
            "a wrong password",
            client.headers["authorization"],
            "Kept private",
            "The words of",
            "private-words",
        ):
            assert secret.encode() not in collector.raw

    async def test_nothing_is_exported_or_remembered_while_traces_are_off(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        with collecting(monkeypatch) as collector:
            pass
        await world.stranger().get("/livez")

        assert collector.raw == b""
        assert tracing.active.tracer is None


class TestWork:
    async def test_the_migration_of_each_tenant_is_a_span(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        with collecting(monkeypatch) as collector:
            admin = await world.admin()
            ok(await admin.post(MIGRATE_ALL))
            [run] = ok(await admin.get(HISTORY))["items"]

        spans = [attributes(one) for one in collector.spans("migrate tenant")]
        tenants = {str(one.tenant.id) for one in (world.acme, world.globex)}
        assert {one["tenantry.tenant_id"] for one in spans} == tenants
        assert {one["tenantry.run_id"] for one in spans} == {run["id"]}

    async def test_a_failed_migration_is_a_failed_span(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        database_of(world, world.acme.tenant).destroy()
        with collecting(monkeypatch) as collector:
            await (await world.admin()).post(MIGRATE_ALL)

        failed = [one for one in collector.spans("migrate tenant") if one.status.code == FAILED]
        tenants = {attributes(one)["tenantry.tenant_id"] for one in failed}
        assert tenants == {str(world.acme.tenant.id)}

    async def test_a_job_is_a_span_with_its_statements_below(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        admin = await world.admin()
        with collecting(monkeypatch) as collector:
            answer = await admin.post(DRIFT_CHECK.format(world.acme.tenant.id))
            job_id = answer.json()["data"]["id"]
            async with asyncio.timeout(60):
                while not collector.spans("job drift"):  # noqa: ASYNC110 - it is exported in between
                    await asyncio.sleep(0.05)

        [found] = collector.spans("job drift")
        assert attributes(found)["tenantry.job_id"] == job_id
        assert collector.statements_below(found)

    async def test_no_more_statements_than_the_limit_are_traced_below_a_span(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        with collecting(monkeypatch) as collector:
            with tracing.span("work"):
                for _ in range(tracing.STATEMENTS_MAX + 10):
                    await job_queue.count(world.services.catalog)
            await job_queue.count(world.services.catalog)  # below none

        [found] = collector.spans("work")
        assert len(collector.statements_below(found)) == tracing.STATEMENTS_MAX
        assert len(collector.spans()) == tracing.STATEMENTS_MAX + 1


class TestConfiguration:
    @pytest.mark.parametrize(
        "variables",
        [
            {},
            {"OTEL_TRACES_EXPORTER": "none"},
            {"OTEL_TRACES_EXPORTER": "console"},
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            {"OTEL_SDK_DISABLED": "true"},
        ],
        ids=str,
    )
    def test_traces_are_off_if_the_variables_say_so_or_ask_for_what_is_unknown(
        self, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ):
        if variables:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        with tracing.exporting():
            assert tracing.active.tracer is None

    def test_traces_are_off_if_the_extra_is_not_installed(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/")
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

        with tracing.exporting():
            assert tracing.active.tracer is None

    def test_a_collector_that_does_not_answer_delays_the_end_by_seconds(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        with endpoint() as received:
            received.answers = [received.hang]
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
            with own_seconds() as seconds:
                with tracing.exporting():
                    with tracing.span("work"):
                        pass
                    began = seconds()
                took = seconds() - began

            assert took < tracing.END_SECONDS_MAX + 2

    @pytest.mark.slow
    def test_a_process_exports_by_the_variables_and_logs_the_trace(self, tmp_path: Path):
        port = free_port()
        with endpoint() as received:
            variables = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": received.url,
                "OTEL_SERVICE_NAME": "desk",
            }
            with running(tmp_path, "serve", "--port", str(port), **variables) as program:
                program.wait_for("^Tenantry answers")
                headers = {"traceparent": TRACEPARENT}
                httpx.get(f"http://127.0.0.1:{port}/livez", headers=headers, timeout=60)
                assert program.end() == 0
                assert f'"trace":"{TRACE}"' in program.stderr
            collector = Collector(received)

            assert collector.resource["service.name"] == "desk"
            [found] = collector.spans("GET /livez")
            assert found.trace_id.hex() == TRACE
