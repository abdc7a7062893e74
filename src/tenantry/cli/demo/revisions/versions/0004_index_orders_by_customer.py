"""Find the orders of a customer, the newest first."""

from alembic.operations import Operations

revision = "0004"
down_revision = "0003"


def upgrade(op: Operations) -> None:
    """Create the index."""
    op.create_index("ix_orders_customer_placed_at", "orders", ["customer", "placed_at"])
