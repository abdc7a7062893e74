"""Add attached databases: those of a fleet that are migrated, and have no tables of Tenantry."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0010"
down_revision = "0009"


def upgrade(op: Operations) -> None:
    """Add the mark of an attached database, and whether its log says what a run has applied."""
    op.add_column(
        "migration_run", sa.Column("has_log", sa.Boolean, nullable=False, server_default=sa.true())
    )
    op.add_column(
        "tenant", sa.Column("is_attached", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.create_index(
        "ix_tenant_attached",
        "tenant",
        ["id"],
        postgresql_where=sa.text("is_attached"),
        sqlite_where=sa.text("is_attached = 1"),
    )
