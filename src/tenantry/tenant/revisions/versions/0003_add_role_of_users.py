"""Add the role of users.

Only a column is added, and no row is written. Every user may do what they could do before: they are
owners, and so is a user that the release before creates.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Add the column."""
    op.add_column(
        "tenantry_user", sa.Column("role", sa.String, nullable=False, server_default="owner")
    )
