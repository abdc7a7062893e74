"""Create the invoices."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Create the table, and the index by which an order finds its invoices."""
    op.create_table(
        "invoices",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("order_id", sa.Integer, sa.ForeignKey("orders.id"), nullable=False),
        sa.Column("number", sa.String(40), nullable=False, unique=True),
    )
    op.create_index("ix_invoices_order_id", "invoices", ["order_id"])
