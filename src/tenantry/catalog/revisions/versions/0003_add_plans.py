"""Add approved plans of migration runs."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

INSTANT = sa.DateTime(timezone=True)


def upgrade(op: Operations) -> None:
    """Create the tables of plans, and let runs and their tenants refer to them."""
    op.create_table(
        "plan",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("is_complete", sa.Boolean, nullable=False),
        sa.Column("is_rehearsed", sa.Boolean, nullable=False),
        sa.Column("options", sa.String, nullable=False),
        sa.Column("label", sa.String, nullable=True),
        sa.Column("head", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("files", sa.String, nullable=False),
        sa.Column("revisions", sa.String, nullable=False),
        sa.Column("total_count", sa.Integer, nullable=False),
        sa.Column("pending_count", sa.Integer, nullable=False),
        sa.Column("passed_count", sa.Integer, nullable=False),
        sa.Column("up_to_date_count", sa.Integer, nullable=False),
        sa.Column("failed_count", sa.Integer, nullable=False),
        sa.Column("run_id", sa.Uuid, nullable=True),
    )
    op.create_index("ix_plan_expires_at", "plan", ["expires_at"])
    op.create_table(
        "plan_tenant",
        sa.Column("plan_id", sa.Uuid, sa.ForeignKey("plan.id"), primary_key=True),
        sa.Column("tenant_id", sa.Uuid, primary_key=True),
        sa.Column("tenant_name", sa.String, nullable=False),
        sa.Column("position", sa.String, nullable=True),
        sa.Column("pending", sa.String, nullable=True),
        sa.Column("error", sa.String, nullable=True),
        sa.Column("cause", sa.String, nullable=True),
        sa.Column("has_passed", sa.Boolean, nullable=False),
    )
    op.add_column("migration_run", sa.Column("plan_id", sa.Uuid, nullable=True))
    op.add_column("migration_run", sa.Column("held_reason", sa.String, nullable=True))
    op.add_column("tenant_migration", sa.Column("planned_from", sa.String, nullable=True))
