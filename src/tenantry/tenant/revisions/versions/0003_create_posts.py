"""Create the posts of the blog, and their tags."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade(op: Operations) -> None:
    """Create the tables."""
    op.create_table(
        "tenantry_post",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("slug", CANONICAL, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("content", sa.String, nullable=False),
        sa.Column("excerpt", sa.String, nullable=False),
        sa.Column("author_id", sa.Uuid, nullable=True),
        sa.Column("author_name", sa.String, nullable=False),
        sa.Column("tags", sa.String, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("published_at", INSTANT, nullable=True),
        sa.UniqueConstraint("slug", name="uq_tenantry_post_slug"),
    )
    op.create_table(
        "tenantry_post_tag",
        sa.Column("tag", CANONICAL, primary_key=True),
        sa.Column(
            "post_id",
            sa.Uuid,
            sa.ForeignKey("tenantry_post.id", ondelete="CASCADE"),
            primary_key=True,
        ),
    )
    op.create_index("ix_tenantry_post_tag_post_id", "tenantry_post_tag", ["post_id"])
