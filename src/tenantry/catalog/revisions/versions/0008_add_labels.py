"""Add the labels of tenants."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0008"
down_revision = "0007"

REMOVE = "DELETE FROM tenant_label WHERE tenant_id = OLD.id"
READ = {
    "postgresql": "jsonb_each_text(CAST(NEW.labels AS jsonb)) AS label (key, value)",
    "sqlite": "json_each(NEW.labels) AS label",
}


def upgrade(op: Operations) -> None:
    """Add the labels, and a table of them that triggers keep, with an index for selections."""
    op.add_column("tenant", sa.Column("labels", sa.String, nullable=False, server_default="{}"))
    op.create_table(
        "tenant_label",
        sa.Column("tenant_id", sa.Uuid, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("value", sa.String, nullable=False),
    )
    op.create_index("ix_tenant_label_key", "tenant_label", ["key", "value", "tenant_id"])
    engine = op.get_context().dialect.name
    add = f"INSERT INTO tenant_label SELECT NEW.id, label.key, label.value FROM {READ[engine]}"  # noqa: S608 - our own
    if engine == "postgresql":
        op.execute(
            "CREATE FUNCTION label_tenant() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN "
            f"IF TG_OP <> 'INSERT' THEN {REMOVE}; END IF; "
            f"IF TG_OP <> 'DELETE' THEN {add}; END IF; "
            "RETURN NULL; END $body$"
        )
        call = "FOR EACH ROW EXECUTE FUNCTION label_tenant()"
        actions = {"INSERT": call, "DELETE": call, "UPDATE OF labels": call}
    else:
        actions = {"INSERT": add, "DELETE": REMOVE, "UPDATE OF labels": f"{REMOVE}; {add}"}
        actions = {event: f"BEGIN {action}; END" for event, action in actions.items()}
    for event, action in actions.items():
        name = f"label_tenant_{event.split()[0].lower()}"
        op.execute(f"CREATE TRIGGER {name} AFTER {event} ON tenant {action}")
