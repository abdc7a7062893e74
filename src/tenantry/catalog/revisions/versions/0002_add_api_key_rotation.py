"""Add when an API key was replaced by another."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Add the column; the code of the revision before goes on without it."""
    op.add_column("api_key", sa.Column("replaced_at", sa.DateTime(timezone=True), nullable=True))
