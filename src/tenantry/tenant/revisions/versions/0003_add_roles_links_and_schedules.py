"""Add the roles of users, one-time links, and the schedules of posts.

Only a column and tables are added, and no row is written. Every user may do what they could do
before: they are owners, and so is a user that the release before creates.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade(op: Operations) -> None:
    """Add the column and the tables."""
    op.add_column(
        "tenantry_user", sa.Column("role", sa.String, nullable=False, server_default="owner")
    )
    user = sa.ForeignKey("tenantry_user.id", ondelete="CASCADE")
    op.create_table(
        "tenantry_link",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("user_id", sa.Uuid, user, nullable=True),
        sa.Column("generation", sa.Integer, nullable=True),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("canonical_email", CANONICAL, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.UniqueConstraint("digest", name="uq_tenantry_link_digest"),
        sa.UniqueConstraint("user_id", name="uq_tenantry_link_user_id"),
        sa.UniqueConstraint("canonical_email", name="uq_tenantry_link_canonical_email"),
    )
