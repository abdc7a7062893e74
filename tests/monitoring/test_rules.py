"""The alert rules and the dashboard, as the tools of Prometheus see them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contracts.test_monitoring import ALERTS, CASES, RULES_FILE, expressions

MANUAL = "https://cms.example.com/docs/manual"
PROMTOOL_SECONDS_MAX = 60


def promtool(*arguments: str | Path) -> str:
    """Return the output of ``promtool`` with *arguments*, which must succeed."""
    program = shutil.which("promtool")
    assert program, "Needs Prometheus: apt-get install prometheus"
    ended = subprocess.run(
        [program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PROMTOOL_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def example_of(alert: str, kind: str) -> dict[str, Any]:
    """Return the test of one alert in the form of ``promtool test rules``."""
    case, rule = CASES[alert][kind], ALERTS[alert]
    annotations = {
        **rule["annotations"],
        "summary": case.get("summary"),
        "runbook_url": rule["annotations"]["runbook_url"].replace(
            "{{ $externalLabels.manual }}", MANUAL
        ),
    }
    labels = rule["labels"] | case.get("labels", {})
    fired = [{"exp_labels": labels, "exp_annotations": annotations}] if kind == "fires" else []
    return {
        "name": f"{alert} {kind}",
        "interval": "1m",
        "external_labels": {"manual": MANUAL},
        "input_series": [
            {"series": series, "values": values} for series, values in case["series"].items()
        ],
        "alert_rule_test": [{"alertname": alert, "eval_time": case["at"], "exp_alerts": fired}],
    }


def test_the_rules_and_the_example_are_valid():
    output = promtool("check", "config", RULES_FILE.parent / "prometheus.yml")

    assert f"SUCCESS: {len(ALERTS)} rules found" in output


@pytest.mark.parametrize("kind", ["fires", "silent"])
def test_each_alert_does_what_its_example_says(kind: str, tmp_path: Path):
    """All annotations are compared, too: a template that fails is a text of its own."""
    tests = [example_of(alert, kind) for alert in CASES]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES_FILE)], "tests": tests}))

    assert "SUCCESS" in promtool("test", "rules", file)


def test_each_query_of_the_dashboard_is_valid(tmp_path: Path):
    queries = [re.sub(r"\$__\w+", "5m", one) for one in expressions()]
    rules = [{"record": f"query:{i}", "expr": one} for i, one in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    assert f"SUCCESS: {len(queries)} rules found" in promtool("check", "rules", file)
