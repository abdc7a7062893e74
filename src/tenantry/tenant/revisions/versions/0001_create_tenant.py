"""Create the tables of a tenant: users, posts and the audit log."""

from uuid import UUID

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade(op: Operations) -> None:
    """Create every table, and the only row of the blog's state."""
    _create_users(op)
    _create_audit_log(op)
    _create_posts(op)
    _create_tags(op)
    _create_blog_state(op)


def _create_users(op: Operations) -> None:
    op.create_table(
        "tenantry_user",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("canonical_email", CANONICAL, nullable=False),
        sa.Column("full_name", sa.String, nullable=False),
        sa.Column("password_hash", sa.String, nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False, server_default="0"),
        sa.Column("spared_jti", sa.String, nullable=True),
        sa.Column("token_generation", sa.Integer, nullable=False, server_default="0"),
        sa.UniqueConstraint("canonical_email", name="uq_tenantry_user_canonical_email"),
    )
    user = sa.ForeignKey("tenantry_user.id", ondelete="CASCADE")
    op.create_table(
        "tenantry_ended_session",
        sa.Column("jti", sa.String, primary_key=True),
        sa.Column("user_id", sa.Uuid, user, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
    )
    op.create_index("ix_tenantry_ended_session_user_id", "tenantry_ended_session", ["user_id"])


def _create_audit_log(op: Operations) -> None:
    op.create_table(
        "tenantry_audit",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("command", sa.String, nullable=True),
        sa.Column("changes", sa.String, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )


def _create_posts(op: Operations) -> None:
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
    op.create_index("ix_tenantry_post_published_at", "tenantry_post", ["published_at", "id"])
    op.create_table("tenantry_post_text", _post_id(), sa.Column("text", sa.String, nullable=False))


def _create_tags(op: Operations) -> None:
    op.create_table("tenantry_post_tag", sa.Column("tag", CANONICAL, primary_key=True), _post_id())
    op.create_index("ix_tenantry_post_tag_post_id", "tenantry_post_tag", ["post_id"])
    op.create_table(
        "tenantry_published_tag",
        sa.Column("tag", CANONICAL, primary_key=True),
        sa.Column("published_at", INSTANT, primary_key=True),
        _post_id(),
    )
    op.create_index("ix_tenantry_published_tag_post_id", "tenantry_published_tag", ["post_id"])
    op.create_table(
        "tenantry_tag",
        sa.Column("tag", CANONICAL, primary_key=True),
        sa.Column("post_count", sa.Integer, nullable=False),
        sa.Column("published_count", sa.Integer, nullable=False),
    )


def _create_blog_state(op: Operations) -> None:
    state = op.create_table(
        "tenantry_blog_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Uuid, nullable=False),
        sa.Column("post_count", sa.Integer, nullable=False),
        sa.Column("published_count", sa.Integer, nullable=False),
    )
    op.execute(sa.insert(state).values(id=1, version=UUID(int=0), post_count=0, published_count=0))


def _post_id() -> sa.Column[object]:
    post = sa.ForeignKey("tenantry_post.id", ondelete="CASCADE")
    return sa.Column("post_id", sa.Uuid, post, primary_key=True)
