"""Batch mode."""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE, shape

_FAMILY = """
CREATE TABLE parent (id INTEGER PRIMARY KEY, text VARCHAR(80));
CREATE TABLE child (id INTEGER PRIMARY KEY, of INTEGER REFERENCES parent (id) ON DELETE CASCADE);
INSERT INTO parent VALUES (1, 'a');
INSERT INTO child VALUES (1, 1);
"""
# In an application, it is next to the models.
_LISTENER = """
from sqlalchemy import Engine, event

@event.listens_for(Engine, "connect")
def turn_foreign_keys_on(raw, record):
    raw.execute("PRAGMA foreign_keys = ON")
"""

SHAPES = [
    shape(
        "batch_add_column",
        """
        with op.batch_alter_table("person", schema=None) as batch_op:
            batch_op.add_column(sa.Column("nick", sa.String(length=32), nullable=True))
            batch_op.create_index(batch_op.f("ix_person_nick"), ["nick"], unique=False)
        """,
    ),
    shape(
        "batch_alter_column",
        """
        with op.batch_alter_table("person") as batch_op:
            batch_op.alter_column("age", existing_type=sa.Integer(), type_=sa.String(10))
            batch_op.alter_column("name", new_column_name="called", existing_type=sa.String(80))
        """,
    ),
    shape(
        "batch_drop_column",
        """
        with op.batch_alter_table("person") as batch_op:
            batch_op.drop_column("age")
        """,
    ),
    shape(
        "batch_constraints",
        """
        with op.batch_alter_table("person") as batch_op:
            batch_op.create_check_constraint("ck_age", sa.text("age > 0"))
            batch_op.create_unique_constraint("uq_age", ["age"])
            batch_op.create_foreign_key("fk_age", "note", ["age"], ["id"])
            batch_op.alter_column("age", nullable=True, server_default="1")
        """,
        engines=SQLITE,
    ),
    shape(
        "batch_not_null_fails",
        """
        with op.batch_alter_table("person") as batch_op:
            batch_op.alter_column("age", existing_type=sa.Integer(), nullable=False)
        """,
        fails=BOTH,
    ),
    shape(
        "batch_recreate_always",
        """
        with op.batch_alter_table("person", recreate="always") as batch_op:
            batch_op.add_column(sa.Column("first", sa.Integer), insert_before="name")
        """,
        engines=SQLITE,
    ),
    shape(
        "batch_recreate_never",
        """
        with op.batch_alter_table("person", recreate="never") as batch_op:
            batch_op.add_column(sa.Column("more", sa.Integer))
        """,
    ),
    shape(
        "batch_copy_from",
        """
        table = sa.Table("note", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                         sa.Column("text", sa.String(80)))
        with op.batch_alter_table("note", copy_from=table) as batch_op:
            batch_op.alter_column("text", type_=sa.Text)
        """,
        engines=SQLITE,
    ),
    shape(
        "batch_reflect_args",
        """
        with op.batch_alter_table(
            "person", reflect_args=[sa.Column("age", sa.SmallInteger)],
            table_args=[sa.CheckConstraint("age < 200", name="ck_age")], recreate="always",
        ) as batch_op:
            batch_op.drop_column("note_id")
        """,
        engines=SQLITE,
    ),
    shape(
        "batch_naming_convention",
        """
        convention = {"uq": "uq_%(table_name)s_%(column_0_name)s"}
        with op.batch_alter_table("person", naming_convention=convention) as batch_op:
            batch_op.drop_constraint("uq_loose_age", type_="unique")
        """.replace('"person"', '"loose"'),
        setup="CREATE TABLE loose (id INTEGER PRIMARY KEY, age INTEGER, UNIQUE (age));",
        engines=SQLITE,
    ),
    shape(
        "batch_of_referenced_table",
        """
        with op.batch_alter_table("note") as batch_op:
            batch_op.alter_column("text", type_=sa.Text(), existing_type=sa.String(80))
        op.execute("INSERT INTO person (name, note_id) VALUES ('Cleo', 2)")
        """,
    ),
    shape(
        "batch_with_trigger_and_view",
        """
        with op.batch_alter_table("person") as batch_op:
            batch_op.add_column(sa.Column("more", sa.Integer))
            batch_op.alter_column("age", type_=sa.Text(), existing_type=sa.Integer())
        """,
        setup="CREATE VIEW notes AS SELECT text FROM note;",
        engines=SQLITE,
    ),
    shape(
        "batch_rename_table_after",
        """
        with op.batch_alter_table("person") as batch_op:
            batch_op.drop_column("age")
        op.rename_table("person", "people")
        """,
        "op.execute(\"INSERT INTO people (name) VALUES ('Renamed')\")",
    ),
    shape(
        "batch_table_comment",
        """
        with op.batch_alter_table("note") as batch_op:
            batch_op.create_table_comment("said in a batch")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "batch_empty",
        """
        with op.batch_alter_table("note") as batch_op:
            pass
        """,
    ),
    shape(
        "batch_error_inside",
        """
        with op.batch_alter_table("note") as batch_op:
            batch_op.add_column(sa.Column("more", sa.Integer))
            raise RuntimeError("inside the batch")
        """,
        fails=BOTH,
    ),
    shape(
        "batch_with_data_between",
        """
        with op.batch_alter_table("note") as batch_op:
            batch_op.add_column(sa.Column("kind", sa.String(9), nullable=True))
        op.execute("UPDATE note SET kind = 'k'")
        with op.batch_alter_table("note") as batch_op:
            batch_op.alter_column("kind", existing_type=sa.String(9), nullable=False)
        """,
    ),
    shape(
        "batch_by_hand",
        """
        op.execute("CREATE TABLE note_new (id INTEGER PRIMARY KEY, text TEXT NOT NULL DEFAULT '')")
        op.execute("INSERT INTO note_new SELECT id, coalesce(text, '') FROM note")
        op.drop_table("note")
        op.rename_table("note_new", "note")
        """,
        engines=SQLITE,
    ),
    shape(
        "batch_with_a_listener_for_foreign_keys",
        """
        with op.batch_alter_table("parent") as batch_op:
            batch_op.alter_column("text", type_=sa.Text(), existing_type=sa.String(80))
        sa.event.remove(sa.Engine, "connect", models.turn_foreign_keys_on)
        """,
        head="import models",
        files={"models.py": _LISTENER},
        setup=_FAMILY,
        engines=SQLITE,
    ),
]
