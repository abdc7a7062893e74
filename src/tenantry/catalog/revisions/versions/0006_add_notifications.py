"""Add the outbox of notifications."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0006"
down_revision = "0005"

INSTANT = sa.DateTime(timezone=True)


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "notification",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("payload", sa.String, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=True),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("attempted_at", INSTANT, nullable=True),
        sa.Column("result", sa.String, nullable=True),
        sa.Column("next_at_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("worker_id", sa.Uuid, nullable=True),
        sa.UniqueConstraint("target", "key", name="uq_notification_target_key"),
    )
    op.create_index("ix_notification_target", "notification", ["target", "state", "id"])
