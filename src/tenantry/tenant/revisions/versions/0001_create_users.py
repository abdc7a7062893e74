"""Create the users, and the audit log of the tenant."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None

CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    """Create the tables."""
    op.create_table(
        "tenantry_user",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("canonical_email", CANONICAL, nullable=False),
        sa.Column("full_name", sa.String, nullable=False),
        sa.Column("password_hash", sa.String, nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("canonical_email", name="uq_tenantry_user_canonical_email"),
    )
    op.create_table(
        "tenantry_audit",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("command", sa.String, nullable=True),
        sa.Column("changes", sa.String, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
