"""Findings of the linter as SARIF 2.1.0: code hosts show them at their lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tenantry.kit.release import VERSION
from tenantry.migration.lint_rules import RULES, Level
from tenantry.schemas.lint import LintFinding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}


def log_of(findings: Sequence[LintFinding]) -> dict[str, Any]:
    """Return the log file with *findings*; one without a line is shown at line 1.

    Files are named from the root of the Git repository, as code hosts expect.
    """
    rules = [
        {
            "id": name,
            "shortDescription": {"text": name.replace("-", " ")},
            "fullDescription": {"text": rule.message.format(table="…")},
            "defaultConfiguration": {"level": _LEVELS[rule.level]},
            **({"helpUri": rule.url} if rule.url else {}),
        }
        for name, rule in RULES.items()
    ]
    driver = {"name": "Tenantry", "version": VERSION, "rules": rules}
    results = [_result(one) for one in findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: LintFinding) -> dict[str, Any]:
    path, here = Path(finding.file).resolve(), Path.cwd().resolve()
    root = next((one for one in [here, *here.parents] if (one / ".git").exists()), here)
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
    place = {
        "artifactLocation": {"uri": quote(name) or path.as_uri()},
        "region": {"startLine": finding.line or 1},
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": [*RULES].index(finding.rule),
        "level": _LEVELS[finding.level],
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
    }
