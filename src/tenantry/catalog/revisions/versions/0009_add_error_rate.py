"""Add the error rate at which a run holds after a wave."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0009"
down_revision = "0008"


def upgrade(op: Operations) -> None:
    """Add the rate of a run, and the answers that a process has counted."""
    op.add_column("migration_run", sa.Column("max_error_rate", sa.String, nullable=True))
    op.add_column("worker", sa.Column("answers", sa.String, nullable=False, server_default="[]"))
