"""Close a run in a database, so that a late process of it changes nothing there."""

from collections.abc import Collection
from uuid import UUID

import sqlalchemy as sa

from tenantry.migration.schema_state import (
    SchemaRevision,
    closed_as,
    closed_head,
    insert_log,
    log,
    undone_as,
)


def is_open(run_id: UUID, reopened: Collection[str] = ()) -> sa.ColumnElement[bool]:
    """Return the condition that a run is not closed in a database, so that it may change it.

    A process of the run can be late: it was paused, or cut off from the catalog, while others have
    ended its tenant, or the run, and perhaps undone it.

    Args:
        run_id: The run.
        reopened: The heads of entries that do not count: `RunScripts.is_closed` has read them.
    """
    closes = _closes(run_id, log.c.revision.not_in(reopened) if reopened else sa.true())
    return ~sa.exists().where(closes).select_from(log)


def close_run(run_id: UUID, head: SchemaRevision | None, *, by: UUID) -> sa.Insert:
    """Return the log entry that closes a run at a head, or at each one, unless it is closed.

    *by* is the same run, or its undo.
    """
    at = "" if head is None else closed_head(head)
    is_closed = sa.exists().where(_closes(run_id, log.c.revision.in_(["", at]))).select_from(log)
    return insert_log(by, sa.literal(closed_as(run_id)), at, ~is_closed)


def _closes(run_id: UUID, of_head: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    is_closed = sa.and_(log.c.stream == closed_as(run_id), of_head)
    return sa.or_(log.c.stream == undone_as(run_id), is_closed)
