"""Create the catalog."""

from uuid import uuid4

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None

INSTANT = sa.DateTime(timezone=True)
CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    """Create every table, and give this catalog its name."""
    _create_catalog(op)
    _create_tenants(op)
    _create_people(op)
    _create_audit_log(op)
    _create_runs(op)
    _create_jobs(op)


def _create_catalog(op: Operations) -> None:
    catalog = op.create_table(
        "catalog",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    op.execute(sa.insert(catalog).values(id=uuid4(), epoch=0))
    op.create_table(
        "worker",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("seen_at_ms", sa.BigInteger, nullable=False),
        sa.Column("runs", sa.String, nullable=False, server_default=sa.text("''")),
        sa.Column("away", sa.String, nullable=False, server_default="[]"),
        sa.Column("in_work", sa.String, nullable=False, server_default="[]"),
        sa.Column("program", sa.String, nullable=False, server_default=sa.text("''")),
    )


def _create_tenants(op: Operations) -> None:
    op.create_table(
        "tenant",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("canonical_name", CANONICAL, nullable=False),
        sa.Column("database_name", sa.String, nullable=False),
        sa.Column("server_name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("worker_id", sa.Uuid, nullable=True),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("is_read_only", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("modules", sa.String, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("schema_revision", sa.String, nullable=True),
        sa.Column("requests_per_minute", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("failing_run_id", sa.Uuid, nullable=True),
        sa.Column("deleted_at", INSTANT, nullable=True),
        sa.UniqueConstraint("canonical_name", name="uq_tenant_canonical_name"),
        sa.UniqueConstraint(
            "server_name", "database_name", name="uq_tenant_server_name_database_name"
        ),
    )
    op.create_index("ix_tenant_schema_revision", "tenant", ["schema_revision"])
    op.create_index("ix_tenant_deleted_at", "tenant", ["deleted_at"])
    op.create_table(
        "api_key",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("tenant_id", sa.Uuid, sa.ForeignKey("tenant.id"), nullable=False),
        sa.Column("prefix", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=True),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.Column("replaced_at", INSTANT, nullable=True),
        sa.UniqueConstraint("digest", name="uq_api_key_digest"),
    )
    op.create_index("ix_api_key_tenant_id", "api_key", ["tenant_id"])
    op.create_table(
        "mcp_token",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("tenant_id", sa.Uuid, sa.ForeignKey("tenant.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("prefix", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("user_id", sa.Uuid, nullable=True),
        sa.Column("user_generation", sa.Integer, nullable=True),
        sa.Column("scopes", sa.String, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.UniqueConstraint("digest", name="uq_mcp_token_digest"),
    )
    op.create_index("ix_mcp_token_tenant_id", "mcp_token", ["tenant_id"])


def _create_people(op: Operations) -> None:
    op.create_table(
        "admin",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("canonical_email", CANONICAL, nullable=False),
        sa.Column("password_hash", sa.String, nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.UniqueConstraint("canonical_email", name="uq_admin_canonical_email"),
    )
    op.create_table(
        "ended_session",
        sa.Column("jti", sa.String, primary_key=True),
        sa.Column("admin_id", sa.Uuid, sa.ForeignKey("admin.id"), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
    )
    op.create_index("ix_ended_session_admin_id", "ended_session", ["admin_id"])
    op.create_table(
        "signing_key",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("sealed_private_key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("signs_from", INSTANT, nullable=False),
        sa.Column("signs_until", INSTANT, nullable=True),
    )
    op.create_table(
        "login_attempt",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("account", sa.String, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("next_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_login_attempt_next_ms", "login_attempt", ["next_ms"])
    op.create_index("ix_login_attempt_account", "login_attempt", ["account"])


def _create_audit_log(op: Operations) -> None:
    op.create_table(
        "audit_entry",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("last_at", INSTANT, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("tenant_id", sa.Uuid, nullable=True),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("command", sa.String, nullable=True),
        sa.Column("changes", sa.String, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("merge_key", sa.String, nullable=True),
        sa.UniqueConstraint("merge_key", name="uq_audit_entry_merge_key"),
    )
    for columns in (
        ["actor", "id", "action", "tenant_id"],
        ["action", "id", "actor", "tenant_id"],
        ["target", "id"],
        ["tenant_id", "id", "actor", "action"],
    ):
        op.create_index(f"ix_audit_entry_{columns[0]}", "audit_entry", columns)


def _create_runs(op: Operations) -> None:
    op.create_table(
        "migration_run",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT, nullable=True),
        sa.Column("triggered_by", sa.String, nullable=False),
        sa.Column("total_count", sa.Integer, nullable=False),
        sa.Column("success_count", sa.Integer, nullable=False),
        sa.Column("failed_count", sa.Integer, nullable=False),
        sa.Column("head", sa.String, nullable=True),
        sa.Column("label", sa.String, nullable=True),
        sa.Column("waves", sa.String, nullable=True),
        sa.Column("max_failures", sa.Integer, nullable=True),
        sa.Column("stop_reason", sa.String, nullable=True),
        sa.Column("last_sequence", sa.Integer, nullable=True),
        sa.Column("retry_of", sa.Uuid, nullable=True),
        sa.Column("not_attempted_count", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_index("ix_migration_run_finished_at", "migration_run", ["finished_at"])
    op.create_table(
        "tenant_migration",
        sa.Column("run_id", sa.Uuid, sa.ForeignKey("migration_run.id"), primary_key=True),
        sa.Column("tenant_id", sa.Uuid, primary_key=True),
        sa.Column("tenant_name", sa.String, nullable=False),
        sa.Column("database_name", sa.String, nullable=False),
        sa.Column("server_name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("applied", sa.String, nullable=True),
        sa.Column("error", sa.String, nullable=True),
        sa.Column("started_at", INSTANT, nullable=True),
        sa.Column("finished_at", INSTANT, nullable=True),
        sa.Column("worker_id", sa.Uuid, nullable=True),
        sa.Column("sequence", sa.Integer, nullable=True),
        sa.Column("cause", sa.String, nullable=True),
    )
    # In the order of the claims, so that a claim reads only the rows that it takes.
    op.create_index(
        "ix_tenant_migration_state", "tenant_migration", ["run_id", "state", "tenant_id"]
    )
    op.create_index(
        "ix_tenant_migration_sequence", "tenant_migration", ["run_id", "sequence"], unique=True
    )
    op.create_index("ix_tenant_migration_worker_id", "tenant_migration", ["worker_id"])


def _create_jobs(op: Operations) -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("tenant_id", sa.Uuid, nullable=True),
        sa.Column("tenant_name", sa.String, nullable=True),
        sa.Column("archive", sa.String, nullable=True),
        sa.Column("server_name", sa.String, nullable=True),
        sa.Column("database_name", sa.String, nullable=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("worker_id", sa.Uuid, nullable=True),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT, nullable=True),
        sa.Column("bytes_done", sa.BigInteger, nullable=False),
        sa.Column("error", sa.String, nullable=True),
        sa.Column("has_suspended", sa.Boolean, nullable=False),
        sa.Column("source_server_name", sa.String, nullable=True),
        sa.Column("source_database_name", sa.String, nullable=True),
        sa.Column("has_made_read_only", sa.Boolean, nullable=False),
        sa.Column("options", sa.String, nullable=True),
        sa.Column("is_cancelled", sa.Boolean, nullable=False),
    )
    op.create_index("ix_job_state", "job", ["state"])
    op.create_index("ix_job_tenant_id", "job", ["tenant_id", "id"])
    is_moving = sa.text("kind = 'move' AND state IN ('queued', 'running', 'dropping')")
    op.create_index(
        "uq_job_tenant_id",
        "job",
        ["tenant_id"],
        unique=True,
        sqlite_where=is_moving,
        postgresql_where=is_moving,
    )
