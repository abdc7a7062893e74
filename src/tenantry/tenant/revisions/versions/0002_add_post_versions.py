"""Add the versions of posts, drafts beside published posts, and the bin.

Only tables and columns are added, and no row is written: so a tenant of 100,000 posts is migrated
in a second, and the release before works on with the result.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)
HAS_DRAFT = sa.text("draft_slug IS NOT NULL")


def upgrade(op: Operations) -> None:
    """Add the columns of posts, and three tables."""
    op.add_column(
        "tenantry_post", sa.Column("version", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column("tenantry_post", sa.Column("saved_at", INSTANT, nullable=True))
    op.add_column("tenantry_post", sa.Column("draft_slug", CANONICAL, nullable=True))
    op.create_index(
        "ix_tenantry_post_draft_slug",
        "tenantry_post",
        ["draft_slug"],
        postgresql_where=HAS_DRAFT,
        sqlite_where=HAS_DRAFT,
    )
    op.create_table(
        "tenantry_draft_text",
        sa.Column(
            "post_id",
            sa.Uuid,
            sa.ForeignKey("tenantry_post.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("text", sa.String, nullable=False),
    )
    op.create_table(
        "tenantry_post_version",
        sa.Column("post_id", sa.Uuid, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("published_at", INSTANT, nullable=True),
        sa.Column("author_id", sa.Uuid, nullable=True),
        sa.Column("author_name", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("slug", CANONICAL, nullable=False),
        sa.Column("excerpt", sa.String, nullable=False),
        sa.Column("tags", sa.String, nullable=False),
        sa.Column("content", sa.String, nullable=False),
    )
    op.create_table(
        "tenantry_deleted_post",
        sa.Column("post_id", sa.Uuid, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("author_id", sa.Uuid, nullable=True),
        sa.Column("author_name", sa.String, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("deleted_at", INSTANT, nullable=False),
        sa.Column("deleted_by", sa.String, nullable=False),
    )
    op.create_index(
        "ix_tenantry_deleted_post_deleted_at", "tenantry_deleted_post", ["deleted_at", "post_id"]
    )
