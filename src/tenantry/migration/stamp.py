"""Write into an adopted database at which of its own revisions it is; and take that back."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.migration.schema_state import log, user_version_table
from tenantry.migration.statements import SchemaMoved, Statement

TABLE = "stamped table"
"""What stands for the stream in the log where the version table was made, too."""
ROW = "stamped row"
"""What stands for the stream in the log where the version table was there, and empty."""


def write_stamp(
    dialect: sa.Dialect, table_name: str, revision: str, *, run_id: UUID, now: datetime
) -> list[Statement]:
    """Return the statements that write *revision* into an empty version table, or make it.

    They go into the transaction of the adoption, after Tenantry's tables were made. Another
    revision that is there by then is `SchemaMoved`.
    """
    table = user_version_table(table_name)
    kind = _kind(dialect, table_name)
    entry = sa.select(
        sa.literal(run_id, sa.Uuid),
        kind,
        sa.literal(table_name),
        sa.literal(now, log.c.applied_at.type),
    )
    columns = ["run_id", "stream", "revision", "applied_at"]
    row = sa.select(sa.literal(revision)).where(~sa.exists().select_from(table))
    return [
        Statement(_render(dialect, sa.insert(log).from_select(columns, entry))),
        Statement(str(sa.schema.CreateTable(table, if_not_exists=True).compile(dialect=dialect))),
        Statement(
            _render(dialect, sa.insert(table).from_select(["version_num"], row)), guard=SchemaMoved
        ),
    ]


async def take_back(raw: "asyncpg.Connection[asyncpg.Record]", run_id: UUID) -> None:
    """Remove what `write_stamp` has written for *run_id*, in a transaction of the caller's.

    Raises:
        Exception: Whatever the driver raises.
    """
    found: Sequence[asyncpg.Record] = await raw.fetch(
        f"SELECT stream, quote_ident(revision) FROM {log.name} "  # noqa: S608 - a constant
        "WHERE run_id = $1 AND stream = ANY($2::text[])",
        run_id,
        [TABLE, ROW],
    )
    for kind, table in found:
        await raw.execute(f"DROP TABLE {table}" if kind == TABLE else f"DELETE FROM {table}")  # noqa: S608 - quoted


def _kind(dialect: sa.Dialect, table_name: str) -> sa.ColumnElement[str]:
    """Return which of the two it is; a SQLite file is a copy, and is deleted whole."""
    if dialect.name != "postgresql":
        return sa.literal(ROW)
    exists = sa.func.to_regclass(sa.func.quote_ident(table_name)).is_not(None)
    return sa.case((exists, ROW), else_=TABLE)


def _render(dialect: sa.Dialect, insert: sa.Insert) -> str:
    return str(insert.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
