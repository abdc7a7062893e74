"""The installation below the service: etcd, Patroni, HAProxy, PgBouncer and plain servers."""

import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from harness.cluster.patroni import Cluster
from harness.cluster.programs import Program, start, wait_until
from harness.processes import ROOT
from testkit import postgres as launcher
from testkit.programs import free_port

PATRONI = ROOT / ".cluster" / "tools" / "bin" / "patroni"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
START_SECONDS_MAX = 30
# HAProxy takes its servers in turn.
CONNECTIONS = 4
ROLE = "tenantry"
CATALOG = "tenantry_catalog"
# The rights are those that an online move needs.
ROLE_SQL = (
    f"CREATE ROLE {ROLE} LOGIN CREATEDB REPLICATION",
    f"GRANT SET ON PARAMETER session_replication_role TO {ROLE}",
)
# The checks of a primary are those of docs/howto/run-on-patroni.md.
HAPROXY = """
global
    maxconn 2000
defaults
    mode tcp
    retries 2
    timeout connect 2s
    timeout check 1s
    timeout client 60m
    timeout server 60m
    option clitcpka
    option srvtcpka
"""
LISTEN = """
listen {name}
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
"""
PGBOUNCER = """
[databases]
* = host=127.0.0.1 port={server} user={role}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_prepared_statements = 200
default_pool_size = 4
max_client_conn = 2000
server_idle_timeout = 60
server_login_retry = 1
"""


class ProgramMissing(Exception):
    """A program of the installation is not on this machine."""


@dataclass(frozen=True)
class Ports:
    """The ports that the service connects to."""

    catalog: int
    tenants: int
    pooler: int


class Stack:
    """Everything below the service.

    Args:
        folder: For all files and processes; see `programs.scratch`.
        plain_servers: How many PostgreSQL servers without a standby.
        pgbouncer: The program, of version 1.21 or newer.

    Attributes:
        catalog: The cluster of the catalog.
        tenants: The cluster of the tenant server ``default``.
        plain: The other tenant servers, by name.
    """

    def __init__(self, folder: Path, plain_servers: int, pgbouncer: Path) -> None:
        self._folder = folder
        self._pgbouncer = pgbouncer
        programs = folder / "programs"
        programs.mkdir()
        run_as = launcher.unprivileged(programs)
        self._binaries = launcher.reachable(launcher.find_binaries(), programs, run_as)
        _check_readable(run_as)
        self._etcd_port, self._peer_port = free_port(), free_port()
        self.catalog = self._cluster("catalog")
        self.tenants = self._cluster("tenants")
        self.plain: dict[str, launcher.Server] = {
            f"plain{number}": self._plain_server(number) for number in range(1, plain_servers + 1)
        }
        self._ports = Ports(free_port(), free_port(), free_port())
        self._etcd: Program | None = None
        self._pooler: Program | None = None

    def start(self) -> None:
        """Start everything, and create the role and the database of the catalog."""
        self.start_etcd()
        for cluster in (self.catalog, self.tenants):
            cluster.start()
        for server in self.plain.values():
            server.create()
        self._start_haproxy()
        self.start_pooler()
        for cluster in (self.catalog, self.tenants):
            _run(cluster.leader.port, *ROLE_SQL)
        for server in self.plain.values():
            _run(server.port, *ROLE_SQL)
        _run(self.catalog.leader.port, f"CREATE DATABASE {CATALOG} OWNER {ROLE} TEMPLATE template0")

    @property
    def catalog_url(self) -> str:
        """The URL of the catalog, through HAProxy."""
        return _url(self._ports.catalog, CATALOG)

    @property
    def tools(self) -> Path:
        """The folder of PostgreSQL's programs."""
        return self._binaries

    def url_of(self, server: str, database: str) -> str:
        """Return the URL of a database of a tenant server, as requests use it."""
        return self.tenant_servers[server]["url"].rpartition("/")[0] + f"/{database}"

    @property
    def tenant_servers(self) -> Mapping[str, Mapping[str, str]]:
        """The tenant servers, as in `TENANTRY_TENANT_SERVERS`.

        Requests to the server ``default`` go through PgBouncer and HAProxy, everything else
        through HAProxy.
        """
        default = {"url": _url(self._ports.pooler), "admin_url": _url(self._ports.tenants)}
        plain = {name: {"url": _url(server.port)} for name, server in self.plain.items()}
        return {"default": default, **plain}

    def start_etcd(self) -> None:
        """Start etcd."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        self._etcd = start(
            self._folder / "etcd",
            [
                *(_found("etcd"), "--name", "one", "--data-dir", "data"),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"one={peer}"),
            ],
        )
        _await_port(self._etcd_port, self._etcd)

    def kill_etcd(self) -> None:
        """Kill etcd."""
        assert self._etcd is not None
        self._etcd.process.kill()
        self._etcd.process.wait()

    def start_pooler(self) -> None:
        """Start PgBouncer."""
        folder = self._folder / "pgbouncer"
        folder.mkdir(exist_ok=True)
        text = PGBOUNCER.format(server=self._ports.tenants, port=self._ports.pooler, role=ROLE)
        (folder / "pgbouncer.ini").write_text(text)
        self._pooler = start(folder, [self._pgbouncer, "-q", "pgbouncer.ini"], is_unprivileged=True)
        _await_port(self._ports.pooler, self._pooler)

    def kill_pooler(self) -> None:
        """Kill PgBouncer."""
        assert self._pooler is not None
        self._pooler.process.kill()
        self._pooler.process.wait()

    def _cluster(self, scope: str) -> Cluster:
        return Cluster(scope, self._folder / scope, PATRONI, self._binaries, self._etcd_port)

    def _plain_server(self, number: int) -> launcher.Server:
        folder = self._folder / f"plain{number}"
        folder.mkdir()
        # Without the setting of the tests that loses the last commits in a crash.
        settings = launcher.SETTINGS.replace("synchronous_commit = off", "synchronous_commit = on")
        settings += "wal_level = logical\n"
        return launcher.Server(self._binaries, folder, launcher.unprivileged(folder), settings)

    def _start_haproxy(self) -> None:
        text = HAPROXY
        for cluster, port in (
            (self.catalog, self._ports.catalog),
            (self.tenants, self._ports.tenants),
        ):
            text += LISTEN.format(name=f"port{port}", port=port)
            for one in cluster.members:
                text += f"    server {one.name} 127.0.0.1:{one.port} check port {one.api_port}\n"
        folder = self._folder / "haproxy"
        folder.mkdir()
        (folder / "haproxy.cfg").write_text(text)
        program = start(folder, [_found("haproxy"), "-db", "-f", "haproxy.cfg"])
        for port in (self._ports.catalog, self._ports.tenants):
            _await_port(port, program)
            _await_primary(port, program)


def versions(pgbouncer: Path) -> str:
    """Return the versions of the programs."""
    commands: dict[str, list[str | Path]] = {
        "etcd": ["etcd", "--version"],
        "HAProxy": ["haproxy", "-v"],
        "PgBouncer": [pgbouncer, "--version"],
        "Patroni": [PATRONI, "--version"],
        "PostgreSQL": [launcher.find_binaries() / "postgres", "--version"],
    }
    found = []
    for name, command in commands.items():
        output = subprocess.check_output(command, text=True, env={"PATH": PATH})
        number = re.search(r"\d+(\.\d+)+", output)
        assert number is not None, output
        found.append(f"{name} {number[0]}")
    return ", ".join(found)


def _check_readable(run_as: Mapping[str, Any]) -> None:
    try:
        subprocess.run([PATRONI, "--version"], check=True, capture_output=True, **run_as)
    except OSError as error:
        raise ProgramMissing(f"{PATRONI} cannot be run by an ordinary user: {error}.") from error


def _found(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        raise ProgramMissing(f"Needs {name}: make cluster installs it, when root.")
    return found


def _url(port: int, database: str = "postgres") -> str:
    return f"postgresql://{ROLE}@127.0.0.1:{port}/{database}"


def _run(port: int, *statements: str) -> None:
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with psycopg.connect(url, autocommit=True) as connection:
        for sql in statements:
            connection.execute(sql.encode())


def _await_port(port: int, program: Program) -> None:
    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    wait_until(answers, START_SECONDS_MAX, f"nothing listens on {port}", program)


def _await_primary(port: int, program: Program) -> None:
    """Wait until HAProxy knows the standby: until its first checks, it sends connections there."""

    def leads() -> bool:
        with suppress(psycopg.OperationalError):
            return all(_is_primary(port) for _ in range(CONNECTIONS))
        return False

    wait_until(leads, START_SECONDS_MAX, f"not only the primary answers on {port}", program)


def _is_primary(port: int) -> bool:
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,)
