"""``tenantry migrate lint``: check revisions without a catalog and without any database."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output, sarif
from tenantry.kit.errors import Invalid
from tenantry.migration import lint_revisions, project
from tenantry.migration.alembic_modules import VERSION_TABLE
from tenantry.migration.lint_rules import RULES, Level
from tenantry.migration.streams import Stream
from tenantry.schemas.base import Schema

group = new_group()


class NoProject(Invalid):
    """There is no alembic.ini here: name the folder of the revisions with --migrations."""


class Engine(StrEnum):
    """An engine of tenant databases."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


class LintFinding(Schema, frozen=True):
    """A finding about a revision; *file* is relative to the current folder if it is below it."""

    rule: str
    level: Level
    message: str
    revision: str
    file: str
    line: int | None
    table: str | None
    engines: list[str]


class LintReport(Schema, frozen=True):
    """The findings about revisions, in order, and how many revisions were checked."""

    revision_count: int
    findings: list[LintFinding]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The revisions to check.

    Attributes:
        folder: The Alembic directory.
        engines: The engines for which their SQL is recorded.
        naming: The naming convention of the ``target_metadata``.
        version_table: The version table of the revisions.
    """

    folder: Path
    engines: Sequence[str] = tuple(Engine)
    naming: Mapping[Any, str] | None = None
    version_table: str = VERSION_TABLE


def find_source(
    folder: Path | None, engines: Sequence[str], naming: Mapping[Any, str], version_table: str
) -> Source:
    """Return the revisions in *folder*; without it, those of the project in the current folder.

    Without *engines*, they are for the engine of the project's URL, or for both.

    Raises:
        NoProject: There is no project in the current folder.
        BadProject: Its configuration cannot be read.
    """
    url: str | None = None
    if folder is None:
        here = project.find_here(Path.cwd())
        if here is None:
            raise NoProject
        folder, url = here
    named = [one for one in Engine if (url or "").startswith(one[:8])]  # also postgres://
    return Source(
        folder=folder,
        engines=engines or named or list(Engine),
        naming=naming,
        version_table=version_table,
    )


def check(source: Source, texts: Sequence[str]) -> LintReport:
    """Return the findings about the revisions that *texts* name; see `lint_revisions.choose`.

    Raises:
        NoSuchRevision: A text names no revision, or several.
        BadStream: The revisions cannot be read.
    """
    stream = Stream("user", source.folder, source.naming)
    revisions, are_together = lint_revisions.choose(stream, texts)
    found = lint_revisions.lint(
        revisions, source.engines, source.version_table, are_together=are_together
    )
    return LintReport(
        len(revisions),
        [
            LintFinding.of(
                one.finding,
                level=RULES[one.finding.rule].level,
                revision=one.revision.id,
                file=_relative(one.revision.path),
                engines=one.engines,
            )
            for one in found
        ],
    )


def show(report: LintReport, *, level: Level, as_json: bool, sarif_file: Path | None) -> None:
    """Print *report*, and write it as SARIF.

    Raises:
        typer.Exit: It has a finding of *level* or a worse one.
    """
    if sarif_file is not None:
        sarif_file.write_text(output.json_text(sarif.log_of(report.findings)), encoding="utf-8")
    if as_json:
        output.show_json(report)
    else:
        columns = [output.unwrapped("Where"), "Level", output.unwrapped("Rule"), "What it does"]
        rows = [
            (f"{one.file}:{one.line or 1}", one.level, one.rule, one.message)
            for one in report.findings
        ]
        output.show_table(columns, rows)
        counts = Counter(one.level for one in report.findings)
        words = ", ".join(f"{counts[one]} of level {one}" for one in Level if counts[one])
        output.note(f"Revisions checked: {report.revision_count}. Findings: {words or 'none'}.")
    if any(level.includes(one.level) for one in report.findings):
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


def _relative(path: Path) -> str:
    path, here = path.resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


@group.command("lint")
def lint(
    revisions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REVISIONS]",
            help="Ids, files, or A:B: after A, up to B. Default: all, each by itself.",
        ),
    ] = None,
    *,
    migrations: Annotated[
        Path | None,
        typer.Option(help="The Alembic directory. Default: that of the settings, or alembic.ini."),
    ] = None,
    engine: Annotated[
        list[Engine] | None,
        typer.Option(help="Check the SQL of this engine. Default: that of alembic.ini, or both."),
    ] = None,
    level: Annotated[
        Level, typer.Option(help="Exit with 1 if there is a finding of this level, or worse.")
    ] = Level.WARNING,
    sarif_file: Annotated[
        Path | None, typer.Option("--sarif", help="Write this file for a code host (SARIF 2.1.0).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the SQL of revisions, without a catalog and without any database.

    A comment `# tenantry: allow RULE because REASON` allows a finding.
    """
    settings = session.configure()
    source = find_source(
        migrations or settings.tenant_migrations,
        engine or [],
        settings.tenant_naming_convention,
        settings.tenant_version_table,
    )
    show(check(source, revisions or []), level=level, as_json=as_json, sarif_file=sarif_file)
