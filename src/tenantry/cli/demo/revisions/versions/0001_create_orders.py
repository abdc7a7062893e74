"""Create the orders of a shop."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "orders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer", sa.String(200), nullable=False),
        sa.Column("total_cents", sa.Integer, nullable=False),
        sa.Column("placed_at", sa.DateTime, nullable=False),
    )
