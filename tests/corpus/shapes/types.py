"""What a revision takes from other packages or from the dialect, and is recorded nevertheless."""

from tests.corpus.shape import BOTH, SQLITE, shape

# The real packages are not installed here. Their types are made like these.
_SQLMODEL = {
    "sqlmodel/__init__.py": "from .sql.sqltypes import AutoString",
    "sqlmodel/sql/__init__.py": "",
    "sqlmodel/sql/sqltypes.py": """
        from sqlalchemy import types

        class AutoString(types.TypeDecorator):
            impl = types.String
            cache_ok = True
            mysql_default_length = 255

            def load_dialect_impl(self, dialect):
                return super().load_dialect_impl(dialect)
    """,
}
_UTILS = {
    "sqlalchemy_utils/__init__.py": "from .types import uuid",
    "sqlalchemy_utils/types/__init__.py": "from . import uuid",
    "sqlalchemy_utils/types/uuid.py": """
        import sqlalchemy as sa
        from sqlalchemy.dialects import postgresql

        class UUIDType(sa.types.TypeDecorator):
            impl = sa.types.BINARY(16)
            cache_ok = True

            def load_dialect_impl(self, dialect):
                native = postgresql.UUID() if dialect.name == "postgresql" else self.impl
                return dialect.type_descriptor(native)
    """,
}

SHAPES = [
    shape(
        "type_of_sqlmodel",
        """
        op.create_table("item", sa.Column("id", sa.Integer),
                        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=9)))
        op.add_column("note", sa.Column("more", sqlmodel.AutoString(), nullable=True))
        """,
        "op.execute(\"INSERT INTO item VALUES (1, 'one')\")",
        head="import sqlmodel\nimport sqlmodel.sql.sqltypes",
        files=_SQLMODEL,
    ),
    shape(
        "type_of_sqlalchemy_utils",
        """
        op.create_table("item", sa.Column("id", sqlalchemy_utils.types.uuid.UUIDType()),
                        sa.Column("other", UUIDType))
        """,
        head="import sqlalchemy_utils\nfrom sqlalchemy_utils.types.uuid import UUIDType",
        files=_UTILS,
    ),
    shape(
        "value_of_a_foreign_type",
        """
        table = op.create_table("item", sa.Column("name", sqlmodel.AutoString))
        op.bulk_insert(table, [{"name": "one"}])
        """,
        head="import sqlmodel",
        files=_SQLMODEL,
    ),
    shape(
        "import_for_type_checking",
        'op.create_table("item", sa.Column("id", sa.Integer))',
        head="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import no_such_module",
    ),
    shape(
        "branch_by_dialect_name",
        """
        bind = op.get_bind()
        if bind.dialect.name == "postgresql":
            op.execute("ALTER TABLE note ADD COLUMN more jsonb")
        elif bind.engine.name == "sqlite":
            op.execute("ALTER TABLE note ADD COLUMN more blob")
        dialect = op.get_context().dialect.name
        op.execute(f"INSERT INTO note (text) VALUES ('{dialect}')")
        """,
    ),
    shape(
        "dialect_name_of_a_helper",
        """
        if is_sqlite(op.get_bind()):
            op.execute("INSERT INTO note (text) VALUES ('file')")
        """,
        head="def is_sqlite(bind):\n    return bind.dialect.name == 'sqlite'",
    ),
    shape(
        "connection_is_an_instance",
        """
        bind = op.get_bind()
        see(isinstance(bind, sa.Connection), bool(bind), isinstance(bind.engine, sa.Engine))
        """,
    ),
    shape(
        "batch_by_dialect_name",
        """
        if op.get_bind().dialect.name == "sqlite":
            with op.batch_alter_table("note") as batch:
                batch.add_column(sa.Column("more", sa.Integer))
        """,
        engines=SQLITE,
    ),
    shape(
        "uuid_of_a_constant",
        "op.execute(f\"INSERT INTO note (text) VALUES ('{uuid.UUID(int=5)}')\")",
        engines=BOTH,
    ),
]
