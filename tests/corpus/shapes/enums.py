"""Enumerations and other types of PostgreSQL."""

from tests.corpus.shape import POSTGRESQL, shape

SHAPES = [
    shape(
        "enum_in_table",
        """
        op.create_table("task", sa.Column("id", sa.Integer),
                        sa.Column("state", sa.Enum("new", "it's", "100%", name="task_state")))
        op.execute("INSERT INTO task VALUES (1, 'it''s')")
        """,
    ),
    shape(
        "enum_created_first",
        """
        state = postgresql.ENUM("new", "done", name="task_state", create_type=False)
        state.create(op.get_bind(), checkfirst=False)
        op.create_table("task", sa.Column("id", sa.Integer), sa.Column("state", state))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "enum_checkfirst",
        """
        state = sa.Enum("new", "done", name="task_state")
        state.create(op.get_bind(), checkfirst=True)
        op.add_column("note", sa.Column("state", state, server_default="new"))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "enum_that_exists",
        """
        state = postgresql.ENUM("new", "done", name="task_state")
        state.create(op.get_bind(), checkfirst=True)
        state.create(op.get_bind(), checkfirst=True)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "enum_created_twice",
        """
        op.create_table("a", sa.Column("s", postgresql.ENUM("x", name="kind")))
        op.create_table("b", sa.Column("s", postgresql.ENUM("x", name="kind")))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "enum_add_value",
        "op.execute(\"CREATE TYPE mood AS ENUM ('a', 'b')\")",
        "op.execute(\"ALTER TYPE mood ADD VALUE 'c' AFTER 'a'\")",
        engines=POSTGRESQL,
    ),
    shape(
        "enum_add_value_if_not_exists",
        "op.execute(\"CREATE TYPE mood AS ENUM ('a', 'b')\")",
        "op.execute(\"ALTER TYPE mood ADD VALUE IF NOT EXISTS 'b'\")",
        engines=POSTGRESQL,
    ),
    shape(
        "enum_add_value_in_block",
        "pass",
        """
        with op.get_context().autocommit_block():
            op.execute("ALTER TYPE mood ADD VALUE 'c'")
        """,
        "op.execute(\"ALTER TABLE note ADD COLUMN mood mood DEFAULT 'c'\")",
        setup="CREATE TYPE mood AS ENUM ('a', 'b');",
        engines=POSTGRESQL,
    ),
    shape(
        "enum_value_used_at_once",
        """
        op.execute("ALTER TYPE mood ADD VALUE 'c'")
        op.execute("ALTER TABLE note ADD COLUMN mood mood DEFAULT 'c'")
        """,
        setup="CREATE TYPE mood AS ENUM ('a', 'b');",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "enum_rename_value",
        """
        op.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
        op.execute("ALTER TYPE mood RENAME VALUE 'a' TO 'z'")
        op.execute("ALTER TYPE mood RENAME TO feeling")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "enum_exchanged",
        """
        op.execute("ALTER TYPE mood RENAME TO mood_old")
        op.execute("CREATE TYPE mood AS ENUM ('b', 'c')")
        op.execute("ALTER TABLE felt ALTER COLUMN mood TYPE mood USING mood::text::mood")
        op.execute("DROP TYPE mood_old")
        """,
        setup="CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE felt (mood mood);"
        "INSERT INTO felt VALUES ('b');",
        engines=POSTGRESQL,
    ),
    shape(
        "enum_drop",
        """
        op.execute("CREATE TYPE mood AS ENUM ('a')")
        sa.Enum(name="mood").drop(op.get_bind(), checkfirst=False)
        sa.Enum(name="mood").drop(op.get_bind(), checkfirst=True)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "enum_of_python",
        """
        class Color(enum.Enum):
            RED = "r"
            GREEN = "g"
        table = op.create_table("paint", sa.Column("id", sa.Integer),
                                sa.Column("color", sa.Enum(Color, name="color")))
        op.bulk_insert(table, [{"id": 1, "color": Color.RED}, {"id": 2, "color": None}])
        op.execute(table.insert().values(id=3, color=Color.GREEN))
        see(op.get_bind().execute(sa.select(table.c.color).order_by(table.c.id)).scalars().all())
        """,
        head="import enum\n",
    ),
    shape(
        "enum_not_native",
        """
        kind = sa.Enum("a", "b", name="kind", native_enum=False, create_constraint=True)
        table = op.create_table("item", sa.Column("id", sa.Integer), sa.Column("kind", kind))
        op.bulk_insert(table, [{"id": 1, "kind": "b"}])
        """,
    ),
    shape(
        "enum_wrong_value",
        """
        table = op.create_table("item", sa.Column("kind", sa.Enum("a", "b", name="kind")))
        op.bulk_insert(table, [{"kind": "c"}])
        """,
        fails=POSTGRESQL,
    ),
    shape(
        "enum_array",
        """
        op.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
        moods = postgresql.ARRAY(postgresql.ENUM("a", "b", name="mood", create_type=False))
        table = op.create_table("day", sa.Column("id", sa.Integer), sa.Column("moods", moods))
        op.bulk_insert(table, [{"id": 1, "moods": ["b", "a"]}])
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "domain_and_composite",
        """
        op.execute("CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100)")
        op.execute("CREATE TYPE point2 AS (x int, y int)")
        op.execute("ALTER TABLE note ADD COLUMN p percent DEFAULT 5, ADD COLUMN q point2")
        op.execute("UPDATE note SET q = ROW(1, 2)")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "domain_construct",
        """
        op.create_table("rated", sa.Column("r", postgresql.DOMAIN(
            "rating", sa.Integer, check="VALUE < 6")))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "boolean_with_constraint",
        """
        op.create_table("flagged", sa.Column(
            "f", sa.Boolean(create_constraint=True, name="ck_f"), nullable=False))
        """,
    ),
]
