"""Add waves of tenants, their order, and failure budgets of waves."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0004"
down_revision = "0003"

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    """Add the columns, and the index in whose order waiting tenants are opened."""
    op.add_column("migration_run", sa.Column("wave_details", sa.String, nullable=True))
    op.add_column("migration_run", sa.Column("wave_failed_max", sa.Integer, nullable=True))
    for table in ("tenant_migration", "plan_tenant"):
        op.add_column(table, sa.Column("wave", sa.Integer, nullable=True))
        op.add_column(table, sa.Column("sort_key", CANONICAL, nullable=True))
    is_waiting = sa.text("state = 'Waiting'")
    op.create_index(
        "ix_tenant_migration_waiting",
        "tenant_migration",
        ["run_id", "wave", "sort_key", "tenant_id"],
        postgresql_where=is_waiting,
        sqlite_where=is_waiting,
    )
