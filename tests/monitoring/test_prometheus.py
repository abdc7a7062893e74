"""A real Prometheus scrapes a real process of Tenantry, with our rules, and alerts fire."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from testkit.programs import Program, free_port, run, running
from tests.acceptance.support import ADMIN_LOGIN
from tests.contracts.test_monitoring import ALERTS, NAME, RULES_FILE, expressions

# The scrapes, the reading of the catalog every 15 s, and a busy machine.
SECONDS_MAX = 90
# Without a run, a job, a notification or a second process, they have no sample.
OF_EVENTS = {
    "tenantry_active_run_age_seconds",
    "tenantry_oldest_queued_job_age_seconds",
    "tenantry_oldest_notification_age_seconds",
    "tenantry_unavailable_total",
    "tenantry_refused_connections_total",
}


@dataclass(frozen=True)
class Watched:
    """A service, and the Prometheus that scrapes it."""

    folder: Path
    program: Program
    url: str
    metrics: str
    prometheus: str

    def ask(self, path: str, **parameters: str) -> Any:
        answer = httpx.get(f"{self.prometheus}/api/v1/{path}", params=parameters, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def firing(self) -> set[str]:
        alerts = self.ask("alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}


def until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    ends = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < ends, what()
        time.sleep(0.5)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False


@contextmanager
def prometheus(folder: Path, *targets: str) -> Iterator[str]:
    """Yield the URL of a Prometheus with our files, which scrapes and alerts without delay."""
    program = shutil.which("prometheus")
    assert program, "Needs Prometheus: apt-get install prometheus"
    config = yaml.safe_load((RULES_FILE.parent / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = list(targets)
    rules = yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule["for"] = "0s"
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(f"{url}/-/ready"), (folder / "prometheus.log").read_text)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(name="watched", scope="module")
def _watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    port, metrics, nothing = free_port(), free_port(), free_port()
    arguments = ("serve", "--port", str(port))
    with running(folder, *arguments, TENANTRY_METRICS_PORT=str(metrics)) as program:
        program.wait_for("^Tenantry answers")
        targets = (f"127.0.0.1:{metrics}", f"127.0.0.1:{nothing}")
        with prometheus(folder, *targets) as url:
            yield Watched(folder, program, f"http://127.0.0.1:{port}", targets[0], url)


def names(watched: Watched) -> set[str]:
    return set(watched.ask("label/__name__/values"))


class TestScrape:
    def test_the_target_is_up(self, watched: Watched):
        def health() -> dict[str, str]:
            found = watched.ask("targets")["activeTargets"]
            return {one["labels"]["instance"]: one["health"] for one in found}

        until(lambda: health().get(watched.metrics) == "up", health)

    def test_every_metric_of_the_rules_and_the_dashboard_has_samples(self, watched: Watched):
        """As soon as there are a tenant, a backup and a request."""
        for command in (
            ("tenant", "create", "acme", "--owner-email", "ada@example.com"),
            ("backup", "create", "--all", "--to", "archives"),
        ):
            made = run(watched.folder, *command)
            assert made.returncode == 0, made.stderr
        httpx.get(f"{watched.url}/livez", timeout=60)
        texts = [*expressions(), *(rule["expr"] for rule in ALERTS.values())]
        wanted = {name for text in texts for name in NAME.findall(text)} - OF_EVENTS

        until(lambda: wanted <= names(watched), lambda: wanted - names(watched))

    def test_every_query_of_the_dashboard_is_answered(self, watched: Watched):
        for query in expressions():
            watched.ask("query", query=query.replace("$__rate_interval", "1m"))


class TestAlerts:
    def test_every_rule_is_evaluated_without_an_error(self, watched: Watched):
        def health() -> dict[str, str]:
            rules = [one for group in watched.ask("rules")["groups"] for one in group["rules"]]
            return {one["name"]: one["health"] for one in rules}

        until(lambda: health() == dict.fromkeys(ALERTS, "ok"), health)

    def test_a_target_that_does_not_answer_is_an_alert(self, watched: Watched):
        until(lambda: "TenantryDown" in watched.firing(), watched.firing)

        assert "TenantryCatalogUnreachable" not in watched.firing()
        assert "TenantryNoHeartbeat" not in watched.firing()

    def test_guessed_passwords_are_an_alert(self, watched: Watched):
        # An increase needs a sample before it.
        until(lambda: "tenantry_login_failures_total" in names(watched), lambda: names(watched))
        body = {"email": "ada@example.com", "password": "wrong password of ada"}
        for _ in range(120):
            answer = httpx.post(watched.url + ADMIN_LOGIN, json=body, timeout=60)
            assert answer.status_code in {401, 429}

        until(lambda: "TenantryLoginAttack" in watched.firing(), watched.firing)
