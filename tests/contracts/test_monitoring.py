"""Alert rules and dashboard use metrics that exist, and each rule has examples and a page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tools import reference

from tenantry.cli.serving.processes import AllProcesses
from tenantry.kit.clock import utc_now
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.metrics import FleetState, Metrics
from tenantry.kit.request_log import SERVER_ERROR
from tenantry.kit.sizes import NO_MARK

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "tenantry.json").read_text(encoding="utf-8"))
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"]
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in GROUPS for rule in group["rules"]
}
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "monitoring" / "alerts.yml").read_text(encoding="utf-8")
)
NAME = re.compile(r"\b(?:tenantry|process)_\w+")
COMMAND = re.compile(r"`(tenantry [a-z -]+?)(?: (?:--|[A-Z]).*?)?`")
# `doctor` and `serve` of the table have no subcommand.
SETTING = re.compile(r"\bTENANTRY_[A-Z_]+[A-Z]\b")
LINK = re.compile(r"\{\{ \$externalLabels\.manual \}\}/(howto/[\w-]+)\.html#([\w-]+)")
ROW_WIDTH = 24


class _Connections:
    connections_max, open_count, idle_count = 8, 2, 1


class _NoProcesses:
    processes, replaced_count = (), 0


def exported() -> set[str]:
    """Return the names of all samples, of a process in which everything has happened once."""
    metrics, now = Metrics(), utc_now()
    metrics.watch_pool("catalog", _Connections())
    metrics.watch_space("tenants/default", ROOT, NO_MARK)
    metrics.requests.count("GET", "/livez", SERVER_ERROR, 1.0, new_id())
    metrics.count_refused_connection("Displaced")
    metrics.count_unavailable(Unavailable)
    metrics.fleet = FleetState(
        tenants_behind=0,
        tenants_failing=0,
        held_runs=0,
        queued_jobs=0,
        failed_jobs={"backup": 0},
        oldest_job_at=now,
        oldest_run_at=now,
        last_backup_at=now,
        oldest_notification_at=now,
    )
    text = metrics.render().decode()
    names = {one.name for family in text_string_to_metric_families(text) for one in family.samples}
    all_processes = AllProcesses(_NoProcesses())  # type: ignore[arg-type]
    return names | {one.name for family in all_processes.collect() for one in family.samples}


def panels() -> list[dict[str, Any]]:
    return [one for one in DASHBOARD["panels"] if one["type"] != "row"]


def expressions() -> list[str]:
    """Return the queries of the dashboard."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


class TestAlerts:
    def test_each_has_an_example_with_which_it_fires_and_one_with_which_it_does_not(self):
        assert list(CASES) == list(ALERTS)
        for name, case in CASES.items():
            assert set(case) == {"fires", "silent"}, name

    def test_use_metrics_that_are_exported(self):
        named = {name for rule in ALERTS.values() for name in NAME.findall(rule["expr"])}

        assert named <= exported()

    @pytest.mark.parametrize("name", ALERTS)
    def test_say_what_happened_and_what_to_do_and_link_to_a_page(self, name: str):
        rule = ALERTS[name]
        annotations = rule["annotations"]

        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(annotations) == {"summary", "description", "runbook_url"}
        # A template there would have to be rendered by the tests, too.
        assert "{{" not in annotations["description"]
        link = LINK.fullmatch(annotations["runbook_url"])
        assert link
        page = (ROOT / "docs" / f"{link[1]}.md").read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        assert link[2] in {reference.anchor(one.replace("`", "")) for one in headings}

    @pytest.mark.parametrize("name", ALERTS)
    def test_name_commands_and_settings_that_exist(self, name: str):
        text = ALERTS[name]["annotations"]["description"]

        assert set(COMMAND.findall(text)) <= set(reference.commands())
        assert set(SETTING.findall(text)) <= set(reference.setting_names())


class TestDashboard:
    def test_uses_metrics_that_are_exported(self):
        named = {name for one in expressions() for name in NAME.findall(one)}

        assert named <= exported()

    def test_has_panels_with_unique_ids_titles_and_places(self):
        every = DASHBOARD["panels"]
        places = [
            (x, y)
            for at in (one["gridPos"] for one in every)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]

        assert len({one["id"] for one in every}) == len({one["title"] for one in every})
        assert len({one["id"] for one in every}) == len(every)
        assert len(set(places)) == len(places)
        assert max(x for x, _ in places) < ROW_WIDTH

    def test_reads_from_the_chosen_data_source(self):
        [variable] = [one for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource"]
        chosen = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}

        assert variable["query"] == "prometheus"
        assert all(panel["datasource"] == chosen for panel in panels())

    def test_is_provisioned_with_its_data_source(self):
        """A provider of dashboards and a source of data, in the form that Grafana reads."""
        folder = ROOT / "deploy" / "grafana"
        source = yaml.safe_load((folder / "datasource.yml").read_text(encoding="utf-8"))
        provider = yaml.safe_load((folder / "dashboards.yml").read_text(encoding="utf-8"))

        assert [one["type"] for one in source["datasources"]] == ["prometheus"]
        assert [one["type"] for one in provider["providers"]] == ["file"]
