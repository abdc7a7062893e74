"""The first steps in a database: its version row and its log, and the stamp of an adopted one."""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.kit.errors import Unavailable
from tenantry.migration.lock_timeouts import BOOTSTRAP_WAIT_MS, timeouts_sql
from tenantry.migration.revisions import Revision
from tenantry.migration.schema_state import (
    BASE,
    STAMPED_ROW,
    STAMPED_TABLE,
    attached_log,
    insert_log,
    log,
    metadata,
    render,
    user_version_table,
    version,
)
from tenantry.migration.statements import SchemaMoved, Statement, Step

BOOTSTRAP_LOCK = 0x74656E616E747279  # "tenantry", as eight bytes
# Alembic's own length of a version; PostgreSQL stores that of a VARCHAR plus 4.
VERSION_CHARS = 32
TYPMOD_OFFSET = 4


class VersionTooLong(Unavailable):
    """The id of the revision is too long for the version table: use at most 32 characters."""


def bootstrap(dialect: sa.Dialect) -> list[Step]:
    """Return the steps that prepare an empty database for scripts: its version row and its log.

    They are idempotent.
    """
    tables = [sa.schema.CreateTable(table, if_not_exists=True) for table in metadata.sorted_tables]
    base = sa.select(sa.literal(BASE)).where(~sa.exists().select_from(version))
    row = sa.insert(version).from_select(["version_num"], base)
    created: list[Step] = [Statement(render(dialect, one)) for one in (*tables, row)]
    if dialect.name != "postgresql":
        return created
    return [
        *map(Statement, timeouts_sql(dialect, BOOTSTRAP_WAIT_MS)),
        # "If not exists" does not wait for another session that is creating the table.
        Statement(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})"),
        *created,
        # The table has no primary key, and a move follows the changes of every table.
        Statement(f"ALTER TABLE {version.name} REPLICA IDENTITY FULL"),
    ]


def create_log(dialect: sa.Dialect) -> Statement:
    """Return the creation of the log of an attached database."""
    is_postgres = dialect.name == "postgresql"
    sql = render(dialect, sa.schema.CreateTable(attached_log if is_postgres else log))
    # There it has no key, and the team may publish the changes of every table.
    more = f";\nALTER TABLE {log.name} REPLICA IDENTITY FULL" if is_postgres else ""
    return Statement(f"{sql}{more}")


def write_stamp(dialect: sa.Dialect, table_name: str, revision: str, run_id: UUID) -> list[Step]:
    """Return the steps that write *revision* into a version table: an empty or a new one.

    They run in the transaction of the adoption, after Tenantry's tables were created. If the
    table contains another revision by then, they raise `SchemaMoved`.
    """
    kind: sa.ColumnElement[str] = sa.literal(STAMPED_ROW)
    if dialect.name == "postgresql":  # on SQLite, the copy is deleted as a whole
        exists = class_of(table_name).is_not(None)
        kind = sa.case((exists, STAMPED_ROW), else_=STAMPED_TABLE)
    entry = Statement(render(dialect, insert_log(run_id, kind, table_name)))
    return [entry, *write_version(dialect, table_name, revision)]


def write_version(dialect: sa.Dialect, table_name: str, revision: str) -> list[Step]:
    """Return the steps that write *revision* into a version table: an empty or a new one.

    If the table contains a revision by then, they raise `SchemaMoved`.
    """
    table = user_version_table(table_name)
    name = dialect.identifier_preparer.format_table(table)
    lock = Statement(f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE")
    row = sa.select(sa.literal(revision)).where(~sa.exists().select_from(table))
    move = sa.insert(table).from_select(["version_num"], row)
    return [
        Statement(render(dialect, sa.schema.CreateTable(table, if_not_exists=True))),
        *([lock] if dialect.name == "postgresql" else []),
        Statement(render(dialect, move), guard=SchemaMoved),
    ]


def class_of(name: str) -> sa.ColumnElement[Any]:
    """Return the OID of the table *name* in the search path, or NULL."""
    return sa.func.to_regclass(sa.func.quote_ident(sa.literal(name, sa.String)))


def check_length(dialect: sa.Dialect, table_name: str, revision: Revision) -> list[Statement]:
    """Return a check that the user's version table can store *revision*, if its id is long."""
    longest = max(map(len, revision.heads_after), default=0)
    if longest <= VERSION_CHARS or dialect.name != "postgresql":
        return []
    table = render(dialect, class_of(table_name))
    sql = "SELECT 1 FROM pg_catalog.pg_attribute WHERE attname = 'version_num' AND attrelid = "
    sql += f"{table} AND (atttypmod < 0 OR atttypmod >= {longest + TYPMOD_OFFSET})"
    return [Statement(sql, VersionTooLong, revision.name)]
