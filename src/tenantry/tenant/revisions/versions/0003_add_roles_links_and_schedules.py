"""Add the roles of users, one-time links, and the schedules and previews of posts.

Only columns and tables are added, and no row is written. Every user may do what they could do
before: they are owners, and so is a user that the release before creates. That release knows no
schedules: what it shows changes at the first write of this one.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade(op: Operations) -> None:
    """Add the role, the tables, and when the first schedule is due."""
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
        sa.Column("role", sa.String, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.UniqueConstraint("digest", name="uq_tenantry_link_digest"),
        sa.UniqueConstraint("user_id", name="uq_tenantry_link_user_id"),
        sa.UniqueConstraint("canonical_email", name="uq_tenantry_link_canonical_email"),
    )
    op.create_table(
        "tenantry_post_schedule",
        sa.Column(
            "post_id",
            sa.Uuid,
            sa.ForeignKey("tenantry_post.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("publish_at", INSTANT, nullable=True),
        sa.Column("unpublish_at", INSTANT, nullable=True),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("tags", CANONICAL, nullable=False),
    )
    op.create_index("ix_tenantry_post_schedule_due_at", "tenantry_post_schedule", ["due_at"])
    op.create_table(
        "tenantry_preview_link",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column(
            "post_id",
            sa.Uuid,
            sa.ForeignKey("tenantry_post.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", sa.String, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
    )
    op.create_index("ix_tenantry_preview_link_post_id", "tenantry_preview_link", ["post_id"])
    op.add_column("tenantry_blog_state", sa.Column("due_at", INSTANT, nullable=True))
