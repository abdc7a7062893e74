"""Add the cursors of post events, and who reads these."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0014"
down_revision = "0013"


def upgrade(op: Operations) -> None:
    """Create the tables; the cursors of a tenant are deleted with it."""
    op.create_table(
        "post_hook",
        sa.Column("target", sa.String, primary_key=True),
        sa.Column(
            "tenant_id", sa.Uuid, sa.ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("cursor", sa.String, nullable=False),
    )
    op.create_index("ix_post_hook_tenant_id", "post_hook", ["tenant_id"])
    op.create_table(
        "post_hook_target",
        sa.Column("target", sa.String, primary_key=True),
        sa.Column("worker_id", sa.Uuid, nullable=False),
    )
