"""Scope the name of a database to its server."""

from alembic.operations import Operations

revision = "0004"
down_revision = "0003"


def upgrade(op: Operations) -> None:
    """Let two servers have a database of one name; the code before never asks for that."""
    with op.batch_alter_table("tenant") as tenant:
        tenant.drop_constraint("uq_tenant_database_name", type_="unique")
        tenant.create_unique_constraint(
            "uq_tenant_server_name_database_name", ["server_name", "database_name"]
        )
