"""Add the durations of a rehearsal."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0011"
down_revision = "0009"


def upgrade(op: Operations) -> None:
    """Add the slowest tenants of a plan, and how long its run would take."""
    op.add_column("plan", sa.Column("slowest", sa.String, nullable=False, server_default="[]"))
    op.add_column("plan", sa.Column("estimated_ms", sa.BigInteger, nullable=True))
