"""Serve the application until a signal: reserve the port, lock the data folder, stop in order."""

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import structlog
import uvicorn
from prometheus_client import CollectorRegistry

from tenantry.api.http.connections import ConnectionLimits, Connections
from tenantry.api.http.protocol import protocol_for
from tenantry.api.streaming import ResponseAborted
from tenantry.app import app_over, open_access_log
from tenantry.catalog import admins
from tenantry.cli.serving import metrics_port, signals
from tenantry.fleet.worker import Worker
from tenantry.kit import private, process, tracing
from tenantry.kit.errors import Unavailable
from tenantry.kit.metrics import Metrics
from tenantry.services import Services, open_services
from tenantry.settings import Settings

LOCK_FILE = "serve.lock"
PID_CHARS_MAX = 20
BACKLOG = 2048
# What the kernel takes of a response before the client has room for it. By default it takes
# megabytes for each connection, which the limit on unread responses does not count.
UNSENT_BYTES_MAX = 131_072
# How long active requests may continue after a signal; see `signals` for the rest.
GRACE_SECONDS = 10
# Open files of one database connection: a SQLite file, its log and its index.
FILES_PER_DATABASE = 3
FILES_RESERVED = 64
# Each connection takes some 20 KB.
CONNECTIONS_MAX = 10_000
CONNECTIONS_MIN = 16
# A name can have an address of a family that this machine does not support.
NO_SUCH_ADDRESS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}

_log = structlog.get_logger(__name__)


Publish = Callable[[Metrics], AbstractContextManager[None]]
Opening = Callable[[Settings], AbstractAsyncContextManager[Services]]
Announce = Callable[[bool], None]
"""Called when the server accepts requests, with whether there is an admin."""


class AddressUnusable(Unavailable):
    """The address to listen on cannot be used; the message has the reason."""


class FolderInUse(Unavailable):
    """Another process serves this data folder; the message has its id."""


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers, and with a worker that stops when it does."""

    def __init__(
        self, config: uvicorn.Config, worker: Worker, on_answering: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._worker = worker
        self._on_answering = on_answering
        self._stopping: asyncio.Task[None] | None = None

    def begin_to_stop(self) -> None:
        """Stop the server, and the worker at once: a request can wait for a migration."""
        self.should_exit = True
        self._stopping = asyncio.create_task(self._worker.stop())

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `signals` handles them before the server starts and after it ends."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and call `on_answering`."""
        try:
            await super().startup(sockets)
        except OSError as error:
            raise _unusable(self.config.host, self.config.port, error, "--port") from error
        self._on_answering()


def serve(
    settings: Settings,
    sockets: Sequence[socket.socket],
    *,
    on_answering: Announce,
    grace_seconds: int = GRACE_SECONDS,
    publish: Publish | None = None,
    opening: Opening = open_services,
) -> signal.Signals | None:
    """Serve on *sockets* until a signal arrives; return the signal.

    After the first signal, tenants in work are finished, and then the process ends. A second
    signal interrupts them.

    Args:
        settings: The settings of this process.
        sockets: Bound sockets; closed when this returns.
        on_answering: See `Announce`.
        grace_seconds: How long active requests may continue after the signal.
        publish: Publishes the metrics while requests are served; `serving_metrics` by default.
        opening: Opens the services.

    Raises:
        AddressUnusable: Another process began to listen on the address first.
        CatalogUnusable, WrongSecretKey: As for `open_services`.
    """
    publish = publish or (lambda metrics: serving_metrics(settings, metrics.registry))
    return process.run(
        _serve(settings, sockets, on_answering, grace_seconds, publish, opening=opening)
    )


@contextmanager
def listening(host: str, port: int, count: int = 1) -> Iterator[list[list[socket.socket]]]:
    """Yield sockets of *count* processes, bound to the address before any other work.

    Raises:
        AddressUnusable: It is in use, or not an address of this machine.
    """
    with contextlib.ExitStack() as stack:
        try:
            if count > 1:
                # Sockets with SO_REUSEPORT would share the port with another Tenantry.
                with contextlib.ExitStack() as alone:
                    _bind(alone, host, port)
            groups = [_bind(stack, host, port, is_shared=count > 1) for _ in range(count)]
        except OSError as error:
            raise _unusable(host, port, error, "--port") from error
        yield groups


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder during the block; the kernel releases it after a kill.

    Raises:
        FolderInUse: Another process holds it.
    """
    private.make_folder(folder)
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(handle, PID_CHARS_MAX).decode(errors="replace").strip()
            raise FolderInUse(
                f"The process {holder or '(unknown)'} serves the data folder {folder}: "
                "stop it first, or use another folder."
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)


@contextmanager
def serving_metrics(settings: Settings, registry: CollectorRegistry) -> Iterator[None]:
    """Serve metrics without credentials during the block, if the settings have a port.

    They are served by threads, so they are available while the event loop is blocked.

    Raises:
        AddressUnusable: The address is in use, or not one of this machine.
    """
    host, port = settings.metrics_host, settings.metrics_port
    if not port:
        yield
        return
    try:
        server = metrics_port.bound(host, port, registry)
    except OSError as error:
        raise _unusable(host, port, error, "TENANTRY_METRICS_PORT") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def _serve(
    settings: Settings,
    sockets: Sequence[socket.socket],
    on_answering: Announce,
    grace_seconds: int,
    publish: Publish,
    *,
    opening: Opening,
) -> signal.Signals | None:
    logging.getLogger("uvicorn.error").addFilter(is_logged)
    server: _Server | None = None

    def begin_to_stop() -> None:
        if server is not None:
            server.begin_to_stop()

    with signals.handled(begin_to_stop) as stop, tracing.exporting():
        async with opening(settings) as services:
            access_log = open_access_log(settings)
            app = app_over(services, access_log)
            process.settle()
            connections = Connections(limits_of(settings), services.metrics)
            config = _config(app, settings, connections, grace_seconds)
            has_admin = bool(await admins.every(services.catalog))
            server = _Server(config, services.worker, partial(on_answering, has_admin))
            if stop.received:
                server.begin_to_stop()
            with publish(services.metrics), access_log.holding():
                async with connections.checked():
                    await server.serve(list(sockets))
            _log.info("stopping", tenants_in_work=not services.worker.is_idle)
    return stop.received


def is_logged(record: logging.LogRecord) -> bool:
    """Return whether uvicorn logs *record*: the API has logged an aborted response."""
    return not (record.exc_info and isinstance(record.exc_info[1], ResponseAborted))


def limits_of(settings: Settings) -> ConnectionLimits:
    """Return the limits of client connections, within the limit of open files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        files = CONNECTIONS_MAX
    databases = (
        settings.catalog_connections
        + sum(map(settings.connections_of, settings.servers.values()))
        + settings.threads_max
    )
    free = max(files - databases * FILES_PER_DATABASE - FILES_RESERVED, CONNECTIONS_MIN)
    total = min(settings.connections or CONNECTIONS_MAX, free, CONNECTIONS_MAX)
    if total < settings.connections:
        _log.warning("fewer connections than TENANTRY_CONNECTIONS", connections=total, files=files)
    return ConnectionLimits(
        total=total,
        per_address=settings.connections_per_address,
        exempt=tuple(settings.proxy_networks),
    )


def _config(
    app: object, settings: Settings, connections: Connections, grace_seconds: int
) -> uvicorn.Config:
    proxies = settings.trusted_proxies
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        loop="uvloop",
        http=protocol_for(connections),  # type: ignore[arg-type] # a class is only called, too
        host=settings.host,
        port=settings.port,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or None,
        backlog=BACKLOG,
        timeout_graceful_shutdown=grace_seconds,
    )


def _bind(
    stack: contextlib.ExitStack, host: str, port: int, *, is_shared: bool = False
) -> list[socket.socket]:
    """Return a bound socket for each address of *host* that this machine has; *stack* closes it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in dict.fromkeys((one[0], one[4]) for one in found):
        try:
            bound = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            _set_options(bound, is_shared=is_shared)
            bound.bind(address)
            sockets.append(bound)
        except OSError as error:
            if error.errno not in NO_SUCH_ADDRESS:
                raise
            missing = error
    if missing is not None and not sockets:
        raise missing
    return sockets


def _set_options(unbound: socket.socket, *, is_shared: bool) -> None:
    # Ignore connections in TIME_WAIT of an earlier process.
    unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # Inherited by the connections.
    unbound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
    if unbound.family is socket.AF_INET6:
        unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)


def _unusable(host: str, port: int, error: OSError, chosen_by: str) -> AddressUnusable:
    if error.errno == errno.EADDRINUSE:
        return AddressUnusable(
            f"Port {port} of {host} is in use: stop the process that listens there, "
            f"or set another {chosen_by}."
        )
    return AddressUnusable(f"Cannot listen on port {port} of {host}: {error.strerror}.")
