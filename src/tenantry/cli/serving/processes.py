"""Several serving processes below one supervisor, which is uvicorn's.

Each process has its own listening socket (SO_REUSEPORT), so the kernel spreads connections over
them. The supervisor holds all sockets open: connections that a killed process had not accepted
yet wait for the process that replaces it. At SIGHUP the processes are replaced one after another,
each after its successor accepts requests on the same socket.

`tests/unit/test_uvicorn.py` reports when uvicorn's supervisor, which this module extends, has
changed.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from multiprocessing import Pipe
from typing import Any

import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from tenantry.cli.errors import explain
from tenantry.cli.serving import server
from tenantry.kit import log
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.kit.metrics import Metrics
from tenantry.settings import Settings

# The number of processes: far more than the cores of one machine.
PROCESSES_MAX = 64
# How long a process may take from its start to its first request; it migrates the catalog before.
START_SECONDS_MAX = 60
# How long a process may take to answer the supervisor.
PING_SECONDS_MAX = 10
SCRAPE_SECONDS_MAX = 2.0
# The pause before a process that died is replaced: doubled while it dies within the time to start.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.5, 30.0
END_POLL_SECONDS = 0.05
ORPHANED_SECONDS = 1.0

_SCRAPE = b"scrape"

_log = structlog.get_logger(__name__)


class ProcessNotStarted(Unavailable):
    """A serving process could not start, and its message is above; or not within 60 s."""


class ServingProcess(Process):
    """A process that serves on its own socket.

    Its *number*, from 1 on, is also that of its successor.
    """

    def __init__(self, settings: Settings, sockets: list[socket.socket], number: int) -> None:
        self.number = number
        self.started_at = monotonic_seconds()
        self._settings = settings
        self._is_answering = False
        self._supervisor_id = os.getpid()
        self._scrape_conn, self._scraped_conn = Pipe()
        super().__init__(_config(), sockets)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until SIGTERM; this runs in the new process."""
        # A terminal sends SIGINT to its whole process group; the supervisor sends SIGTERM.
        os.setpgrp()
        settings = self._settings
        log.configure(log_format=settings.log_format, level=settings.log_level)
        structlog.contextvars.bind_contextvars(process=self.number)
        self.parent_conn.close()
        self._scrape_conn.close()
        threading.Thread(target=self._answer_pings, daemon=True).start()
        try:
            server.serve(
                settings,
                sockets or [],
                on_answering=lambda _has_admin: self._begin_answering(),
                publish=self._publish,
            )
        except TenantryError as error:
            sys.stderr.write(f"tenantry: error: {explain(error)}\n")
            sys.stderr.flush()
            sys.exit(1 if self._is_answering else STARTUP_FAILURE)

    def scrape(self) -> str | None:
        """Return the metrics of the process; None if it does not answer."""
        try:
            while self._scrape_conn.poll():
                self._scrape_conn.recv_bytes()  # it answered an earlier scrape too late
            self._scrape_conn.send_bytes(_SCRAPE)
            if self._scrape_conn.poll(SCRAPE_SECONDS_MAX):
                return self._scrape_conn.recv_bytes().decode()
        except (OSError, EOFError):
            pass
        return None

    def _begin_answering(self) -> None:
        self._is_answering = True

    def _publish(self, metrics: Metrics) -> Any:
        threading.Thread(target=self._answer_scrapes, args=(metrics,), daemon=True).start()
        return nullcontext()

    def _answer_pings(self) -> None:
        try:
            while True:
                self.child_conn.recv()
                self.child_conn.send(self._is_answering)
        except (OSError, EOFError):
            # The supervisor ends this process, or it has died: the kernel closes its files first.
            time.sleep(ORPHANED_SECONDS)
            if os.getppid() != self._supervisor_id:
                os.kill(os.getpid(), signal.SIGTERM)

    def _answer_scrapes(self, metrics: Metrics) -> None:
        try:
            while True:
                self._scraped_conn.recv_bytes()
                self._scraped_conn.send_bytes(metrics.render())
        except (OSError, EOFError):
            return


class Supervisor(Multiprocess):
    """Starts a process for each of *groups* of sockets, replaces those that die, and ends them.

    *on_answering* is called when all processes accept requests for the first time.
    """

    def __init__(
        self,
        settings: Settings,
        groups: Sequence[list[socket.socket]],
        on_answering: Callable[[], None],
    ) -> None:
        super().__init__(_config(), [])
        self._settings = settings
        self._groups = groups
        self._on_answering = on_answering
        self._pauses = [0.0] * len(groups)
        self._starts_at = [0.0] * len(groups)
        self.has_failed = False
        self.ended_by: signal.Signals | None = None
        self.replaced_count = 0

    def init_processes(self) -> None:
        """Start all processes, and wait until they accept requests."""
        self.processes = [self._new(number) for number in range(len(self._groups))]
        for process in self.processes:
            if not self._becomes_ready(process):
                self.has_failed = not self._should_end()
                self.handle_signals()
                self.should_exit.set()
                return
        self._on_answering()

    def keep_subprocess_alive(self) -> None:
        """Replace each process that has died, or does not answer the supervisor."""
        for number, process in enumerate(self.processes):
            if self.should_exit.is_set() or process.is_alive(timeout=PING_SECONDS_MAX):
                continue
            if process.exitcode is None or self._starts_at[number] == 0.0:
                process.kill()
                process.join()
                self._plan_start(number, process)
            if monotonic_seconds() >= self._starts_at[number]:
                self._starts_at[number] = 0.0
                self.replaced_count += 1
                self.processes[number] = self._new(number)

    def restart_all(self) -> None:
        """Replace the processes one after another; each ends after its successor is ready."""
        for number, old in enumerate(self.processes):
            new = self._new(number)
            if not self._becomes_ready(new):
                new.kill()
                new.join()
                if not self._should_end():
                    _log.error(
                        "the restart has stopped, a process did not start", process=number + 1
                    )
                return
            self.processes[number] = new
            old.terminate()
            old.join()
        _log.info("restarted", processes=len(self.processes))

    def join_all(self) -> None:
        """Wait until all processes have ended; another signal interrupts their work."""
        self.signal_queue.clear()
        while any(process.process.is_alive() for process in self.processes):
            if self._should_end():
                self.signal_queue.clear()
                for process in self.processes:
                    if process.process.is_alive() and process.pid is not None:
                        os.kill(process.pid, signal.SIGTERM)
            time.sleep(END_POLL_SECONDS)

    def handle_int(self) -> None:
        """End, as at SIGTERM."""
        self._end(signal.SIGINT)

    def handle_term(self) -> None:
        """End: each process finishes its requests within the usual time."""
        self._end(signal.SIGTERM)

    def handle_ttin(self) -> None:
        """Do nothing, as at SIGTTOU: the number of processes is fixed."""

    handle_ttou = handle_ttin

    def _end(self, by: signal.Signals) -> None:
        self.ended_by = by
        self.should_exit.set()

    def _should_end(self) -> bool:
        return bool({signal.SIGTERM, signal.SIGINT}.intersection(self.signal_queue))

    def _new(self, number: int) -> ServingProcess:
        process = ServingProcess(self._settings, self._groups[number], number + 1)
        process.start()
        return process

    def _plan_start(self, number: int, process: Process) -> None:
        """Set the time of the next start: later if the process has died soon after its own."""
        assert isinstance(process, ServingProcess)
        now = monotonic_seconds()
        is_early = now - process.started_at < START_SECONDS_MAX
        pause = self._pauses[number] if is_early else 0.0
        self._starts_at[number] = now + pause
        self._pauses[number] = min(max(2 * pause, PAUSE_SECONDS), PAUSE_SECONDS_MAX)
        _log.error(
            "a serving process has ended, it is replaced",
            process=number + 1,
            exit_code=process.exitcode,
        )

    def _becomes_ready(self, process: Process) -> bool:
        ends = monotonic_seconds() + START_SECONDS_MAX
        while not self._should_end() and process.process.is_alive():
            if process.is_ready(timeout=1):
                return True
            if monotonic_seconds() > ends:
                break
            time.sleep(END_POLL_SECONDS)
        return False


class AllProcesses(Collector):
    """The metrics of all processes, each with the label ``process``."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._one_at_a_time = threading.Lock()
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Ask every process, and yield the metrics of those that answer."""
        found: dict[str, Metric] = {}
        answering = 0
        with self._one_at_a_time:
            for process in list(self._supervisor.processes):
                assert isinstance(process, ServingProcess)
                text = process.scrape()
                if text is None:
                    continue
                answering += 1
                for family in text_string_to_metric_families(text):
                    metric = found.setdefault(
                        family.name, Metric(family.name, family.documentation, family.type)
                    )
                    metric.samples += [
                        one._replace(labels={**one.labels, "process": str(process.number)})
                        for one in family.samples
                    ]
        yield from found.values()
        yield GaugeMetricFamily("tenantry_processes", "Serving processes that answer.", answering)
        yield CounterMetricFamily(
            "tenantry_replaced_processes",
            "Serving processes that ended by themselves, and were replaced.",
            self._supervisor.replaced_count,
        )


def serve_all(
    settings: Settings,
    groups: Sequence[list[socket.socket]],
    *,
    on_answering: Callable[[], None],
) -> signal.Signals | None:
    """Serve with a process for each of *groups* of sockets until a signal; return the signal.

    *on_answering* is called when all processes accept requests.

    Raises:
        ProcessNotStarted: A process could not start at the beginning; it has printed why.
        AddressUnusable: The metrics port is in use.
    """
    own = settings.model_copy(update={"metrics_port": 0})
    supervisor = Supervisor(own, groups, on_answering)
    metrics = AllProcesses(supervisor).registry
    with server.serving_metrics(settings, metrics):
        supervisor.run()
    if supervisor.has_failed:
        raise ProcessNotStarted
    return supervisor.ended_by


def _config() -> uvicorn.Config:
    """Return what uvicorn's supervisor needs; the processes have a configuration of their own."""
    return uvicorn.Config("", log_config=None, log_level="warning")
