"""Count the posts, and keep beside them what pages, tags and search are read from.

Everything is a new table: nothing that is read today is locked meanwhile, and the code of the
revision before goes on without them. It does not write posts, so the counts stay right.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0005"
down_revision = "0004"

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)

COUNT_POSTS = """
INSERT INTO tenantry_blog_state (id, version, post_count, published_count)
SELECT 1, '00000000000000000000000000000000', count(*), count(published_at) FROM tenantry_post
"""
COUNT_TAGS = """
INSERT INTO tenantry_tag (tag, post_count, published_count)
SELECT tenantry_post_tag.tag, count(*), count(tenantry_post.published_at)
FROM tenantry_post_tag JOIN tenantry_post ON tenantry_post.id = tenantry_post_tag.post_id
GROUP BY tenantry_post_tag.tag
"""
LIST_TAGS = """
INSERT INTO tenantry_published_tag (tag, published_at, post_id)
SELECT tenantry_post_tag.tag, tenantry_post.published_at, tenantry_post.id
FROM tenantry_post_tag JOIN tenantry_post ON tenantry_post.id = tenantry_post_tag.post_id
WHERE tenantry_post.published_at IS NOT NULL
"""
# What SQL can do of it: the whole of it is done to a post when it is next written.
FOLD_TEXTS = """
INSERT INTO tenantry_post_text (post_id, text)
SELECT id, lower(title || '
' || content) FROM tenantry_post
"""


def upgrade(op: Operations) -> None:
    """Create the tables, and fill them from the posts that are there."""
    op.create_table(
        "tenantry_blog_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Uuid, nullable=False),
        sa.Column("post_count", sa.Integer, nullable=False),
        sa.Column("published_count", sa.Integer, nullable=False),
    )
    op.create_table(
        "tenantry_tag",
        sa.Column("tag", CANONICAL, primary_key=True),
        sa.Column("post_count", sa.Integer, nullable=False),
        sa.Column("published_count", sa.Integer, nullable=False),
    )
    op.create_table(
        "tenantry_published_tag",
        sa.Column("tag", CANONICAL, primary_key=True),
        sa.Column("published_at", INSTANT, primary_key=True),
        _post_id(),
    )
    op.create_table("tenantry_post_text", _post_id(), sa.Column("text", sa.String, nullable=False))
    for sql in (COUNT_POSTS, COUNT_TAGS, LIST_TAGS, FOLD_TEXTS):
        op.execute(sql)
    op.create_index("ix_tenantry_published_tag_post_id", "tenantry_published_tag", ["post_id"])


def _post_id() -> sa.Column[object]:
    post = sa.ForeignKey("tenantry_post.id", ondelete="CASCADE")
    return sa.Column("post_id", sa.Uuid, post, primary_key=True)
