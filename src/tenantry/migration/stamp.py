"""Stamp an adopted database with the current revision of its own history; and undo that."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.migration.schema_state import insert_log, log, render, user_version_table
from tenantry.migration.statements import SchemaMoved, Statement

TABLE = "stamped table"
"""The value of ``stream`` in the log if the version table was created, too."""
ROW = "stamped row"
"""The value of ``stream`` in the log if the version table existed, and was empty."""


def write_stamp(
    dialect: sa.Dialect, table_name: str, revision: str, *, run_id: UUID
) -> list[Statement]:
    """Return the statements that write *revision* into a version table: an empty or a new one.

    They run in the transaction of the adoption, after Tenantry's tables were created. If the
    table contains another revision by then, they raise `SchemaMoved`.
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
    """Undo `write_stamp` for *run_id*, in the caller's transaction.

    Raises:
        Exception: Any error of the driver.
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
    """Return `TABLE` or `ROW`. On SQLite it does not matter: the copy is deleted as a whole."""
    if dialect.name != "postgresql":
        return sa.literal(ROW)
    exists = sa.func.to_regclass(sa.func.quote_ident(table_name)).is_not(None)
    return sa.case((exists, ROW), else_=TABLE)
