"""Close a run in a database, so that a late process of it changes nothing there."""

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


def is_open(run_id: UUID, head: SchemaRevision) -> sa.ColumnElement[bool]:
    """Return the condition that a run is not closed in a database, so that it may change it.

    A process of the run can be late: it was paused, or cut off from the catalog, while others have
    ended its tenant, or the run, and perhaps undone it. A process with later revisions, which has
    another *head*, continues a run that was closed and not undone.
    """
    return ~sa.exists().where(_closes(run_id, closed_head(head))).select_from(log)


def close_run(run_id: UUID, head: SchemaRevision | None, *, by: UUID) -> sa.Insert:
    """Return the log entry that closes a run at a head, or at each one, for `is_open`.

    *by* is the same run, or its undo.
    """
    at = "" if head is None else closed_head(head)
    is_new = ~sa.exists().where(_closes(run_id, at)).select_from(log)
    return insert_log(by, sa.literal(closed_as(run_id)), at, is_new)


def _closes(run_id: UUID, head: str) -> sa.ColumnElement[bool]:
    is_closed = sa.and_(log.c.stream == closed_as(run_id), log.c.revision.in_(["", head]))
    return sa.or_(log.c.stream == undone_as(run_id), is_closed)
