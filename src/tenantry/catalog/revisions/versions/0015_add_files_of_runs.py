"""Add the files with which a run began that holds after waves."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0015"
down_revision = "0014"


def upgrade(op: Operations) -> None:
    """Add the column; a run of an earlier release goes on with any files that end at its head."""
    op.add_column("migration_run", sa.Column("files", sa.String, nullable=True))
