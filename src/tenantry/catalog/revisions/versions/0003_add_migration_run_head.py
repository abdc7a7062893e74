"""Add where a migration run is to bring the tenants."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Add the column; a run that has none is anybody's, as before."""
    op.add_column("migration_run", sa.Column("head", sa.String, nullable=True))
