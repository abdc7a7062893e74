"""Traces in the form of OpenTelemetry: spans of requests, statements, migrated tenants and jobs.

They are off unless `tenantry[otel]` is installed and the standard variables name a collector. Then
nothing is imported, and a request costs three comparisons more. As with logs, there is one tracer
for the process; it is not the global one of OpenTelemetry, so libraries make no spans.

A span has names and ids of ours, and SQL without its parameters. It has no value of a tenant, no
credential, no address, and of an error only its class.
"""

import os
import re
import threading
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeVar

import structlog

from tenantry.kit.release import VERSION
from tenantry.kit.request_log import SERVER_ERROR, AccessEntry

Answer = TypeVar("Answer")

SQL_CHARS_MAX = 2_000
# Below one span: an event stream reads the catalog for hours.
STATEMENTS_MAX = 200
# At the end of the process, for the spans that are not exported yet.
END_SECONDS_MAX = 3.0
OTLP, HTTP = "otlp", "http/protobuf"
# Source: W3C Trace Context, section 3.2. A version above 00 may append fields after a hyphen.
TRACEPARENT_BYTES_MAX = 256
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

_log = structlog.get_logger(__name__)
_current: ContextVar["OpenSpan | None"] = ContextVar("span", default=None)


class OpenSpan:
    """A span that is open, and the parent of those that are opened below it, until `end`.

    Attributes:
        trace: The id of its trace, as in the logs: 32 hexadecimal digits.
        statements_left: How many statements below it are traced yet.
    """

    def __init__(self, span: Any, error_status: Any) -> None:
        self.span = span
        self.trace = f"{span.get_span_context().trace_id:032x}"
        self.statements_left = STATEMENTS_MAX
        self._error_status = error_status
        self._logged = structlog.contextvars.bind_contextvars(trace=self.trace)
        self._before = _current.set(self)

    def fail(self, error: str) -> None:
        """Note that it has failed, with the name of an error class."""
        self.span.set_attribute("error.type", error)
        self.span.set_status(self._error_status)

    def end(self) -> None:
        """End it, in the task that has opened it."""
        _current.reset(self._before)
        structlog.contextvars.reset_contextvars(**self._logged)
        self.span.end()

    def end_request(self, entry: AccessEntry) -> None:
        """End the span of a request; its name has the path template, as the log has."""
        self.span.update_name(f"{entry.method} {entry.path}")
        self.span.set_attribute("http.route", entry.path)
        self.span.set_attribute("http.response.status_code", entry.status)
        self.span.set_attribute("tenantry.request_id", entry.request_id)
        if entry.tenant is not None:
            self.span.set_attribute("tenantry.tenant_id", str(entry.tenant))
        if entry.status >= SERVER_ERROR:
            self.fail(entry.error or str(entry.status))
        self.end()


class Tracer:
    """Opens spans.

    Args:
        api: The module `opentelemetry.trace`.
        provider: Exports them.
    """

    def __init__(self, api: Any, provider: Any) -> None:
        self._api = api
        self._tracer = provider.get_tracer("tenantry", VERSION)
        self._error = api.Status(api.StatusCode.ERROR)

    def open(self, name: str, **attributes: str) -> OpenSpan:
        """Open a span below the current one, if there is one."""
        above = _current.get()
        parent = above.span if above else self._api.INVALID_SPAN
        return self._open(name, parent, self._api.SpanKind.INTERNAL, attributes)

    def open_request(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> OpenSpan:
        """Open the span of a request, below that of its client if `traceparent` names one."""
        attributes = {"http.request.method": method}
        return self._open(method, self._remote(headers), self._api.SpanKind.SERVER, attributes)

    async def statement(self, system: str, sql: str, sent: Awaitable[Answer]) -> Answer:
        """Return the answer to *sent*, with a span below the current one, if there is one."""
        above = _current.get()
        # Background work without a span polls several times in a second.
        if above is None or not above.statements_left:
            return await sent
        above.statements_left -= 1
        name = sql.split(None, 1)[0]
        attributes = {"db.system.name": system, "db.query.text": sql[:SQL_CHARS_MAX]}
        opened = self._open(name, above.span, self._api.SpanKind.CLIENT, attributes)
        with _ending(opened):
            return await sent

    def _open(self, name: str, parent: Any, kind: Any, attributes: dict[str, str]) -> OpenSpan:
        context = self._api.set_span_in_context(parent, {})
        span = self._tracer.start_span(name, context, kind=kind, attributes=attributes)
        return OpenSpan(span, self._error)

    def _remote(self, headers: Iterable[tuple[bytes, bytes]]) -> Any:
        found = [value for name, value in headers if name == b"traceparent"]
        ids = parse_traceparent(found[0]) if len(found) == 1 else None
        if ids is None:
            return self._api.INVALID_SPAN
        trace, span, flags = ids
        flags = self._api.TraceFlags(flags)
        return self._api.NonRecordingSpan(self._api.SpanContext(trace, span, True, flags))  # noqa: FBT003


class Active:
    """Holds the tracer of the process; None while traces are off."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Tracer | None = None


active = Active()


def parse_traceparent(value: bytes) -> tuple[int, int, int] | None:
    """Return the ids of the trace and the span, and the flags; None if the form is not valid."""
    found = None if len(value) > TRACEPARENT_BYTES_MAX else _TRACEPARENT.fullmatch(value)
    if found is None or (found[1] == b"00" and found[5] is not None):
        return None
    trace, span, flags = (int(found[group], 16) for group in (2, 3, 4))
    return (trace, span, flags & 1) if trace and span else None


@contextmanager
def span(name: str, **attributes: str) -> Iterator[OpenSpan | None]:
    """Trace the block; the names of *attributes* are those after ``tenantry.``."""
    if active.tracer is None:
        yield None
        return
    named = {f"tenantry.{key}": one for key, one in attributes.items()}
    with _ending(active.tracer.open(name, **named)) as opened:
        yield opened


@contextmanager
def exporting() -> Iterator[None]:
    """Export spans to the collector that the standard variables name, during the block."""
    provider = _provider()
    if provider is None:
        yield
        return
    active.tracer = Tracer(import_module("opentelemetry.trace"), provider)
    try:
        yield
    finally:
        active.tracer = None
        # A collector that does not answer delays the end of the process no longer than this.
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(END_SECONDS_MAX)


@contextmanager
def _ending(opened: OpenSpan) -> Iterator[OpenSpan]:
    try:
        yield opened
    except BaseException as error:
        opened.fail(type(error).__name__)
        raise
    finally:
        opened.end()


def _provider() -> Any:
    """Return what exports spans; None if the variables do not ask for it, or it is not possible."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    has_endpoint = any(map(_variable, names))
    exporter = _variable("OTEL_TRACES_EXPORTER") or (OTLP if has_endpoint else "none")
    if exporter == "none" or _variable("OTEL_SDK_DISABLED").lower() == "true":
        return None
    protocol = _variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    protocol = protocol or _variable("OTEL_EXPORTER_OTLP_PROTOCOL") or HTTP
    if (exporter, protocol) != (OTLP, HTTP):
        _log.warning("no traces: only otlp over http/protobuf is known", asked=[exporter, protocol])
        return None
    try:
        sdk = import_module("opentelemetry.sdk.trace")
        exports = import_module("opentelemetry.sdk.trace.export")
        otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        resources = import_module("opentelemetry.sdk.resources")
    except ImportError:
        _log.warning("no traces: install tenantry[otel]")
        return None
    attributes = {"service.version": VERSION}
    if "service.name=" not in _variable("OTEL_RESOURCE_ATTRIBUTES"):
        attributes["service.name"] = _variable("OTEL_SERVICE_NAME") or "tenantry"
    provider = sdk.TracerProvider(
        resource=resources.Resource.create(attributes), shutdown_on_exit=False
    )
    provider.add_span_processor(exports.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()  # noqa: TID251 - standard variables, not settings
