"""Add the durations of a rehearsal, and an index of the names of labelled tenants."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0011"
down_revision = "0010"


def upgrade(op: Operations) -> None:
    """Add the slowest tenants of a plan, how long its run would take, and the index."""
    op.add_column("plan", sa.Column("slowest", sa.String, nullable=False, server_default="[]"))
    op.add_column("plan", sa.Column("estimated_ms", sa.BigInteger, nullable=True))
    op.create_index("ix_tenant_name_tenant_id", "tenant_name", ["tenant_id", "canonical_name"])
