"""Add the sealed URLs of databases that are attached to a service."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0013"
down_revision = "0012"


def upgrade(op: Operations) -> None:
    """Add the URL of an attached database, encrypted with the secret key."""
    op.add_column("tenant", sa.Column("sealed_url", sa.LargeBinary, nullable=True))
