"""Tables of a tenant database."""

import sqlalchemy as sa

from tenantry.db.types import Canonical, Instant, Lines, Records

metadata = sa.MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_N_name)s"})

user = sa.Table(
    "tenantry_user",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("email", sa.String, nullable=False),
    sa.Column("canonical_email", Canonical, nullable=False),
    sa.Column("full_name", sa.String, nullable=False),
    sa.Column("password_hash", sa.String, nullable=False),
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False, server_default="0"),
    sa.Column("spared_jti", sa.String, nullable=True),
    sa.Column("token_generation", sa.Integer, nullable=False, server_default="0"),
    # Also of a user that the release before this one creates.
    sa.Column("role", sa.String, nullable=False, server_default="owner"),
    sa.UniqueConstraint("canonical_email"),
)

# Sessions that were ended individually, until their tokens have expired.
ended_session = sa.Table(
    "tenantry_ended_session",
    metadata,
    sa.Column("jti", sa.String, primary_key=True),
    sa.Column("user_id", sa.ForeignKey(user.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Index("ix_tenantry_ended_session_user_id", "user_id"),
)

# One-time links that are open: a used or revoked one is deleted. A link to reset a password has a
# user, and the generation of the user's sessions that it ends with; an invitation has neither, but
# the canonical form of its address, and the role of the user that it creates. So a user, or an
# address, has one link.
link = sa.Table(
    "tenantry_link",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("user_id", sa.ForeignKey(user.c.id, ondelete="CASCADE"), nullable=True),
    sa.Column("generation", sa.Integer, nullable=True),
    sa.Column("email", sa.String, nullable=False),
    sa.Column("canonical_email", Canonical, nullable=True),
    sa.Column("role", sa.String, nullable=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.UniqueConstraint("digest"),
    sa.UniqueConstraint("user_id"),
    sa.UniqueConstraint("canonical_email"),
)

# The id is a UUIDv7 of the time in `at`, so the primary key is ordered by time. There is no other
# index: a change of a profile waits for every page that is written, and the log of one tenant is
# short enough to be scanned in this order.
audit = sa.Table(
    "tenantry_audit",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
    sa.Column("action", sa.String, nullable=False),
    sa.Column("target", sa.String, nullable=False),
    sa.Column("address", sa.String, nullable=False),
    sa.Column("command", sa.String, nullable=True),
    sa.Column("changes", Records, nullable=False),
    sa.Column("request_id", sa.String, nullable=False),
    sqlite_with_rowid=False,
)

# The text of a published post is that of readers; a newer draft is the version in `version`.
# `saved_at` is the `updated_at` of the text that is stored as a version. It differs if the release
# before this one, which knows no versions, has written the post: then its text is stored before it
# is overwritten.
post = sa.Table(
    "tenantry_post",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("slug", Canonical, nullable=False),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("content", sa.String, nullable=False),
    sa.Column("excerpt", sa.String, nullable=False),
    sa.Column("author_id", sa.Uuid, nullable=True),
    sa.Column("author_name", sa.String, nullable=False),
    sa.Column("tags", Lines, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("published_at", Instant, nullable=True),
    sa.Column("version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("saved_at", Instant, nullable=True),
    sa.Column("draft_slug", Canonical, nullable=True),
    sa.UniqueConstraint("slug"),
    sa.Index("ix_tenantry_post_published_at", "published_at", "id"),
    sa.Index(
        "ix_tenantry_post_draft_slug",
        "draft_slug",
        postgresql_where=sa.text("draft_slug IS NOT NULL"),
        sqlite_where=sa.text("draft_slug IS NOT NULL"),
    ),
)

# Every text of a post. Without a foreign key: the versions of a post in the bin are kept.
post_version = sa.Table(
    "tenantry_post_version",
    metadata,
    sa.Column("post_id", sa.Uuid, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("published_at", Instant, nullable=True),
    sa.Column("author_id", sa.Uuid, nullable=True),
    sa.Column("author_name", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("note", sa.String, nullable=False),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("slug", Canonical, nullable=False),
    sa.Column("excerpt", sa.String, nullable=False),
    sa.Column("tags", Lines, nullable=False),
    # Last, so that a list of versions does not read it.
    sa.Column("content", sa.String, nullable=False),
)

# The bin: the text of a deleted post is its version `version`.
deleted_post = sa.Table(
    "tenantry_deleted_post",
    metadata,
    sa.Column("post_id", sa.Uuid, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("author_id", sa.Uuid, nullable=True),
    sa.Column("author_name", sa.String, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    sa.Column("deleted_by", sa.String, nullable=False),
    sa.Index("ix_tenantry_deleted_post_deleted_at", "deleted_at", "post_id"),
)

# The tags of posts, one row each, to find posts by tag.
post_tag = sa.Table(
    "tenantry_post_tag",
    metadata,
    sa.Column("tag", Canonical, primary_key=True),
    sa.Column("post_id", sa.ForeignKey(post.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Index("ix_tenantry_post_tag_post_id", "post_id"),
)

# The tags of published posts, in the order of the public lists.
published_tag = sa.Table(
    "tenantry_published_tag",
    metadata,
    sa.Column("tag", Canonical, primary_key=True),
    sa.Column("published_at", Instant, primary_key=True),
    sa.Column("post_id", sa.ForeignKey(post.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Index("ix_tenantry_published_tag_post_id", "post_id"),
)

# The number of posts with a tag: one row for each tag in use.
tag = sa.Table(
    "tenantry_tag",
    metadata,
    sa.Column("tag", Canonical, primary_key=True),
    sa.Column("post_count", sa.Integer, nullable=False),
    sa.Column("published_count", sa.Integer, nullable=False),
)

# Title and content in the form in which they are searched.
post_text = sa.Table(
    "tenantry_post_text",
    metadata,
    sa.Column("post_id", sa.ForeignKey(post.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("text", sa.String, nullable=False),
)

# The same of the drafts of published posts.
draft_text = sa.Table(
    "tenantry_draft_text",
    metadata,
    sa.Column("post_id", sa.ForeignKey(post.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("text", sa.String, nullable=False),
)

# When posts are published and withdrawn without a request, until the first write after that has
# changed their rows. `due_at` is the earlier of the two; `tags` are those of the latest text, in
# the form in which tags are compared, each between line breaks.
post_schedule = sa.Table(
    "tenantry_post_schedule",
    metadata,
    sa.Column("post_id", sa.ForeignKey(post.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("publish_at", Instant, nullable=True),
    sa.Column("unpublish_at", Instant, nullable=True),
    sa.Column("due_at", Instant, nullable=False),
    sa.Column("tags", Canonical, nullable=False),
    sa.Index("ix_tenantry_post_schedule_due_at", "due_at"),
)

# The links that read the latest text of a post, until they expire.
preview_link = sa.Table(
    "tenantry_preview_link",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("post_id", sa.ForeignKey(post.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("created_by", sa.String, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Index("ix_tenantry_preview_link_post_id", "post_id"),
)

# One row. Every write to the blog locks it first, which serializes the writes. `due_at` is the
# earliest one of all schedules, or earlier: the release before deletes posts without changing it.
blog_state = sa.Table(
    "tenantry_blog_state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Uuid, nullable=False),
    sa.Column("post_count", sa.Integer, nullable=False),
    sa.Column("published_count", sa.Integer, nullable=False),
    sa.Column("due_at", Instant, nullable=True),
)
