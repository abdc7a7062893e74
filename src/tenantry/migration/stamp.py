"""Write into an adopted database at which of its own revisions it is; and take that back."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.migration.schema_state import insert_log, log, render, user_version_table
from tenantry.migration.statements import SchemaMoved, Statement

TABLE = "stamped table"
"""What stands for the stream in the log where the version table was made, too."""
ROW = "stamped row"
"""What stands for the stream in the log where the version table was there, and empty."""


def write_stamp(
    dialect: sa.Dialect, table_name: str, revision: str, *, run_id: UUID
) -> list[Statement]:
    """Return the statements that write *revision* into an empty version table, or make it.

    They go into the transaction of the adoption, after Tenantry's tables were made. Another
    revision that is there by then is `SchemaMoved`.
    """
    table = user_version_table(table_name)
    row = sa.select(sa.literal(revision)).where(~sa.exists().select_from(table))
    steps = [
        insert_log(run_id, _kind(dialect, table_name), table_name),
        sa.schema.CreateTable(table, if_not_exists=True),
    ]
    move = sa.insert(table).from_select(["version_num"], row)
    return [
        *(Statement(render(dialect, one)) for one in steps),
        Statement(render(dialect, move), guard=SchemaMoved),
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
