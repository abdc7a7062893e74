"""Check revisions without a database: for a dry run, and for ``tenantry migrate lint``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from tenantry.kit.errors import Invalid
from tenantry.migration.alembic_modules import VERSION_TABLE
from tenantry.migration.dialects import SQLITE, postgresql
from tenantry.migration.lint import Earlier, Finding, finding_of, findings_of
from tenantry.migration.lint_allows import allows_of, without_allowed
from tenantry.migration.lint_rules import ON_SQLITE, RULES, RUNS_LIVE
from tenantry.migration.live_code import read_source
from tenantry.migration.recorder import RECORD_SECONDS_MAX, in_time, record_once
from tenantry.migration.revisions import Revision
from tenantry.migration.schema_state import BASE
from tenantry.migration.streams import Stream

# Its SQL is recorded as for this server: no database is asked.
DIALECTS: dict[str, sa.Dialect] = {"postgresql": postgresql((18,)), "sqlite": SQLITE}


class NoSuchRevision(Invalid):
    """The revisions to check must be ids, files, or A:B: after A, up to B."""


@dataclass(frozen=True, slots=True)
class FoundIn:
    """A finding, the revision that it is about, and the engines on which it holds."""

    finding: Finding
    revision: Revision
    engines: list[str]


def check(
    revision: Revision,
    dialect: sa.Dialect,
    version_table: str = VERSION_TABLE,
    earlier: Earlier | None = None,
) -> list[Finding]:
    """Return the findings about the statements of *revision*, as far as they are known.

    Those of autocommit blocks are included. If it needs a database, the last finding says so.
    """
    reason, _ = read_source(revision, version_table)
    if reason is not None:
        return [finding_of(RUNS_LIVE, reason)]
    recording = in_time(lambda: record_once(revision, dialect, version_table, in_blocks=True))
    sent, reason = recording or ([], f"takes more than {RECORD_SECONDS_MAX:g} s to record")
    found = findings_of(sent, dialect.name, earlier)
    return found if reason is None else [*found, finding_of(RUNS_LIVE, reason)]


def check_for_dry_run(revision: Revision, dialect: sa.Dialect, version_table: str) -> list[Finding]:
    """Return what `lint` finds, but for one engine: an unused comment can be about the other."""
    found = check(revision, dialect, version_table)
    kept = without_allowed(found, allows_of(revision.content))
    return [one for one in kept if one.rule != RUNS_LIVE]  # a dry run says so itself


def choose(stream: Stream, texts: Sequence[str]) -> tuple[list[Revision], bool]:
    """Return the revisions that *texts* name, and whether they run together on new tables.

    Each text is an id or its beginning, the path of a revision's file, or ``A:B``: after A, up to
    B; without A from the base, without B to the head. Without texts, all revisions are checked,
    each by itself: databases are not at the base.

    Raises:
        NoSuchRevision: A text names no revision, or several.
        BadStream: The revisions cannot be read.
    """
    wanted: set[str] = set()
    is_together = bool(texts)
    for text in texts:
        lower, colon, upper = text.partition(":")
        if not colon:
            wanted.add(_find(stream, text))
            continue
        lower, upper = lower or "base", upper or "head"
        is_together = is_together and lower != "base"
        start = BASE if lower == "base" else _find(stream, lower)
        end = stream.head if upper == "head" else _find(stream, upper)
        wanted |= {one.id for one in stream.after(start, end)}
    return [one for one in stream.revisions if not texts or one.id in wanted], is_together


def _find(stream: Stream, text: str) -> str:
    path = Path(text).resolve()
    every = stream.revisions
    found = [one.id for one in every if text == one.id or path == one.path.resolve()]
    found = found or [one.id for one in every if text and one.id.startswith(text)]
    if len(found) != 1:
        raise NoSuchRevision(f"{text!r} is {'several revisions' if found else 'no revision'}.")
    return found[0]


def lint(
    revisions: Sequence[Revision],
    engines: Sequence[str],
    version_table: str = VERSION_TABLE,
    *,
    are_together: bool = False,
) -> list[FoundIn]:
    """Return the findings about *revisions*, in order, without those that comments allow.

    If they *are_together*, they run in one transaction on each database: what one of them has
    created is new for the next.
    """
    earlier = {engine: Earlier() for engine in engines}
    return [
        one
        for revision in revisions
        for one in _lint(
            revision,
            {
                engine: check(
                    revision,
                    DIALECTS[engine],
                    version_table,
                    earlier[engine] if are_together else None,
                )
                for engine in engines
            },
        )
    ]


def _lint(revision: Revision, found: Mapping[str, Sequence[Finding]]) -> list[FoundIn]:
    """Return what was *found* on each engine, with comments that allow nothing, by line."""
    allows = allows_of(revision.content)
    every = [one for findings in found.values() for one in findings]
    # On the other engine, or in what was not checked, it may have been about something.
    rules = set(RULES) if set(found) != {"sqlite"} else ON_SQLITE
    if RUNS_LIVE not in {one.rule for one in every}:
        allows = [
            replace(one, fault="no finding of this rule is there")
            if one.rule in rules and one.is_judged and not any(map(one.covers, every))
            else one
            for one in allows
        ]
    merged: dict[tuple[int, str, str], FoundIn] = {}
    for engine, findings in found.items():
        for one in without_allowed(findings, allows):
            key = (one.line or 0, one.rule, one.message)
            merged.setdefault(key, FoundIn(one, revision, [])).engines.append(engine)
    return [merged[key] for key in sorted(merged)]
