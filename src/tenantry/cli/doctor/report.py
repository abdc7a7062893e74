"""``tenantry doctor``: check everything that a start needs, and advise what to do."""

import asyncio

import typer
from rich.text import Text

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.doctor import checks
from tenantry.cli.doctor.findings import Finding, State
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.schemas.base import ListResponse
from tenantry.settings import BadSettings

STYLES = {State.OK: "green", State.WARNING: "yellow", State.FAILED: "red"}


class Findings(ListResponse[Finding], frozen=True):
    """The findings of all checks."""


group = new_group()


@group.command("doctor")
def doctor() -> None:
    """Check settings, databases, folders and revisions.

    Nothing is changed. The exit status is 3 if a check fails, otherwise 0.
    """
    findings = _examine()
    columns = ["Check", "State", "Found", "What to do"]
    output.show_list(Findings(findings), columns, [_row(one) for one in findings])
    if any(one.state is State.FAILED for one in findings):
        raise typer.Exit(ExitStatus.UNUSABLE)


def _examine() -> list[Finding]:
    try:
        settings = session.configure(log_level="error")
    except BadSettings as error:
        advice = "Correct it in the environment or in .env; nothing else was checked."
        return [Finding("settings", State.FAILED, error.message, advice)]
    return asyncio.run(checks.examine(settings))


def _row(finding: Finding) -> tuple[object, ...]:
    state = Text(finding.state.value, STYLES[finding.state])
    return finding.check, state, finding.detail, finding.advice or " "
