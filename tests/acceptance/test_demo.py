"""The demo: it starts over, uses its own folder only, and prints requests that work."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tenantry.cli.main import cli
from testkit.programs import (
    START_SECONDS_MAX,
    Program,
    answers,
    free_port,
    only_line,
    run,
    running,
)

pytestmark = pytest.mark.slow

ANSWERING = "^Ctrl-C ends the demo"
REVISIONS = "0002_create_invoices,0003_add_order_currency,0004_index_orders_by_customer"


@pytest.fixture(name="demo", scope="module")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with running(tmp_path_factory.mktemp("demo"), "demo", "--port", str(free_port())) as demo:
        demo.wait_for(ANSWERING)
        yield demo


class TestDemo:
    def test_prints_requests_that_work_unchanged(self, demo: Program):
        printed = _requests(demo)

        login, posts, history = [_answer(request) for request in printed[:3]]
        called = json.loads(_shell(printed[3]))["result"]["structuredContent"]

        assert set(login["data"]) == {"token", "expiresAt"}
        assert posts["data"]["totalCount"] > 0
        assert posts["data"]["items"][0]["tags"]
        assert history["data"]["items"][0]["triggeredBy"] == "admin@example.com"
        assert called["items"][0]["slug"] == posts["data"]["items"][0]["slug"]

    def test_has_posts_and_drafts(self, demo: Program):
        """Its users see more than the public, and a search and a tag find something."""
        login, posts = [_answer(request) for request in _requests(demo)[:2]]
        headers = {
            "authorization": f"Bearer {login['data']['token']}",
            "x-api-key": _value(demo, "API key"),
        }

        def own(**query: str) -> int:
            url = f"{_value(demo, 'API')}/api/tenant/blog/posts"
            answer = httpx.get(url, headers=headers, params=query, timeout=START_SECONDS_MAX)
            return int(answer.json()["data"]["totalCount"])

        assert own(status="published") == posts["data"]["totalCount"]
        assert own(status="draft") == own() - own(status="published") > 0
        assert own(search="FLOUR") > 0
        assert own(tag="Bread") > 1

    def test_has_migrated_all_tenants_but_the_broken_one(self, demo: Program):
        ended = _answer(_requests(demo)[2])["data"]["items"][0]

        assert (ended["totalCount"], ended["successCount"], ended["failedCount"]) == (12, 11, 1)
        parts = ended["details"]
        assert {one["appliedMigrations"] for one in parts} == {REVISIONS, ""}
        failed = next(one for one in parts if one["status"] == "Failed")
        assert failed["customerName"] in demo.stdout
        assert failed["errorMessage"] in demo.stdout
        assert "11 of 12" in demo.stdout

    def test_prints_an_admin_and_a_user_who_can_log_in(self, demo: Program):
        url = _value(demo, "API")
        email, password = _value(demo, "admin").split()
        body = json.dumps({"email": email, "password": password})

        login = ["-H", "Content-Type: application/json", "-d", body]
        answer = _curl(f"{url}/api/admin/auth/login", *login)

        assert answer["success"] is True
        assert _value(demo, "API key") in _requests(demo)[0]
        assert all(part in _requests(demo)[0] for part in _value(demo, "user").split())

    def test_prints_the_address_of_the_console_first(self, demo: Program):
        console = _value(demo, "console")

        page = subprocess.check_output(["curl", "-sS", console], timeout=START_SECONDS_MAX)

        assert console == f"{_value(demo, 'API')}/console"
        assert demo.stdout.index(console) < demo.stdout.index(_value(demo, "admin"))
        assert page.startswith(b"<!doctype html>")

    def test_says_nothing_else(self, demo: Program):
        requests = '"event":"request"'

        assert [line for line in demo.stderr.splitlines() if requests not in line] == []
        assert "\x1b" not in demo.stdout

    def test_starts_over_after_its_end(self, tmp_path: Path):
        port = str(free_port())
        keys = []

        for _ in range(2):
            with running(tmp_path, "demo", "--tenants", "2", TENANTRY_PORT=port) as demo:
                demo.wait_for(ANSWERING)
                assert _value(demo, "API") == f"http://127.0.0.1:{port}"
                keys.append(_value(demo, "API key"))
                history = _answer(_requests(demo)[2])["data"]
                assert history["totalCount"] == 1
                assert demo.end() == 0
            assert not answers(f"http://127.0.0.1:{port}")

        assert keys[0] != keys[1]

    def test_prints_json_and_ends_when_it_is_interrupted(self, tmp_path: Path):
        arguments = ["demo", "--port", str(free_port()), "--tenants", "1", "--json"]

        with running(tmp_path, *arguments, "--folder", "here") as demo:
            demo.wait_for("^}")
            printed = json.loads(demo.stdout)
            answered = [json.loads(_shell(request)) for request in printed["requests"]]
            status = demo.end(signal.SIGINT)

        assert (tmp_path / "here" / "catalog.db").is_file()
        assert len(answered) == 4
        assert "error" not in answered[3]
        assert printed["migration"]["total"] == 1
        assert status in {0, 130}

    def test_locks_its_folder(self, tmp_path: Path):
        with running(tmp_path, "demo", "--port", str(free_port())) as demo:
            demo.wait_for(ANSWERING)
            second = run(tmp_path, "demo", "--port", str(free_port()))

            assert second.returncode == 3
            assert str(demo.process.pid) in only_line(second.stderr)
            assert _answer(_requests(demo)[1])["success"] is True


@pytest.mark.usefixtures("elsewhere")
class TestDemoRefuses:
    def test_a_folder_that_it_has_not_made(self):
        kept = Path("demo-data/kept")
        kept.parent.mkdir()
        kept.write_text("mine")

        ended = _refused("--port", str(free_port()))

        assert "demo-data" in only_line(ended)
        assert list(kept.parent.iterdir()) == [kept]

    def test_an_invalid_folder(self):
        Path("file").touch()

        assert "file" in only_line(_refused("--port", str(free_port()), "--folder", "file"))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("TENANTRY_CATALOG_URL", "postgresql://someone:hunter2@127.0.0.1:1/nowhere"),
            ("TENANTRY_CATALOG_URL", "sqlite:///mine.db"),
            ("TENANTRY_TENANT_SERVER_URL", "postgresql://someone:hunter2@127.0.0.1:1/nowhere"),
            ("TENANTRY_TENANT_SERVERS", '{"eu": "sqlite:///mine"}'),
        ],
    )
    def test_a_database_that_is_not_its_own(self, name: str, value: str):
        ended = _refused("--port", str(free_port()), **{name: value})

        assert name in only_line(ended)
        assert "hunter2" not in ended
        assert list(Path().iterdir()) == []

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            ended = _refused(TENANTRY_PORT=port)

        assert port in only_line(ended)
        assert list(Path().iterdir()) == []


def _refused(*arguments: str, **environment: str) -> str:
    """Return the error of a demo that refused to start."""
    ended = CliRunner().invoke(cli, ["demo", *arguments], env=environment)
    assert (ended.exit_code, ended.stdout) == (3, "")
    return ended.stderr


def _requests(demo: Program) -> list[str]:
    """Return the requests that were printed: four, and each on a line of its own."""
    found = [line for line in demo.stdout.splitlines() if line.startswith("curl ")]
    assert len(found) == 4
    assert demo.stdout.count("curl ") == 4
    return found


def _answer(request: str) -> Any:
    answer = json.loads(_shell(request))
    assert answer["success"] is True
    return answer


def _shell(request: str) -> bytes:
    return subprocess.check_output(["bash", "-c", request], timeout=START_SECONDS_MAX)


def _curl(*arguments: str) -> Any:
    return json.loads(
        subprocess.check_output(["curl", "-sS", *arguments], timeout=START_SECONDS_MAX)
    )


def _value(demo: Program, name: str) -> str:
    found = re.search(rf"^{name} +(.+)$", demo.stdout, re.MULTILINE)
    assert found is not None
    return found[1].strip()
