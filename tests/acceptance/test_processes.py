"""``tenantry serve --workers``: several processes on one port, restarted without a failure."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenantry.settings import Settings
from testkit.programs import (
    Program,
    free_port,
    only_line,
    run,
    running,
    variables,
)
from tests.acceptance.commands import Commands
from tests.integration.engines import on_postgresql, on_sqlite

pytestmark = pytest.mark.slow

PROCESSES = 2
CLIENTS = 4
REQUESTS = 100
# Also of a busy machine: two processes start, one after the other.
REPLACED_SECONDS_MAX = 100.0
REQUEST = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@dataclass
class Load:
    """Clients that send one request after another, each on a new connection."""

    port: int
    answered: int = 0
    failures: list[str] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def sent(self) -> Iterator["Load"]:
        clients = [threading.Thread(target=self._send) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            yield self
        finally:
            self._ends.set()
            for client in clients:
                client.join()

    def wait_for_more(self, count: int = REQUESTS) -> None:
        wanted = self.answered + count
        wait_until(lambda: self.answered >= wanted)

    def _send(self) -> None:
        while not self._ends.is_set():
            answer = exchange(self.port)
            if answer.startswith(b"HTTP/1.1 200 "):
                self.answered += 1
            else:
                self.failures.append(answer.decode(errors="replace") or "closed")


def exchange(port: int) -> bytes:
    """Return the answer to one request; what failed, if it has none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(REQUEST)
            answer = b""
            while data := client.recv(4096):
                answer += data
            return answer
    except OSError as error:
        return str(error).encode()


def wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + REPLACED_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.05)


def serving_ids(program: Program) -> set[int]:
    """Return the ids of the serving processes."""
    parent = program.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = {int(child) for child in children}
    return {one for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()}


def is_alive(process_id: int) -> bool:
    """Return whether a process has not ended yet; its parent may not have waited for it."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@dataclass(frozen=True)
class Served:
    """Several processes that serve."""

    program: Program
    port: int
    metrics_port: int

    def read(self) -> "Metrics":
        """Return the metrics of this moment: of a process that is late, there are none."""
        text = httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60).text
        names = ("requests", "processes", "replaced_processes")
        sums: dict[str, dict[str, float]] = {f"tenantry_{name}": {} for name in names}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if (found := sums.get(sample.name.removesuffix("_total"))) is not None:
                    process = sample.labels.get("process", "")
                    found[process] = found.get(process, 0) + sample.value
        requests, processes, replaced = sums.values()
        return Metrics(requests, int(processes[""]), int(replaced.get("", 0)))

    def read_of_all(self) -> "Metrics":
        """Return the first metrics in which no process is late."""
        while (found := self.read()).processes != PROCESSES:
            time.sleep(0.05)
        return found


@dataclass(frozen=True)
class Metrics:
    """How many requests each process has answered, and how many processes there are.

    Attributes:
        replaced: How many of them have replaced others.
    """

    requests: dict[str, float]
    processes: int
    replaced: int


@pytest.fixture(name="served")
def _served(settings: Settings, elsewhere: Path) -> Iterator[Served]:
    port, metrics_port = free_port(), free_port()
    environment = variables(settings) | {"TENANTRY_METRICS_PORT": str(metrics_port)}
    arguments = ("serve", "--workers", str(PROCESSES), "--port", str(port))
    with running(elsewhere, *arguments, **environment) as program:
        program.wait_for("^Tenantry answers at")
        yield Served(program, port, metrics_port)
        if program.process.poll() is None:
            program.end()


@on_sqlite
class TestOnSqlite:
    def test_is_refused(self, settings: Settings, elsewhere: Path):
        ended = run(elsewhere, "serve", "--workers", "2", **variables(settings))

        assert ended.returncode == 2
        assert "With a SQLite catalog, one process serves" in only_line(ended.stderr)


@on_postgresql
class TestServe:
    def test_spreads_connections_and_shows_all_metrics(self, served: Served):
        with Load(served.port).sent() as load:
            load.wait_for_more()
            wait_until(lambda: all(served.read().requests.get(one) for one in ("1", "2")))
        found = served.read_of_all()

        assert not load.failures
        assert set(found.requests) == {"1", "2"}
        assert sum(found.requests.values()) >= load.answered

    def test_shows_the_metrics_of_now_after_a_process_was_silent(self, served: Served):
        """Not those that the process sent too late."""
        silent = min(serving_ids(served.program))
        os.kill(silent, signal.SIGSTOP)
        try:
            wait_until(lambda: served.read().processes == PROCESSES - 1)
        finally:
            os.kill(silent, signal.SIGCONT)
        served.read_of_all()
        with Load(served.port).sent() as load:
            load.wait_for_more()

        assert sum(served.read_of_all().requests.values()) >= load.answered

    def test_replaces_a_killed_process(self, served: Served):
        """Only the requests that it had in work fail: at most one of each client."""
        before = serving_ids(served.program)
        with Load(served.port).sent() as load:
            load.wait_for_more()
            os.kill(min(before), signal.SIGKILL)
            wait_until(lambda: served.read().processes == PROCESSES)
            wait_until(lambda: len(serving_ids(served.program) - before) == 1)
            load.wait_for_more()

        assert len(load.failures) <= CLIENTS, load.failures
        assert served.read().replaced == 1
        assert "a serving process has ended" in served.program.stderr

    def test_is_restarted_without_a_failed_request(self, served: Served):
        before = serving_ids(served.program)
        with Load(served.port).sent() as load:
            load.wait_for_more()
            served.program.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "restarted" in served.program.stderr)
            load.wait_for_more()

        assert not load.failures
        assert not before & serving_ids(served.program)

    def test_ends_at_sigterm(self, served: Served):
        """With all processes, and after their requests."""
        processes = serving_ids(served.program)
        with Load(served.port).sent() as load:
            load.wait_for_more()
            assert served.program.end() == 0

        assert not any(map(is_alive, processes))

    def test_ends_with_its_supervisor(self, served: Served):
        processes = serving_ids(served.program)
        served.program.process.kill()
        served.program.process.wait()

        wait_until(lambda: not any(map(is_alive, processes)))

    def test_reserves_its_port(self, served: Served, settings: Settings, elsewhere: Path):
        arguments = ("serve", "--workers", "2", "--port", str(served.port))
        ended = run(elsewhere, *arguments, **variables(settings))

        assert ended.returncode == 3
        assert f"Port {served.port} of 127.0.0.1 is in use" in ended.stderr


@on_postgresql
class TestStart:
    def test_that_fails_ends_the_supervisor(self, tenantry: Commands):
        """It stops trying with settings that cannot work."""
        environment = tenantry.environment | {
            "TENANTRY_CATALOG_URL": f"postgresql://127.0.0.1:{free_port()}/x"
        }
        ended = run(
            tenantry.folder, "serve", "--workers", "2", "--port", str(free_port()), **environment
        )

        assert ended.returncode == 3
        assert "The catalog cannot be used" in ended.stderr
