"""``tenantry migrate lint``: check revisions without any database."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output, sarif
from tenantry.kit.errors import Invalid, Unavailable
from tenantry.kit.threads import DaemonThreads
from tenantry.migration import lint_revisions
from tenantry.migration.lint_rules import RULES, Level
from tenantry.migration.project import find_here
from tenantry.migration.streams import Stream
from tenantry.schemas.lint import LintFinding, LintReport

if TYPE_CHECKING:
    from tenantry.settings import Settings

READ_SECONDS_MAX = 30.0
"""A thousand files take about a second."""

group = new_group()


class NoProject(Invalid):
    """There is no alembic.ini here: name the folder of the revisions with --migrations."""


class RevisionsEndless(Unavailable):
    """A file of the revisions does not end; the message says after how long."""


class Engine(StrEnum):
    """An engine of tenant databases."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


def check(
    settings: "Settings",
    texts: Sequence[str],
    folder: Path | None,
    engines: Sequence[Engine],
    *,
    seconds: float = READ_SECONDS_MAX,
) -> LintReport:
    """Return the findings about the revisions that *texts* name; see `lint_revisions.choose`.

    Without a *folder*, it is that of *settings*, or of the project in the current folder; without
    *engines*, that of the project's URL, or both. The files are read for at most *seconds*.

    Raises:
        RevisionsEndless: They take longer.
        NoProject, BadProject: There is no project in the current folder, or it cannot be read.
        NoSuchRevision: A text names no revision, or several.
        BadStream: The revisions cannot be read.
    """
    folder, url = folder or settings.tenant_migrations, ""
    if folder is None:
        if (here := find_here(Path.cwd())) is None:
            raise NoProject
        folder, url = here
    named = [one for one in Engine if url.startswith(one[:8])]  # also postgres://
    stream = Stream("user", folder, settings.tenant_naming_convention)
    # The files are imported, and can do anything.
    reading = DaemonThreads(1, "lint").submit(lint_revisions.choose, stream, texts)
    try:
        chosen, are_together = reading.result(seconds)
    except TimeoutError as error:
        raise RevisionsEndless(
            f"The revisions could not be read in {seconds:g} s: a file of them loops or waits when "
            "it is imported, outside its functions."
        ) from error
    found = lint_revisions.lint(
        chosen,
        engines or named or [*Engine],
        settings.tenant_version_table,
        are_together=are_together,
    )
    report = [
        LintFinding.of(
            one,
            level=RULES[one.rule].level,
            revision=revision.id,
            file=_relative(revision.path),
            engines=on,
        )
        for revision, one, on in found
    ]
    return LintReport(len(chosen), report)


def show(report: LintReport, *, level: Level, sarif_file: Path | None) -> None:
    """Print *report*, and write it as SARIF.

    Raises:
        typer.Exit: It has a finding of *level* or a worse one.
    """
    if sarif_file is not None:
        sarif_file.write_text(output.json_text(sarif.log_of(report.findings)), encoding="utf-8")
    if not output.shown_as_json(report):
        output.show_table(
            [output.unwrapped("Where"), "Level", output.unwrapped("Rule"), "What it does"],
            [(f"{x.file}:{x.line or 1}", x.level, x.rule, x.message) for x in report.findings],
        )
        output.note(f"{report.revision_count} checked, {len(report.findings)} findings.")
    levels = [*Level]
    if any(levels.index(one.level) <= levels.index(level) for one in report.findings):
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


def _relative(path: Path) -> str:
    path, here = path.resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[REVISIONS]",
        help="Ids, files, or A:B: after A, up to B. Default: all, each by itself.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(help="The Alembic directory. Default: that of the settings, or alembic.ini."),
]
Engines = Annotated[
    list[Engine] | None,
    typer.Option(help="Check the SQL of this engine. Default: that of alembic.ini, or both."),
]
Worst = Annotated[Level, typer.Option(help="Exit with 1 after a finding of this level, or worse.")]
SarifFile = Annotated[
    Path | None, typer.Option("--sarif", help="Write this file for a code host (SARIF 2.1.0).")
]


@group.command("lint")
def lint(
    revisions: Named = None,
    *,
    migrations: Folder = None,
    engine: Engines = None,
    level: Worst = Level.WARNING,
    sarif_file: SarifFile = None,
) -> None:
    """Check the SQL of revisions, without any database.

    A comment `# tenantry: allow RULE because REASON` allows a finding.
    """
    report = check(session.configure(), revisions or [], migrations, engine or [])
    show(report, level=level, sarif_file=sarif_file)
