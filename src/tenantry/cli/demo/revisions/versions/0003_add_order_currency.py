"""Note in which currency an order was placed."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Add the column; until now every order was in euros."""
    op.add_column(
        "orders", sa.Column("currency", sa.String(3), nullable=False, server_default="USD")
    )
    op.execute("UPDATE orders SET currency = 'EUR'")
