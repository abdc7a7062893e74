"""compose.yaml is valid for Compose, and its processes serve behind its proxy."""

import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from testkit import postgres, programs
from testkit.programs import Program, environment_of, free_port
from tests.deploy.tools import BIN, DEPLOY, run, tool

COMPOSE = DEPLOY / "compose"
ADMIN = "Ada@Example.com"
START_SECONDS_MAX = 300  # on a busy machine


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return installed(tmp_path)


def installed(tmp_path: Path) -> Path:
    """Return what an operator has: the files, with secrets and the values of the example."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    folder = tmp_path / "deploy" / "compose"
    shutil.copy(folder / ".env.example", folder / ".env")
    run(str(folder / "secrets.sh"))
    return folder


def composed(folder: Path) -> Any:
    """Return what Compose makes of the file, with all defaults."""
    file = ("--file", str(folder / "compose.yaml"))
    return yaml.safe_load(tool("docker-compose", *file, "config"))


def secret(folder: Path, name: str) -> str:
    return (folder / "secrets" / name).read_text(encoding="utf-8").strip()


class TestFiles:
    def test_compose_accepts_the_file(self, folder: Path):
        services = composed(folder)["services"]

        assert services["api-1"]["depends_on"]["migrate"]["condition"] == (
            "service_completed_successfully"
        )
        assert services["api-1"]["user"] == "10001:10001"

    def test_compose_needs_an_admin(self, folder: Path):
        (folder / ".env").unlink()
        command = [BIN / "docker-compose", "--file", folder / "compose.yaml", "config"]

        refused = subprocess.run(command, capture_output=True, text=True, check=False)

        assert refused.returncode != 0
        assert "ADMIN_EMAIL" in refused.stderr

    def test_secrets_are_kept(self, folder: Path):
        """Nobody else can open their folder, and another call changes none."""
        files = sorted((folder / "secrets").iterdir())
        before = [one.read_text(encoding="utf-8") for one in files]

        run(str(folder / "secrets.sh"))

        assert [one.read_text(encoding="utf-8") for one in files] == before
        assert len(set(before)) == len(before)
        assert (folder / "secrets").stat().st_mode & 0o777 == 0o700

    def test_caddy_accepts_its_file(self):
        file = ("--config", str(COMPOSE / "Caddyfile"), "--adapter", "caddyfile")

        tool("caddy", "validate", *file)
        tool("caddy", "fmt", "--diff", str(COMPOSE / "Caddyfile"))

    def test_scripts_have_no_fault_that_shellcheck_knows(self):
        tool("shellcheck", *map(str, sorted(DEPLOY.rglob("*.sh"))))


@dataclass(frozen=True)
class Stack:
    """The processes of compose.yaml, without containers.

    Attributes:
        folder: The folder of compose.yaml.
        client: Speaks TLS with Caddy, and trusts only its authority.
        first: One of the two serving processes.
        metrics: The URL of the worker's metrics.
        work: The working folder of its commands.
        migrated: The output of the service `migrate`, which has run twice.
    """

    folder: Path
    work: Path
    client: httpx.Client
    first: Program
    metrics: str
    migrated: str


@pytest.fixture(name="stack", scope="module")
def _stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    tmp_path = tmp_path_factory.mktemp("stack")
    folder = installed(tmp_path)
    services = composed(folder)["services"]
    with ExitStack() as stack:
        server = stack.enter_context(postgres.own_server())
        create_role(server.port, folder)
        work = tmp_path / "data"
        work.mkdir()
        (work / ".env").write_text(
            secret(folder, "tenantry.env").replace("@postgres/", f"@127.0.0.1:{server.port}/"),
            encoding="utf-8",
        )
        migrated = migrate(work, folder) + migrate(work, folder)
        processes, ports, metrics = [], [], []
        for name in ("api-1", "api-2", "worker"):
            ports.append(free_port())
            metrics.append(free_port())
            settings = services[name]["environment"] | {
                "TENANTRY_PORT": str(ports[-1]),
                "TENANTRY_METRICS_PORT": str(metrics[-1]),
                "TENANTRY_METRICS_HOST": "127.0.0.1",
                "TENANTRY_TRUSTED_PROXIES": "127.0.0.1",
            }
            running = programs.running(work, *services[name]["command"], **settings)
            processes.append(stack.enter_context(running))
        upstreams = " ".join(f"127.0.0.1:{port}" for port in ports[:2])
        client = stack.enter_context(proxied(stack, tmp_path / "caddy", upstreams))
        until(lambda: client.get("/readyz").is_success)
        yield Stack(
            folder, work, client, processes[0], f"http://127.0.0.1:{metrics[-1]}/metrics", migrated
        )


def create_role(port: int, folder: Path) -> None:
    """Run what the image of PostgreSQL runs when it has no data."""
    run(
        str(folder / "postgres.sh"),
        environment={
            "PATH": f"{postgres.find_binaries()}:/usr/bin:/bin",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(port),
            "POSTGRES_USER": "postgres",
            "DATABASE_PASSWORD_FILE": str(folder / "secrets" / "database_password"),
        },
    )


def migrate(work: Path, folder: Path) -> str:
    """Run what the service `migrate` runs before the others."""
    done = subprocess.run(
        [DEPLOY / "migrate.sh"],
        cwd=work,
        env=environment_of(
            ADMIN_EMAIL=ADMIN,
            ADMIN_PASSWORD_FILE=str(folder / "secrets" / "admin_password"),
            PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin",
        ),
        capture_output=True,
        text=True,
        timeout=START_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def proxied(stack: ExitStack, folder: Path, upstreams: str) -> httpx.Client:
    """Start Caddy in front of *upstreams*, and return a client that trusts its authority."""
    folder.mkdir()
    https, http, health = free_port(), free_port(), free_port()
    command = ["run", "--config", str(COMPOSE / "Caddyfile"), "--adapter", "caddyfile"]
    caddy = subprocess.Popen(
        [BIN / "caddy", *command],
        env={
            "PATH": "/usr/bin:/bin",
            "SITE": "localhost",
            "UPSTREAMS": upstreams,
            "HTTPS_PORT": str(https),
            "HTTP_PORT": str(http),
            "HEALTH_PORT": str(health),
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        },
    )
    stack.callback(caddy.wait)
    stack.callback(caddy.terminate)
    root = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    until(root.exists)
    until(lambda: httpx.get(f"http://127.0.0.1:{health}/").is_success)
    trusted = ssl.create_default_context(cafile=str(root))
    return httpx.Client(base_url=f"https://localhost:{https}", verify=trusted, timeout=30)


def until(condition: Any) -> None:
    """Wait until *condition* is true; an error of the connection is not."""
    ends = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            if condition():
                return
            why = "not yet"
        except httpx.TransportError as error:
            why = repr(error)
        assert time.monotonic() < ends, why
        time.sleep(0.1)


@pytest.mark.timeout(1800)
class TestStack:
    def test_limits_what_a_client_sends(self, stack: Stack):
        """The proxy rejects a body above its limit, before a process reads it."""
        large = b" " * 3_000_000

        assert stack.client.post("/api/admin/auth/login", content=large).status_code == 413

    def test_serves_behind_its_proxy_although_a_process_dies(self, stack: Stack):
        """The first admin logs in, and no request fails when one of two processes is killed."""
        client = stack.client
        password = secret(stack.folder, "admin_password")

        assert stack.migrated.count(f"admin   {ADMIN}") == 1
        login = client.post("/api/admin/auth/login", json={"email": ADMIN, "password": password})
        assert login.status_code == 200, login.text
        client.headers["Authorization"] = f"Bearer {login.json()['data']['token']}"
        created = client.post(
            "/api/admin/tenants",
            json={
                "name": "Acme",
                "owner": {
                    "email": "grace@acme.example.com",
                    "fullName": "Grace Hopper",
                    "password": password,
                },
            },
        )
        assert created.status_code == 201, created.text

        migrate(stack.work, stack.folder)

        stack.first.process.kill()
        answers = [client.get("/api/admin/tenants") for _ in range(20)]

        assert {one.status_code for one in answers} == {200}
        assert re.search(r"^tenantry_tenants_behind 0", httpx.get(stack.metrics).text, re.MULTILINE)
