"""Add the size limit of a tenant."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Add the column; 0 is the limit of the settings."""
    op.add_column(
        "tenant", sa.Column("size_bytes_max", sa.BigInteger, nullable=False, server_default="0")
    )
