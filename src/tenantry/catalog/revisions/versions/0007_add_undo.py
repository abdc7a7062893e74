"""Add the undo of runs."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0007"
down_revision = "0006"


def upgrade(op: Operations) -> None:
    """Add the run that a run undoes."""
    op.add_column("migration_run", sa.Column("undoes", sa.Uuid, nullable=True))
