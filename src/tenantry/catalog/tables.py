"""Tables of the catalog."""

import sqlalchemy as sa

from tenantry.db.types import Canonical, Instant, Records, Texts, Words


def index_of_some(
    name: str, condition: str, *columns: str, on_sqlite: str | None = None, unique: bool = False
) -> sa.Index:
    """Return an index of the few rows that meet a condition; by default, in the order of a list."""
    return sa.Index(
        name,
        *(columns or ["canonical_name"]),
        unique=unique,
        postgresql_where=sa.text(condition),
        sqlite_where=sa.text(on_sqlite or condition),
    )


metadata = sa.MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_N_name)s"})

catalog = sa.Table(
    "catalog",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
)

# A process with a heartbeat; without one for a while, other workers take over what it holds.
worker = sa.Table(
    "worker",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("seen_at_ms", sa.BigInteger, nullable=False),
    # The unfinished runs whose revisions it knows, and the tenant servers that it cannot reach.
    sa.Column("runs", Words, nullable=False, server_default=sa.text("''")),
    sa.Column("away", Records, nullable=False, server_default="[]"),
    # The tenants that it is migrating, and the program: host, process id, release.
    sa.Column("in_work", Records, nullable=False, server_default="[]"),
    sa.Column("program", sa.String, nullable=False, server_default=sa.text("''")),
    # Its answers to the tenants of each run that is checked by its error rate.
    sa.Column("answers", Records, nullable=False, server_default="[]"),
)

tenant = sa.Table(
    "tenant",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("canonical_name", Canonical, nullable=False),
    sa.Column("database_name", sa.String, nullable=False),
    sa.Column("server_name", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("worker_id", sa.Uuid, nullable=True),
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("is_read_only", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("modules", Words, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("schema_revision", sa.String, nullable=True),
    # In canonical form: of its first user, when it was created.
    sa.Column("owner_email", sa.String, nullable=True),
    sa.Column("labels", Texts, nullable=False, server_default="{}"),
    sa.Column("requests_per_minute", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("size_bytes_max", sa.BigInteger, nullable=False, server_default="0"),
    # The run of the latest attempt to migrate it, if that attempt failed.
    sa.Column("failing_run_id", sa.Uuid, nullable=True),
    # When its schema was found to differ from that of its revision, and how: see `catalog.drift`.
    sa.Column("drifted_at", Instant, nullable=True),
    sa.Column("drift", Records, nullable=True),
    # An attached database has no tables of Tenantry: its name is its URL without secrets. One of a
    # fleet is active while it is in the list; that of one of a service is stored, encrypted. See
    # `catalog.attached`.
    sa.Column("is_attached", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("sealed_url", sa.LargeBinary, nullable=True),
    # Set in the state `deleted`.
    sa.Column("deleted_at", Instant, nullable=True),
    sa.UniqueConstraint("canonical_name"),
    sa.UniqueConstraint("database_name", "server_name", name="uq_tenant_database_name_server_name"),
    # Each with the order of a list, so that a page of a filter reads only its rows.
    sa.Index("ix_tenant_schema_revision", "schema_revision", "canonical_name"),
    sa.Index("ix_tenant_server_name", "server_name", "canonical_name"),
    index_of_some("ix_tenant_failing", "failing_run_id IS NOT NULL"),
    index_of_some("ix_tenant_drifted", "drifted_at IS NOT NULL"),
    index_of_some("ix_tenant_suspended", "NOT is_active", on_sqlite="is_active = 0"),
    index_of_some("ix_tenant_read_only", "is_read_only", on_sqlite="is_read_only = 1"),
    index_of_some("ix_tenant_owner_email", "owner_email IS NOT NULL", "owner_email"),
    index_of_some("ix_tenant_deleted_at", "deleted_at IS NOT NULL", "deleted_at"),
    index_of_some("ix_tenant_attached", "is_attached", "id", on_sqlite="is_attached = 1"),
    index_of_some("ix_tenant_unready", "state <> 'ready'", "state"),
)

# The labels of the tenants, to select tenants by them. Triggers of `tenant` keep it.
tenant_label = sa.Table(
    "tenant_label",
    metadata,
    sa.Column("tenant_id", sa.Uuid, primary_key=True),
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
    # Of a ready tenant: a page of those of a label is read from the index alone.
    sa.Column("canonical_name", Canonical, nullable=True),
    sa.Index("ix_tenant_label_key", "key", "value", "canonical_name", "tenant_id"),
)

# The names of the ready tenants, for lists and searches: a narrow table that is read instead of
# `tenant`, with an index of trigrams for each engine. Triggers of `tenant` keep it.
tenant_name = sa.Table(
    "tenant_name",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("tenant_id", sa.Uuid, nullable=False),
    sa.Column("canonical_name", Canonical, nullable=False),
    sa.UniqueConstraint("tenant_id"),
    sa.UniqueConstraint("canonical_name"),
    # Names of tenants that were found by their labels, without reading the table.
    sa.Index("ix_tenant_name_tenant_id", "tenant_id", "canonical_name"),
)

# How many tenants have the same values, so that nothing counts a million rows: the sum of the
# column `tenants`. Triggers of `tenant` keep them; on PostgreSQL, they add a row for each change,
# because changes in place would wait for each other, and `catalog.tenant_counts` merges the rows.
tenant_count = sa.Table(
    "tenant_count",
    metadata,
    sa.Column("server_name", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("is_read_only", sa.Boolean, nullable=False),
    sa.Column("schema_revision", sa.String, nullable=True),
    sa.Column("is_failing", sa.Boolean, nullable=False),
    sa.Column("tenants", sa.BigInteger, nullable=False),
)

api_key = sa.Table(
    "api_key",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenant.c.id), nullable=False),
    sa.Column("prefix", sa.String, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=True),
    sa.Column("last_used_at", Instant, nullable=True),
    sa.Column("replaced_at", Instant, nullable=True),
    sa.UniqueConstraint("digest"),
    sa.Index("ix_api_key_tenant_id", "tenant_id"),
)

mcp_token = sa.Table(
    "mcp_token",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenant.c.id), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("prefix", sa.String, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("user_id", sa.Uuid, nullable=True),
    sa.Column("user_generation", sa.Integer, nullable=True),
    sa.Column("scopes", Words, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("last_used_at", Instant, nullable=True),
    sa.UniqueConstraint("digest"),
    sa.Index("ix_mcp_token_tenant_id", "tenant_id"),
)

admin = sa.Table(
    "admin",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("email", sa.String, nullable=False),
    sa.Column("canonical_email", Canonical, nullable=False),
    sa.Column("password_hash", sa.String, nullable=False),
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.UniqueConstraint("canonical_email"),
)

# Sessions that were ended individually, until their tokens have expired.
ended_session = sa.Table(
    "ended_session",
    metadata,
    sa.Column("jti", sa.String, primary_key=True),
    sa.Column("admin_id", sa.ForeignKey(admin.c.id), nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Index("ix_ended_session_admin_id", "admin_id"),
)

signing_key = sa.Table(
    "signing_key",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("public_key", sa.LargeBinary, nullable=False),
    sa.Column("sealed_private_key", sa.LargeBinary, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("signs_from", Instant, nullable=False),
    sa.Column("signs_until", Instant, nullable=True),
)

# Counters of password attempts. The keys are digests, so no address is stored.
login_attempt = sa.Table(
    "login_attempt",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("account", sa.String, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("since_ms", sa.BigInteger, nullable=False),
    sa.Column("next_ms", sa.BigInteger, nullable=False),
    sa.Index("ix_login_attempt_next_ms", "next_ms"),
    sa.Index("ix_login_attempt_account", "account"),
)

# The id is a UUIDv7 of the time in `at`, so every index below is in the order of time.
audit_entry = sa.Table(
    "audit_entry",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("last_at", Instant, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
    sa.Column("action", sa.String, nullable=False),
    sa.Column("target", sa.String, nullable=False),
    sa.Column("tenant_id", sa.Uuid, nullable=True),
    sa.Column("address", sa.String, nullable=False),
    sa.Column("command", sa.String, nullable=True),
    sa.Column("changes", Records, nullable=False),
    sa.Column("request_id", sa.String, nullable=False),
    # Set for sign-ins only: those with the same key are one row.
    sa.Column("merge_key", sa.String, nullable=True),
    sa.UniqueConstraint("merge_key"),
    # The columns after the id let several filters be checked, and counted, in the index alone.
    sa.Index("ix_audit_entry_actor", "actor", "id", "action", "tenant_id"),
    sa.Index("ix_audit_entry_action", "action", "id", "actor", "tenant_id"),
    sa.Index("ix_audit_entry_target", "target", "id"),
    sa.Index("ix_audit_entry_tenant_id", "tenant_id", "id", "actor", "action"),
)

# A backup, a restore, a copy or a move. `database_name` is a database that no tenant has: the one
# that is being filled, or the old one of a tenant that was replaced or moved.
_IS_MOVING = "kind = 'move' AND state IN ('queued', 'running', 'dropping')"
job = sa.Table(
    "job",
    metadata,
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
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant, nullable=True),
    sa.Column("bytes_done", sa.BigInteger, nullable=False),
    sa.Column("error", sa.String, nullable=True),
    # Whether it has suspended the tenant, which is activated again if the job fails.
    sa.Column("has_suspended", sa.Boolean, nullable=False),
    # The database that a move copies, which rejects writes until the job has ended.
    sa.Column("source_server_name", sa.String, nullable=True),
    sa.Column("source_database_name", sa.String, nullable=True),
    # Whether it has made the tenant read-only, which is undone at the end.
    sa.Column("has_made_read_only", sa.Boolean, nullable=False),
    # How a move is done, and why.
    sa.Column("note", sa.String, nullable=True),
    # Two moves of a tenant at the same time would undo each other's write fence.
    index_of_some("uq_job_tenant_id", _IS_MOVING, "tenant_id", unique=True),
    # Of a job that was queued: see `catalog.job_queue`.
    sa.Column("options", sa.String, nullable=True),
    # Whether an admin has cancelled it, for the process that runs it.
    sa.Column("is_cancelled", sa.Boolean, nullable=False),
    sa.Index("ix_job_state", "state"),
    # In the order of the claims: a backup of a large fleet is as many queued jobs.
    index_of_some("ix_job_queued", "state = 'queued'", "kind", "id"),
    sa.Index("ix_job_finished_at", "finished_at"),
    sa.Index("ix_job_tenant_id", "tenant_id", "id"),
)

# A notification of one target in the settings; the newest are kept after their end. Its id is the
# `webhook-id`, and the payload is what is sent.
notification = sa.Table(
    "notification",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("target", sa.String, nullable=False),
    sa.Column("event", sa.String, nullable=False),
    sa.Column("payload", sa.String, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    # Two processes that notice the same fact have the same key.
    sa.Column("key", sa.String, nullable=True),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    # Of the last attempt: when, and its result.
    sa.Column("attempted_at", Instant, nullable=True),
    sa.Column("result", sa.String, nullable=True),
    # Not before this time of the database's clock.
    sa.Column("next_at_ms", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("worker_id", sa.Uuid, nullable=True),
    sa.UniqueConstraint("target", "key"),
    sa.Index("ix_notification_target", "target", "state", "id"),
)

# How far the post events of a tenant were queued for a target that gets them: see
# `catalog.post_hooks`. Below, the process that reads the tenants of a target.
post_hook = sa.Table(
    "post_hook",
    metadata,
    sa.Column("target", sa.String, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenant.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("cursor", sa.String, nullable=False),
    sa.Index("ix_post_hook_tenant_id", "tenant_id"),
)
post_hook_target = sa.Table(
    "post_hook_target",
    metadata,
    sa.Column("target", sa.String, primary_key=True),
    sa.Column("worker_id", sa.Uuid, nullable=False),
)
