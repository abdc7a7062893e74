"""Add names of labelled tenants to their labels, for pages of a label in the order of the names."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0012"
down_revision = "0011"

REMOVE = "DELETE FROM tenant_label WHERE tenant_id = OLD.id"
READ = {
    "postgresql": "jsonb_each_text(CAST(NEW.labels AS jsonb)) AS label (key, value)",
    "sqlite": "json_each(NEW.labels) AS label",
}
CANONICAL = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    """Add the names of ready tenants, which triggers keep, and an index with them."""
    op.add_column("tenant_label", sa.Column("canonical_name", CANONICAL, nullable=True))
    op.execute(
        "UPDATE tenant_label SET canonical_name = (SELECT tenant.canonical_name FROM tenant "
        "WHERE tenant.id = tenant_label.tenant_id AND tenant.state = 'ready')"
    )
    op.drop_index("ix_tenant_label_key", "tenant_label")
    op.create_index(
        "ix_tenant_label_key", "tenant_label", ["key", "value", "canonical_name", "tenant_id"]
    )
    engine = op.get_context().dialect.name
    add = (
        "INSERT INTO tenant_label (tenant_id, key, value, canonical_name) SELECT NEW.id, "  # noqa: S608 - our own
        "label.key, label.value, CASE WHEN NEW.state = 'ready' THEN NEW.canonical_name END "
        f"FROM {READ[engine]}"
    )
    change = "UPDATE OF labels, canonical_name, state"
    if engine == "postgresql":
        op.execute(
            "CREATE OR REPLACE FUNCTION label_tenant() RETURNS trigger LANGUAGE plpgsql "
            f"AS $body$ BEGIN IF TG_OP <> 'INSERT' THEN {REMOVE}; END IF; "
            f"IF TG_OP <> 'DELETE' THEN {add}; END IF; "
            "RETURN NULL; END $body$"
        )
        call = "FOR EACH ROW EXECUTE FUNCTION label_tenant()"
        actions = {change: call}
        on = " ON tenant"
    else:
        actions = {"INSERT": f"BEGIN {add}; END", change: f"BEGIN {REMOVE}; {add}; END"}
        on = ""
    for event, action in actions.items():
        name = f"label_tenant_{event.split()[0].lower()}"
        op.execute(f"DROP TRIGGER {name}{on}")
        op.execute(f"CREATE TRIGGER {name} AFTER {event} ON tenant {action}")
