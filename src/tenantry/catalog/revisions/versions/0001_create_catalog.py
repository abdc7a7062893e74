"""Create the catalog."""

from uuid import uuid4

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None

INSTANT = sa.DateTime(timezone=True)
CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")

# SQLite numbers rows itself in a column of this type alone.
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

ADD_NAME = (
    "INSERT INTO tenant_name (tenant_id, canonical_name) "
    "SELECT NEW.id, NEW.canonical_name WHERE NEW.state = 'ready'"
)
REMOVE_NAME = "DELETE FROM tenant_name WHERE tenant_id = OLD.id"
NAME_CHANGE = "UPDATE OF canonical_name, state"
# The columns of `tenant_count`, and those of `tenant` that they depend on.
COUNTED = {
    name: name for name in ("server_name", "state", "is_active", "is_read_only", "schema_revision")
} | {"is_failing": "failing_run_id"}


def upgrade(op: Operations) -> None:
    """Create every table, and give this catalog its name."""
    _create_catalog(op)
    _create_tenants(op)
    _create_counts(op)
    _create_search(op)
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
        sa.Column("owner_email", sa.String, nullable=True),
        sa.Column("requests_per_minute", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("failing_run_id", sa.Uuid, nullable=True),
        sa.Column("drifted_at", INSTANT, nullable=True),
        sa.Column("drift", sa.String, nullable=True),
        sa.Column("deleted_at", INSTANT, nullable=True),
        sa.UniqueConstraint("canonical_name", name="uq_tenant_canonical_name"),
        sa.UniqueConstraint(
            "database_name", "server_name", name="uq_tenant_database_name_server_name"
        ),
    )
    _index_tenants(op)
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


def _index_tenants(op: Operations) -> None:
    op.create_index("ix_tenant_schema_revision", "tenant", ["schema_revision", "canonical_name"])
    op.create_index("ix_tenant_server_name", "tenant", ["server_name", "canonical_name"])
    for name, condition, on_sqlite in (
        ("ix_tenant_failing", "failing_run_id IS NOT NULL", "failing_run_id IS NOT NULL"),
        ("ix_tenant_drifted", "drifted_at IS NOT NULL", "drifted_at IS NOT NULL"),
        ("ix_tenant_suspended", "NOT is_active", "is_active = 0"),
        ("ix_tenant_read_only", "is_read_only", "is_read_only = 1"),
    ):
        op.create_index(name, "tenant", ["canonical_name"], **_where(condition, on_sqlite))
    for name, column, condition in (
        ("ix_tenant_owner_email", "owner_email", "owner_email IS NOT NULL"),
        ("ix_tenant_deleted_at", "deleted_at", "deleted_at IS NOT NULL"),
        ("ix_tenant_unready", "state", "state <> 'ready'"),
    ):
        op.create_index(name, "tenant", [column], **_where(condition))


def _where(condition: str, on_sqlite: str | None = None) -> dict[str, sa.TextClause]:
    return {
        "postgresql_where": sa.text(condition),
        "sqlite_where": sa.text(on_sqlite or condition),
    }


def _create_counts(op: Operations) -> None:
    op.create_table(
        "tenant_count",
        sa.Column("server_name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("is_read_only", sa.Boolean, nullable=False),
        sa.Column("schema_revision", sa.String, nullable=True),
        sa.Column("is_failing", sa.Boolean, nullable=False),
        sa.Column("tenants", sa.BigInteger, nullable=False),
    )
    if op.get_context().dialect.name == "postgresql":
        # Rows are only added: changes in place would wait for each other.
        op.execute(
            "CREATE FUNCTION count_tenant() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN "
            f"IF TG_OP <> 'INSERT' THEN {_add_count('OLD', -1)} END IF; "
            f"IF TG_OP <> 'DELETE' THEN {_add_count('NEW', 1)} END IF; "
            "RETURN NULL; END $body$"
        )
        call = "FOR EACH ROW EXECUTE FUNCTION count_tenant()"
        actions = {"INSERT": call, "DELETE": call, "UPDATE": call}
    else:
        change = "UPDATE tenant_count SET tenants = tenants"
        subtract = f"{change} - 1 WHERE {_same('OLD')};"
        add = f"{_add_count('NEW', 0, unless=_same('NEW'))} {change} + 1 WHERE {_same('NEW')};"
        empty = "DELETE FROM tenant_count WHERE tenants = 0;"
        actions = {"INSERT": add, "DELETE": subtract + empty, "UPDATE": subtract + add + empty}
        actions = {event: f"BEGIN {action} END" for event, action in actions.items()}
    for event, action in actions.items():
        name = f"count_tenant_{event.lower()}"
        columns = f" OF {', '.join(COUNTED.values())}" if event == "UPDATE" else ""
        op.execute(f"CREATE TRIGGER {name} AFTER {event}{columns} ON tenant {action}")


def _value(row: str, name: str) -> str:
    return f"{row}.failing_run_id IS NOT NULL" if name == "is_failing" else f"{row}.{name}"


def _same(row: str) -> str:
    return " AND ".join(f"{name} IS ({_value(row, name)})" for name in COUNTED)


def _add_count(row: str, change: int, *, unless: str | None = None) -> str:
    values = ", ".join(_value(row, name) for name in COUNTED)
    same = "SELECT 1 FROM tenant_count WHERE"
    condition = f"WHERE NOT EXISTS ({same} {unless})" if unless else ""
    return f"INSERT INTO tenant_count SELECT {values}, {change} {condition};"


def _create_search(op: Operations) -> None:
    """List the names of ready tenants, with an index of their trigrams.

    It needs no extension on PostgreSQL.
    """
    is_postgresql = op.get_context().dialect.name == "postgresql"
    op.create_table(
        "tenant_name",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("canonical_name", CANONICAL, nullable=False),
        sa.UniqueConstraint("tenant_id", name="uq_tenant_name_tenant_id"),
        sa.UniqueConstraint("canonical_name", name="uq_tenant_name_canonical_name"),
    )
    if is_postgresql:
        op.execute(
            "CREATE FUNCTION tenant_trigrams(name text) RETURNS text[] "
            "LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ARRAY("
            "SELECT substr(name, i, 3) FROM generate_series(1, char_length(name) - 2) AS i)"
        )
        op.execute(
            "CREATE INDEX ix_tenant_name_trigrams ON tenant_name "
            "USING gin (tenant_trigrams(canonical_name)) WITH (fastupdate = off)"
        )
        op.execute(
            "CREATE FUNCTION name_tenant() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN "
            f"IF TG_OP <> 'INSERT' THEN {REMOVE_NAME}; END IF; "
            f"IF TG_OP <> 'DELETE' THEN {ADD_NAME}; END IF; "
            "RETURN NULL; END $body$"
        )
        call = "FOR EACH ROW EXECUTE FUNCTION name_tenant()"
        actions = {"INSERT": call, "DELETE": call, NAME_CHANGE: call}
    else:
        actions = {"INSERT": ADD_NAME, "DELETE": REMOVE_NAME}
        actions[NAME_CHANGE] = f"{REMOVE_NAME}; {ADD_NAME}"
        actions = {event: f"BEGIN {action}; END" for event, action in actions.items()}
        _create_trigrams_on_sqlite(op)
    for event, action in actions.items():
        name = f"name_tenant_{event.split()[0].lower()}"
        op.execute(f"CREATE TRIGGER {name} AFTER {event} ON tenant {action}")


def _create_trigrams_on_sqlite(op: Operations) -> None:
    index = "tenant_name_trigrams"
    op.execute(
        f"CREATE VIRTUAL TABLE {index} USING fts5(canonical_name, content='tenant_name', "
        "content_rowid='number', tokenize='trigram case_sensitive 1')"
    )
    add = "(rowid, canonical_name) VALUES (NEW.number, NEW.canonical_name)"
    remove = f"({index}, rowid, canonical_name) VALUES ('delete', OLD.number, OLD.canonical_name)"
    for event, values in (("INSERT", add), ("DELETE", remove)):
        op.execute(
            f"CREATE TRIGGER index_tenant_name_{event.lower()} AFTER {event} ON tenant_name "
            f"BEGIN INSERT INTO {index} {values}; END"
        )


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
        sa.Column("planner_id", sa.Uuid, nullable=True),
        sa.Column("unopened_count", sa.Integer, nullable=False, server_default="0"),
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
        "ix_tenant_migration_server_name",
        "tenant_migration",
        ["run_id", "server_name", "tenant_id"],
        **_where("state = 'Pending'"),
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
        sa.Column("note", sa.String, nullable=True),
        sa.Column("options", sa.String, nullable=True),
        sa.Column("is_cancelled", sa.Boolean, nullable=False),
    )
    op.create_index("ix_job_state", "job", ["state"])
    op.create_index("ix_job_queued", "job", ["kind", "id"], **_where("state = 'queued'"))
    op.create_index("ix_job_finished_at", "job", ["finished_at"])
    op.create_index("ix_job_tenant_id", "job", ["tenant_id", "id"])
    is_moving = "kind = 'move' AND state IN ('queued', 'running', 'dropping')"
    op.create_index("uq_job_tenant_id", "job", ["tenant_id"], unique=True, **_where(is_moving))
