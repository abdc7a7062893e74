"""The SQL of pending revisions, as a run would send it."""

import asyncio
import hashlib
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from tenantry.fleet.pending_revisions import PendingRevision, RunsAs
from tenantry.migration.lint import Finding
from tenantry.migration.lint_revisions import check_for_dry_run
from tenantry.migration.recorder import Recording, Unrecorded
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied

# Each takes up to `recorder.RECORD_SECONDS_MAX`; few are recorded for so long.
REVISIONS_SHOWN_MAX = 2_000
SQL_CHARS_MAX = 20_000
# Of all revisions together: the rest has no text.
TOTAL_CHARS_MAX = 1_000_000


async def sql_of(
    scripts: RunScripts, pending: Mapping[sa.Dialect, Collection[Applied]]
) -> list[PendingRevision]:
    """Return the first `REVISIONS_SHOWN_MAX` *pending* revisions for each engine, in order."""
    return await asyncio.to_thread(
        lambda: [
            found
            for dialect, applied in pending.items()
            for found in _read(scripts, dialect, applied)
        ]
    )


def _read(
    scripts: RunScripts, dialect: sa.Dialect, pending: Collection[Applied]
) -> list[PendingRevision]:
    shown, left = list[PendingRevision](), TOTAL_CHARS_MAX
    for revision, recording, reason in scripts.recorded(dialect, pending, REVISIONS_SHOWN_MAX):
        name = scripts.streams.display(Applied(revision.stream, revision.name))
        findings = check_for_dry_run(revision, dialect, scripts.streams.user_table)
        most = min(left, SQL_CHARS_MAX)
        shown.append(_pending(name, (recording, reason), dialect.name, findings, most))
        left -= len(shown[-1].sql or "")
    return shown


def _pending(
    name: str, found: tuple[Recording, str | None], engine: str, findings: list[Finding], most: int
) -> PendingRevision:
    (recording, reason), sha256 = found, None
    if isinstance(recording, Unrecorded):
        runs_as, sql = RunsAs(recording.value), None
    else:
        runs_as, sql = RunsAs.RECORDED, ";\n\n".join(one.strip() for one in recording)
        sha256 = hashlib.sha256(sql.encode()).hexdigest()
    return PendingRevision(
        revision=name,
        engine=engine,
        runs_as=runs_as,
        live_reason=reason,
        sql=None if sql is None else sql[:most],
        is_cut=sql is not None and len(sql) > most,
        findings=findings,
        sql_sha256=sha256,
    )
