"""PostgreSQL with a standby: two members of Patroni."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from harness.cluster.programs import (
    Program,
    continue_below,
    kill_below,
    start,
    stop_below,
    wait_until,
)
from testkit.programs import free_port

START_SECONDS_MAX = 90
# The lease of a leader that died must expire first: `ttl`.
PROMOTION_SECONDS_MAX = 60
# `pg_rewind` copies what has changed, and a shared disk is slow: after 15 rounds it took 90 s.
HEALTH_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 30
# The shortest that Patroni accepts, so that more outages fit into an hour.
# Source: `Config.__DEFAULT_CONFIG` and the validator of Patroni 4.1.
TIMES = {"ttl": 20, "loop_wait": 2, "retry_timeout": 3}
# Processes are killed here, never the machine, so nothing that was written is lost.
PARAMETERS = {
    "fsync": "off",
    "unix_socket_directories": "",
    "max_connections": 200,
    "wal_level": "logical",
    "wal_log_hints": "on",
    "max_wal_senders": 6,
    "wal_keep_size": "512MB",
}
OK = 200


@dataclass
class Member:
    """A machine with PostgreSQL and Patroni.

    Attributes:
        name: In the cluster.
        folder: The files of both.
        command: Starts Patroni.
        port: PostgreSQL's.
        api_port: Patroni's.
    """

    name: str
    folder: Path
    command: Sequence[str | Path]
    port: int = field(default_factory=free_port)
    api_port: int = field(default_factory=free_port)
    program: Program | None = None

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        self.program = start(self.folder, self.command, is_unprivileged=True)

    def kill(self) -> None:
        """Kill all its processes at once."""
        kill_below(self.folder)
        if self.program is not None:
            self.program.process.wait()

    def hang(self) -> None:
        """Stop all its processes; their connections stay open."""
        stop_below(self.folder)

    def go_on(self) -> None:
        """Continue after `hang`."""
        continue_below(self.folder)

    def ask(self, path: str, body: dict[str, str] | None = None) -> httpx.Response | None:
        """Return Patroni's response, or None if there is none."""
        url = f"http://127.0.0.1:{self.api_port}{path}"
        try:
            if body is None:
                return httpx.get(url, timeout=2, verify=False)  # noqa: S501 - no TLS here
            return httpx.post(url, json=body, timeout=ANSWER_SECONDS_MAX, verify=False)  # noqa: S501
        except httpx.TransportError:
            return None

    @property
    def is_primary(self) -> bool:
        """Whether Patroni reports that it is the primary."""
        answer = self.ask("/primary")
        return answer is not None and answer.status_code == OK


class Cluster:
    """Two members, one of them the leader, with synchronous replication.

    Args:
        scope: Its name in etcd.
        folder: For the files of its members; it is created.
        patroni: The program.
        binaries: The folder of PostgreSQL's programs.
        etcd_port: The port of etcd.
    """

    def __init__(
        self, scope: str, folder: Path, patroni: Path, binaries: Path, etcd_port: int
    ) -> None:
        folder.mkdir()
        self.members = []
        for number in (1, 2):
            name = f"{scope}{number}"
            member = Member(name, folder / name, [patroni, folder / f"{name}.yml"])
            values = _configuration(scope, member, binaries, etcd_port)
            (folder / f"{name}.yml").write_text(json.dumps(values, indent=1))  # JSON is YAML
            self.members.append(member)

    def start(self) -> None:
        """Start both members, and wait until one replicates the other."""
        self.members[0].start()
        wait_until(
            lambda: self.members[0].is_primary,
            START_SECONDS_MAX,
            f"{self.members[0].name} is no primary",
            self.members[0].program,
        )
        self.members[1].start()
        self.await_standby()

    @property
    def leader(self) -> Member:
        """The member that is the primary."""
        wait_until(self._has_leader, PROMOTION_SECONDS_MAX, "no primary")
        return next(one for one in self.members if one.is_primary)

    def other(self, member: Member) -> Member:
        """Return the other member."""
        return next(one for one in self.members if one is not member)

    def await_standby(self) -> None:
        """Wait until the leader has a synchronous standby, so that a kill loses nothing."""
        wait_until(
            self._has_standby,
            HEALTH_SECONDS_MAX,
            "no synchronous standby",
            self.members[1].program,
        )

    def await_promotion(self, member: Member) -> None:
        """Wait until *member* is the primary."""
        wait_until(
            lambda: member.is_primary,
            PROMOTION_SECONDS_MAX,
            f"{member.name} was not promoted",
            member.program,
        )

    def begin_switchover(self) -> Member:
        """Ask Patroni for a switchover, and return the member that will be the leader."""
        leader = self.leader
        candidate = self.other(leader)
        body = {"leader": leader.name, "candidate": candidate.name}
        # The response comes when it is done.
        threading.Thread(target=leader.ask, args=("/switchover", body), daemon=True).start()
        return candidate

    def _has_leader(self) -> bool:
        return any(one.is_primary for one in self.members)

    def _has_standby(self) -> bool:
        for member in self.members:
            answer = member.ask("/cluster")
            if answer is not None and answer.status_code == OK:
                roles = {one["role"]: one["state"] for one in answer.json()["members"]}
                return "leader" in roles and roles.get("sync_standby") == "streaming"
        return False


def _configuration(scope: str, member: Member, binaries: Path, etcd_port: int) -> dict[str, Any]:
    address = f"127.0.0.1:{member.port}"
    api = f"127.0.0.1:{member.api_port}"
    logins = {
        name: {"username": name, "password": "secret"}
        for name in ("superuser", "replication", "rewind")
    }
    logins["superuser"]["username"] = "postgres"
    dcs = {
        **TIMES,
        "synchronous_mode": True,
        "ignore_slots": [{"type": "logical", "plugin": "pgoutput"}],
        "postgresql": {"use_pg_rewind": True, "parameters": PARAMETERS},
    }
    return {
        "scope": scope,
        "namespace": "/tenantry/",
        "name": member.name,
        "restapi": {"listen": api, "connect_address": api},
        "etcd3": {"host": f"127.0.0.1:{etcd_port}"},
        "bootstrap": {"dcs": dcs, "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}]},
        "postgresql": {
            "listen": address,
            "connect_address": address,
            "data_dir": str(member.folder / "data"),
            "bin_dir": str(binaries),
            "basebackup": [{"checkpoint": "fast"}],
            "authentication": logins,
            "pg_hba": [
                "host replication all 127.0.0.1/32 trust",
                "host all all 127.0.0.1/32 trust",
            ],
        },
    }
