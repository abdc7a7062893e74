"""Tables of the catalog: migration runs and their plans."""

import sqlalchemy as sa

from tenantry.catalog.tables import index_of_some, metadata
from tenantry.db.types import Canonical, Instant, Numbers, Records, Texts

migration_run = sa.Table(
    "migration_run",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant, nullable=True),
    sa.Column("triggered_by", sa.String, nullable=False),
    sa.Column("total_count", sa.Integer, nullable=False),
    sa.Column("success_count", sa.Integer, nullable=False),
    sa.Column("failed_count", sa.Integer, nullable=False),
    sa.Column("head", sa.String, nullable=True),
    # The options of the run: see `catalog.run_progress`.
    sa.Column("label", sa.String, nullable=True),
    sa.Column("waves", Numbers, nullable=True),
    sa.Column("max_failures", sa.Integer, nullable=True),
    sa.Column("stop_reason", sa.String, nullable=True),
    sa.Column("last_sequence", sa.Integer, nullable=True),
    sa.Column("retry_of", sa.Uuid, nullable=True),
    # Counted in `failed_count` too.
    sa.Column("not_attempted_count", sa.Integer, nullable=False, server_default="0"),
    # The worker that is adding its tenants; the run is hidden until they are complete.
    sa.Column("planner_id", sa.Uuid, nullable=True),
    # Of the waves that have begun: the tenants that are still to be opened, some at a time.
    sa.Column("unopened_count", sa.Integer, nullable=False, server_default="0"),
    # The plan that it runs, and why no process works on it, if none has its files.
    sa.Column("plan_id", sa.Uuid, nullable=True),
    sa.Column("held_reason", sa.String, nullable=True),
    # Of each wave: how it names its tenants, and its failure budget.
    sa.Column("wave_details", Records, nullable=True),
    # How many tenants may have failed while the current wave goes on, if it has a budget.
    sa.Column("wave_failed_max", sa.Integer, nullable=True),
    # The waves after which it holds, whether the operator's check may continue it, and while it
    # holds: the wave that has ended, and why the check has not continued it.
    sa.Column("holds", Numbers, nullable=True),
    sa.Column("has_check", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("holding_wave", sa.Integer, nullable=True),
    sa.Column("check_error", sa.String, nullable=True),
    # A percentage: it holds after a wave if more answers to its tenants are errors of the server.
    sa.Column("max_error_rate", sa.String, nullable=True),
    # The run that it undoes.
    sa.Column("undoes", sa.Uuid, nullable=True),
    # Whether the databases log what it applies: always, unless they are attached.
    sa.Column("has_log", sa.Boolean, nullable=False, server_default=sa.true()),
    # The hash of each revision with which it began, if it may hold, and has no plan.
    sa.Column("revision_hashes", Texts, nullable=True),
    sa.Index("ix_migration_run_finished_at", "finished_at"),
)

# The names are copies: the history outlives the tenants.
tenant_migration = sa.Table(
    "tenant_migration",
    metadata,
    sa.Column("run_id", sa.ForeignKey(migration_run.c.id), primary_key=True),
    sa.Column("tenant_id", sa.Uuid, primary_key=True),
    sa.Column("tenant_name", sa.String, nullable=False),
    sa.Column("database_name", sa.String, nullable=False),
    sa.Column("server_name", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("applied", sa.String, nullable=True),
    sa.Column("error", sa.String, nullable=True),
    sa.Column("started_at", Instant, nullable=True),
    sa.Column("finished_at", Instant, nullable=True),
    sa.Column("worker_id", sa.Uuid, nullable=True),
    sa.Column("sequence", sa.Integer, nullable=True),
    sa.Column("cause", sa.String, nullable=True),
    # In a run with a plan: the revision at which the plan found the tenant.
    sa.Column("planned_from", sa.String, nullable=True),
    # Waiting tenants are opened by these, then by id: see `catalog.plans`.
    sa.Column("wave", sa.Integer, nullable=True),
    sa.Column("sort_key", Canonical, nullable=True),
    # In the order in which items are claimed, and in the order in which they have ended.
    sa.Index("ix_tenant_migration_state", "run_id", "state", "tenant_id"),
    index_of_some(
        "ix_tenant_migration_server_name", "state = 'Pending'", "run_id", "server_name", "tenant_id"
    ),
    index_of_some(
        "ix_tenant_migration_waiting",
        "state = 'Waiting'",
        *("run_id", "wave", "sort_key", "tenant_id"),
    ),
    sa.Index("ix_tenant_migration_sequence", "run_id", "sequence", unique=True),
    sa.Index("ix_tenant_migration_worker_id", "worker_id"),
)

# A dry run or a rehearsal, to be run as it was reviewed: see `catalog.stored_plans`.
plan = sa.Table(
    "plan",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
    # False while its tenants are added; it is hidden then.
    sa.Column("is_complete", sa.Boolean, nullable=False),
    sa.Column("is_rehearsed", sa.Boolean, nullable=False),
    # The options of the run, its files and its revisions, as JSON.
    sa.Column("options", Records, nullable=False),
    sa.Column("label", sa.String, nullable=True),
    sa.Column("head", sa.String, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("files", Records, nullable=False),
    sa.Column("revisions", Records, nullable=False),
    sa.Column("total_count", sa.Integer, nullable=False),
    sa.Column("pending_count", sa.Integer, nullable=False),
    sa.Column("passed_count", sa.Integer, nullable=False),
    sa.Column("up_to_date_count", sa.Integer, nullable=False),
    sa.Column("failed_count", sa.Integer, nullable=False),
    # Of a rehearsal: the slowest tenants, as JSON, and how long a run would take.
    sa.Column("slowest", Records, nullable=False, server_default="[]"),
    sa.Column("estimated_ms", sa.BigInteger, nullable=True),
    # The run that was started with it: there is at most one.
    sa.Column("run_id", sa.Uuid, nullable=True),
    sa.Index("ix_plan_expires_at", "expires_at"),
)

plan_tenant = sa.Table(
    "plan_tenant",
    metadata,
    sa.Column("plan_id", sa.ForeignKey(plan.c.id), primary_key=True),
    sa.Column("tenant_id", sa.Uuid, primary_key=True),
    sa.Column("tenant_name", sa.String, nullable=False),
    sa.Column("position", sa.String, nullable=True),
    sa.Column("pending", sa.String, nullable=True),
    sa.Column("error", sa.String, nullable=True),
    sa.Column("cause", sa.String, nullable=True),
    sa.Column("has_passed", sa.Boolean, nullable=False),
    # As in `tenant_migration`: a run of the plan has the same waves.
    sa.Column("wave", sa.Integer, nullable=True),
    sa.Column("sort_key", Canonical, nullable=True),
)
