"""``tenantry fleet serve``: the console and the API over databases that are not Tenantry's."""

import json
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tenantry.api.table import ENDPOINTS
from testkit import forked, programs, raw_sql
from testkit.programs import Program, free_port, only_line
from tests.acceptance.fleets import Fleet, version
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.projects import HEAD

EMAIL = "admin@example.com"
SECRET = "not-a-placeholder-but-a-secret-key-1234567890"
ANSWER_SECONDS_MAX = JOB_SECONDS_MAX = 60.0
# What needs users, posts, keys or copies, and what the list decides.
OF_TENANTS = [
    ("GET", "/users"),
    ("GET", "/api-keys"),
    ("GET", "/mcp-tokens"),
    ("GET", "/overview"),
    ("GET", "/audit-log"),
    ("GET", "/export"),
    ("POST", "/backups"),
    ("POST", "/move"),
    ("PATCH", ""),
    ("DELETE", "?name=acme"),
]


@dataclass(frozen=True)
class Console:
    """A fleet that is served, and the client of its admin."""

    program: Program
    client: httpx.Client
    started: Any

    def get(self, path: str, **query: str) -> Any:
        return self.client.get(path, params=query).raise_for_status().json()["data"]

    def post(self, path: str, body: Any = None) -> Any:
        answer = self.client.post(path, json=body or {})
        return answer.raise_for_status().json()["data"]

    def ids(self) -> dict[str, str]:
        return {one["name"]: one["id"] for one in self.get("/api/admin/tenants")["items"]}


def without_password(url: str, file: Path) -> str:
    """Return *url* with its password in a file."""
    parts = urlsplit(url)
    file.write_text(f"{parts.hostname}:{parts.port}:*:{parts.username}:{parts.password}\n")
    file.chmod(0o600)
    place = f"{parts.username}@{parts.hostname}:{parts.port}"
    return f"postgresql://{place}{parts.path}?passfile={file}"


@contextmanager
def served(
    fleet: Fleet,
    *arguments: str,
    password: str | None = None,
    running: Callable[..., AbstractContextManager[Program]] = forked.running,
    **environment: str,
) -> Iterator[Console]:
    """Serve *fleet*, and log its admin in, by the password that it printed by default."""
    list_of = ("--urls", "databases.txt", "--port", str(free_port()), "--json")
    folder = fleet.project.folder
    with running(folder, "fleet", "serve", *list_of, *arguments, **environment) as program:
        program.wait_for(r"^}")
        started = json.loads(program.stdout)
        url = started["url"].removesuffix("/console")
        with httpx.Client(base_url=url, timeout=ANSWER_SECONDS_MAX) as client:
            body = {"email": EMAIL, "password": password or started["password"]}
            answer = client.post("/api/admin/auth/login", json=body).raise_for_status()
            client.headers["authorization"] = f"Bearer {answer.json()['data']['token']}"
            yield Console(program, client, started)


class TestServe:
    def test_shows_the_map_and_migrates_and_plans_and_finds_drift(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")

        with served(fleet, running=programs.running) as console:
            before = console.get("/api/admin/tenants/map")
            plan = console.post("/api/admin/tenants/migrate-all", {"dryRun": True})
            run = console.post("/api/admin/tenants/migrate-all", {"plan": plan["plan"]["id"]})
            status = console.get("/api/admin/tenants/schema-status")
            runs = console.get("/api/admin/migration-runs")["items"]
            with raw_sql.connected(urls["globex"]) as query:
                query("ALTER TABLE customer ADD COLUMN drifted INTEGER")
            job = console.post("/api/admin/drift/check")
            ends = time.monotonic() + JOB_SECONDS_MAX
            while job["state"] not in ("done", "failed") and time.monotonic() < ends:
                time.sleep(0.1)
                job = console.get(f"/api/admin/jobs/{job['id']}")
            drifted = console.get("/api/admin/drift")["items"]
            health = console.get("/api/admin/health")
            page = console.client.get("/console").text
            described = console.client.get("/openapi.json").json()["paths"]
            assert console.program.end() == 0

        assert {one["place"] for one in before["items"]} == {"unknown"}
        assert (plan["pending"], run["success"]) == (2, 2)
        assert (status["head"], status["upToDate"], status["total"]) == (HEAD, 2, 2)
        assert [one["triggeredBy"] for one in runs] == [EMAIL]
        assert {version(url)[0][0] for url in urls.values()} == {HEAD}
        assert [one["customerName"] for one in drifted] == ["globex"], job
        assert len(health["servers"]) == 1
        assert "data-fleet" in page
        assert "/api/admin/tenants/migrate-all" in described
        assert not any(one.startswith("/api/tenant/") for one in described)

    def test_groups_failures_and_retries_them(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")
        with raw_sql.connected(urls["globex"]) as query:
            query("CREATE TABLE customer (id INTEGER)")

        with served(fleet) as console:
            first = console.post("/api/admin/tenants/migrate-all")
            [failed] = console.get("/api/admin/migration-runs")["items"]
            path = f"/api/admin/tenants/migration-history/{failed['id']}/failure-causes"
            causes = console.get(path)["items"]
            found = console.get(f"/api/admin/tenants/{console.ids()['globex']}/migrations")
            with raw_sql.connected(urls["globex"]) as query:
                query("DROP TABLE customer")
            retried = console.post("/api/admin/tenants/migrate-all", {"retryOf": failed["id"]})

        assert (first["failed"], retried["total"], retried["success"]) == (1, 1, 1)
        assert len(causes) == 1
        assert found["items"] is None
        assert "customer" in found["failure"]["errorMessage"]

    def test_refuses_what_needs_tenants_and_opens_no_database_for_it(self, fleet: Fleet):
        urls = fleet.add("acme")

        with served(fleet) as console:
            path = f"/api/admin/tenants/{console.ids()['acme']}"
            answers = {
                (method, end): console.client.request(
                    method, path + end, json=None if method == "GET" else {"server": "other"}
                )
                for method, end in OF_TENANTS
            }
            created = console.client.post(
                "/api/admin/tenants",
                json={
                    "name": "x",
                    "owner": {"email": EMAIL, "fullName": "X", "password": "correct horse battery"},
                },
            )
            rate = console.client.post(
                "/api/admin/tenants/migrate-all", json={"waves": [1], "maxErrorRate": "1%"}
            )
            described = console.client.get("/openapi.json").json()["paths"]
            with httpx.Client(
                base_url=console.client.base_url, timeout=ANSWER_SECONDS_MAX
            ) as stranger:
                strangers = {
                    (one.method, one.path): stranger.request(one.method, one.path).status_code
                    for one in ENDPOINTS
                    if one.path not in {*described, "/openapi.json"}
                }

        assert {one.headers["x-error-code"] for one in answers.values()} == {
            "method_not_allowed",
            "no_such_path",
        }, answers
        assert created.status_code == 405
        assert rate.headers["x-error-code"] == "bad_run_options"
        assert len(strangers) > 50
        assert {*strangers.values()} == {404, 405}, strangers
        assert not raw_sql.tables(urls["acme"])

    @on_sqlite
    def test_leaves_the_journal_mode_of_files(self, fleet: Fleet):
        fleet.add("acme")

        with served(fleet) as console:
            found = console.get(f"/api/admin/tenants/{console.ids()['acme']}/migrations")
            console.post("/api/admin/tenants/migrate-all")
            console.get(f"/api/admin/tenants/{console.ids()['acme']}/migrations")

        with sqlite3.connect(fleet.project.folder / "acme.db") as raw:
            mode = raw.execute("PRAGMA journal_mode").fetchone()
        raw.close()
        assert found == {"items": None, "failure": None}
        assert mode == ("delete",)

    @on_postgresql
    def test_keeps_the_passwords_of_urls_out_of_its_state_logs_and_answers(self, fleet: Fleet):
        urls = fleet.add("acme")
        password = urls["acme"].split(":")[2].split("@")[0]
        state = fleet.make_url("state")
        hidden = without_password(state, fleet.project.folder / "passwords")

        with served(fleet, "--state", hidden, TENANTRY_SECRET_KEY=SECRET) as console:
            answer = console.client.get("/api/admin/tenants")
            console.post("/api/admin/tenants/migrate-all")
            output = console.program.stdout + console.program.stderr

        stored = raw_sql.rows(state, "SELECT database_name FROM tenant")
        assert "postgresql://" in stored[0][0]
        for text in (answer.text, output, stored[0][0]):
            assert f":{password}@" not in text


class TestForeignPages:
    @on_sqlite
    def test_get_nothing_by_another_name_for_this_machine(self, fleet: Fleet):
        """DNS rebinding: the page of a name that has the address 127.0.0.1."""
        fleet.add("acme")

        with served(fleet) as console:
            port = console.client.base_url.port
            rebound = [
                console.client.get(path, headers={"host": f"rebound.example:{port}"})
                for path in ("/console", "/api/admin/tenants", "/livez")
            ]
            login = console.client.post(
                "/api/admin/auth/login", json={}, headers={"origin": "https://foreign.example"}
            )
            own = [
                console.client.get("/api/admin/tenants", headers={"host": host})
                for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]", "LOCALHOST:9000")
            ]

        assert [one.headers["x-error-code"] for one in rebound] == ["not_loopback"] * 3
        assert ({one.status_code for one in rebound}, login.status_code) == ({400}, 403)
        assert "127.0.0.1 or localhost" in rebound[0].text
        assert {one.status_code for one in own} == {200}

    @on_sqlite
    def test_send_no_passwords(self, fleet: Fleet):
        """A browser sends a body without a type for any page, and names no other origin then."""
        fleet.add("acme")
        body = json.dumps({"email": EMAIL, "password": "a guess of another page"}).encode()

        with served(fleet) as console:
            sites = {
                site: console.client.post(
                    "/api/admin/auth/login", content=body, headers={"sec-fetch-site": site}
                ).status_code
                for site in ("cross-site", "same-origin", "none")
            }
            asked = console.client.post(
                "/api/admin/auth/login",
                content=body,
                headers={"sec-fetch-site": "cross-site", "content-type": "application/json"},
            )

        assert asked.status_code == 401  # a browser sends it only if the CORS settings allow it
        assert sites == {"cross-site": 403, "same-origin": 401, "none": 401}


@pytest.mark.slow
class TestAdmin:
    @on_sqlite
    def test_gets_a_password_once_and_a_new_one_on_demand(self, fleet: Fleet):
        fleet.add("acme")

        with served(fleet) as first:
            old = first.started["password"]
            assert first.started["email"] == EMAIL
        with served(fleet, password=old) as second:
            assert second.started["password"] is None
        with served(fleet, "--new-password") as third:
            new = third.started["password"]
            body = {"email": EMAIL, "password": old}
            url = third.client.base_url.join("/api/admin/auth/login")
            login = httpx.post(url, json=body, timeout=ANSWER_SECONDS_MAX)

        state = (fleet.project.folder / "tenantry-fleet.db").read_bytes()
        assert new != old
        assert login.status_code == 401
        assert not any(one.encode() in state for one in (old, new))

    @on_sqlite
    def test_of_a_second_server_on_one_state_is_not_made(self, fleet: Fleet):
        fleet.add("acme")

        with served(fleet):
            arguments = ("fleet", "serve", "--urls", "databases.txt", "--port", str(free_port()))
            ended = programs.run(fleet.project.folder, *arguments)

        assert ended.returncode != 0
        assert "serves the data folder" in only_line(ended.stderr)


class TestState:
    @on_postgresql
    def test_on_postgresql_needs_a_secret_key(self, fleet: Fleet):
        fleet.add("acme")

        ended = fleet("serve", "--state", "postgresql://a@localhost/b")

        assert "TENANTRY_SECRET_KEY must be set" in only_line(ended.stderr)

    @pytest.mark.parametrize("option", ["--state", "--from"])
    @on_sqlite
    def test_and_source_have_no_password_that_other_users_can_read(self, fleet: Fleet, option: str):
        fleet.add("acme")
        given = [option, "postgresql://a:hunter2@localhost/b"]
        given += ["--query", "SELECT 1"] if option == "--from" else ["--urls", "databases.txt"]

        ended = fleet("serve", *given, has_list=False)

        assert f"use `{option} …?passfile=PATH`" in only_line(ended.stderr)
        assert "hunter2" not in ended.stderr

    @on_sqlite
    def test_that_cannot_be_served_gets_no_folder(self, fleet: Fleet):
        fleet.add("acme")
        folder, service = fleet.project.folder, {"TENANTRY_DATA_DIR": "service"}
        fleet.tenantry("admin", "create", EMAIL, "--generate-password", **service)
        fleet.tenantry("tenant", "create", "acme", "--owner-email", EMAIL, **service)
        (folder / "twice.txt").write_text("acme sqlite:///a.db\nglobex sqlite:///a.db\n")

        with socket.create_server(("127.0.0.1", 0)) as taken:
            busy = fleet("serve", "--port", str(taken.getsockname()[1]))
        port = ("--port", str(free_port()))
        of_service = fleet("serve", *port, "--state", "service/catalog.db")
        twice = fleet.tenantry(
            "fleet", "serve", "--urls", "twice.txt", *port, "--state", "other.db"
        )

        assert "is in use" in only_line(busy.stderr)
        assert "no state of a fleet" in only_line(of_service.stderr)
        assert "twice" in only_line(twice.stderr)
        assert not [*folder.rglob("*.serve")]

    @on_sqlite
    def test_is_served_on_no_other_port(self, fleet: Fleet):
        fleet.add("acme")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])

            with served(fleet, TENANTRY_METRICS_PORT=port) as console:
                assert console.get("/api/admin/tenants/map")["items"]

    @on_sqlite
    def test_is_shared_with_commands_while_it_is_served(self, fleet: Fleet):
        fleet.add("acme")

        with served(fleet) as console:
            ran = fleet.migrate()
            runs = console.get("/api/admin/migration-runs")["items"]

        assert [one["id"] for one in runs] == [ran["runId"]]

    @on_sqlite
    def test_names_the_databases_that_only_another_list_has(self, fleet: Fleet):
        fleet.add("acme")

        with served(fleet) as console:
            fleet.add("globex")
            fleet("plan", "--json")
            run = console.post("/api/admin/tenants/migrate-all")

        [failed] = [one for one in run["details"] if one["status"] != "success"]
        assert failed["customerName"] == "globex"
        assert "use the same list on each machine" in failed["error"]
