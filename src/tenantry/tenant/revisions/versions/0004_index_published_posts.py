"""Index the published posts, for pages of the newest."""

from alembic.operations import Operations

revision = "0004"
down_revision = "0003"


def upgrade(op: Operations) -> None:
    """Create the index; without it the pages are slow, and right."""
    op.create_index("ix_tenantry_post_published_at", "tenantry_post", ["published_at", "id"])
