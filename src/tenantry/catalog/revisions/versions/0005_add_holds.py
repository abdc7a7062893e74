"""Add holds between the waves of migration runs."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0005"
down_revision = "0004"


def upgrade(op: Operations) -> None:
    """Let a run hold after some of its waves."""
    op.add_column("migration_run", sa.Column("holds", sa.String, nullable=True))
    op.add_column(
        "migration_run",
        sa.Column("has_check", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.add_column("migration_run", sa.Column("holding_wave", sa.Integer, nullable=True))
    op.add_column("migration_run", sa.Column("check_error", sa.String, nullable=True))
