"""Check revisions without a database: for a dry run, and for ``tenantry migrate lint``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from tenantry.kit.errors import Invalid
from tenantry.migration.alembic_modules import VERSION_TABLE
from tenantry.migration.dialects import SQLITE, postgresql
from tenantry.migration.lint import Earlier, Finding, finding_of, findings_of
from tenantry.migration.lint_allows import Allow, allows_of, without_allowed
from tenantry.migration.lint_rules import OWN_CONNECTION, RULES, RUNS_LIVE, Sent
from tenantry.migration.live_code import own_connections, read_source
from tenantry.migration.recorder import RECORD_SECONDS_MAX, in_time, record_once
from tenantry.migration.revisions import Revision
from tenantry.migration.schema_state import BASE
from tenantry.migration.sql_files import SqlRevision
from tenantry.migration.streams import Stream

# The SQL is recorded as for this version: no server is asked.
DIALECTS: dict[str, sa.Dialect] = {"postgresql": postgresql((18,)), "sqlite": SQLITE}


class NoSuchRevision(Invalid):
    """The revisions to check must be ids, files, or A:B: after A, up to B."""


def check(
    revision: Revision, dialect: sa.Dialect, version_table: str, earlier: Earlier | None = None
) -> list[Finding]:
    """Return the findings about the statements of *revision*, as far as they are known.

    Those of autocommit blocks are included. If it needs a database, the last finding says so.
    """
    if isinstance(revision, SqlRevision):
        return findings_of(_sent_by(revision), dialect.name, earlier)
    reason, _ = read_source(revision, version_table, dialect.name)
    if reason is not None:
        own = [finding_of(OWN_CONNECTION, one) for one in own_connections(revision)]
        return [*own, finding_of(RUNS_LIVE, reason)]
    recording = in_time(lambda: record_once(revision, dialect, version_table, in_blocks=True))
    sent, reason = recording or ([], f"takes more than {RECORD_SECONDS_MAX:g} s to record")
    found = findings_of(sent, dialect.name, earlier)
    return found if reason is None else [*found, finding_of(RUNS_LIVE, reason)]


def _sent_by(revision: SqlRevision) -> list[Sent]:
    text, at, sent = revision.content.decode(), 0, list[Sent]()
    for sql in revision.part.statements:
        at = text.index(sql, at)
        sent.append(Sent(sql, 1 + text.count("\n", 0, at), revision.part.is_outside))
        at += len(sql)
    return sent


def check_for_dry_run(revision: Revision, dialect: sa.Dialect, version_table: str) -> list[Finding]:
    """Return what `lint` finds, but for one engine: an unused comment can be about the other."""
    found = check(revision, dialect, version_table)
    kept = without_allowed(found, allows_of(revision))
    return [one for one in kept if one.rule != RUNS_LIVE]  # a dry run says so itself


def lint(
    revisions: Sequence[Revision],
    engines: Sequence[str],
    version_table: str = VERSION_TABLE,
    *,
    are_together: bool = False,
) -> list[tuple[Revision, Finding, list[str]]]:
    """Return each finding that no comment allows, with its revision and its engines, by line.

    If the *revisions* are *together*, they run in one transaction on each database: what one of
    them has created is new for the next.
    """
    result: list[tuple[Revision, Finding, list[str]]] = []
    earlier = {engine: Earlier() for engine in engines}
    for revision in revisions:
        if not are_together:
            earlier = {engine: Earlier() for engine in engines}
        on = {one: check(revision, DIALECTS[one], version_table, earlier[one]) for one in engines}
        allows = _judged(allows_of(revision), on)
        found: dict[tuple[int, str, str], tuple[Finding, dict[str, None]]] = {}
        for engine, findings in on.items():
            for one in without_allowed(findings, allows):
                key = (one.line or 0, one.rule, one.message)
                found.setdefault(key, (one, {}))[1][engine] = None
        result += [(revision, found[key][0], [*found[key][1]]) for key in sorted(found)]
    return result


def _judged(allows: Sequence[Allow], on: Mapping[str, Sequence[Finding]]) -> list[Allow]:
    """Return *allows*, with a fault if a comment is about none of the findings on all engines."""
    every = [one for findings in on.values() for one in findings]
    # Else it may be about what was not checked, or about the other engine.
    rules = {name for name, one in RULES.items() if "postgresql" in on or one.engine == "both"}
    is_whole = RUNS_LIVE not in {one.rule for one in every}
    return [
        replace(one, fault="no finding of this rule is there")
        if is_whole and one.is_judged and one.rule in rules and not any(map(one.covers, every))
        else one
        for one in allows
    ]


def choose(stream: Stream, texts: Sequence[str]) -> tuple[list[Revision], bool]:
    """Return the revisions that *texts* name, and whether they run together on older databases.

    Each text is an id or its beginning, ``head``, the path of a revision's file, or ``A:B``: after
    A, up to B; without A from the base, without B to the head. From the base, as without texts,
    each revision is checked by itself: databases are not at the base.

    Raises:
        NoSuchRevision: A text names no revision, or several.
        BadStream: The revisions cannot be read.
    """
    wanted: set[str] = set()
    for text in texts:
        lower, colon, upper = text.partition(":")
        if not colon:
            wanted.add(_find(stream, text))
            continue
        start = BASE if lower in {"", "base"} else _find(stream, lower)
        end = _find(stream, upper or "head")
        wanted |= {one.id for one in stream.after(start, end)}
    chosen = [one for one in stream.revisions if not texts or one.id in wanted]
    return chosen, chosen[:1] != list(stream.revisions[:1])


def _find(stream: Stream, text: str) -> str:
    if text == "head":
        return stream.head
    path, every = Path(text).resolve(), stream.revisions
    found = [one.id for one in every if text in {one.id, one.number} or path == one.path.resolve()]
    found = found or [one.id for one in every if text and one.id.startswith(text)]
    if len(found) != 1:
        raise NoSuchRevision(f"{text!r} is {'several revisions' if found else 'no revision'}.")
    return found[0]
