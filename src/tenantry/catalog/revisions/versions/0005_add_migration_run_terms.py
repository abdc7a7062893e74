"""Add how a migration run is to go, and the order in which its parts end."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0005"
down_revision = "0004"


def upgrade(op: Operations) -> None:
    """Add the columns; a run that has none of them goes on as before."""
    for column in (
        sa.Column("label", sa.String, nullable=True),
        sa.Column("waves", sa.String, nullable=True),
        sa.Column("max_failures", sa.Integer, nullable=True),
        sa.Column("stop_reason", sa.String, nullable=True),
        sa.Column("last_sequence", sa.Integer, nullable=True),
    ):
        op.add_column("migration_run", column)
    op.add_column("tenant_migration", sa.Column("sequence", sa.Integer, nullable=True))
    op.add_column("tenant_migration", sa.Column("cause", sa.String, nullable=True))
    op.create_index(
        "ix_tenant_migration_sequence", "tenant_migration", ["run_id", "sequence"], unique=True
    )
    # In the order in which they are claimed, so that a claim reads no more than it takes.
    op.drop_index("ix_tenant_migration_state", "tenant_migration")
    op.create_index(
        "ix_tenant_migration_state", "tenant_migration", ["run_id", "state", "tenant_id"]
    )
