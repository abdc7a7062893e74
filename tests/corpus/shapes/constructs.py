"""Constructs whose recorded text could differ from what a driver sends."""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE, shape

_APP = """
CREATE SCHEMA app;
CREATE TABLE app.note (id SERIAL PRIMARY KEY, text VARCHAR(80));
INSERT INTO app.note (text) VALUES ('q');
DELETE FROM person;
"""
_TABLE = """
t = sa.Table("note", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
             sa.Column("text", sa.String))
to_app = {"schema_translate_map": {None: "app"}}
"""
_RANKED = """
op.execute("CREATE TABLE ranked (k INTEGER, v INTEGER)")
op.execute("INSERT INTO ranked VALUES (5, 1), (3, 2), (4, 3)")
r = sa.table("ranked", sa.column("k", sa.Integer), sa.column("v", sa.Integer))
"""

SHAPES = [
    shape(
        "translated_insert",
        f'{_TABLE}op.execute(t.insert().values(text="x").execution_options(**to_app))',
        engines=POSTGRESQL,
        setup=_APP,
    ),
    shape(
        "translated_update",
        f'{_TABLE}op.execute(t.update().values(text="u").execution_options(**to_app))',
        engines=POSTGRESQL,
        setup=_APP,
    ),
    shape(
        "translated_delete",
        f"{_TABLE}op.execute(t.delete().where(t.c.id > 0).execution_options(**to_app))",
        engines=POSTGRESQL,
        setup=_APP,
    ),
    shape(
        "translated_table",
        """
        made = sa.Table("made", sa.MetaData(), sa.Column("id", sa.Integer))
        to_app = {"schema_translate_map": {None: "app"}}
        op.execute(sa.schema.CreateTable(made).execution_options(**to_app))
        """,
        engines=POSTGRESQL,
        setup=_APP,
    ),
    shape(
        "translated_insert_of_sqlite",
        f"""{_TABLE}
op.execute("CREATE TEMP TABLE note (id INTEGER PRIMARY KEY, text VARCHAR(80))")
to_temp = {{"schema_translate_map": {{None: "main"}}}}
op.execute(t.insert().values(text="x").execution_options(**to_temp))
""",
        engines=SQLITE,
    ),
    shape(
        "order_by_integer",
        f"""{_RANKED}
first = sa.select(r.c.k).order_by(sa.literal(1)).limit(1)
op.execute(r.delete().where(r.c.k.in_(first)))
""",
    ),
    shape(
        "order_by_integer_of_a_union",
        f"""{_RANKED}
both = sa.union_all(sa.select(r.c.k).where(r.c.v > 1), sa.select(r.c.k).where(r.c.v == 1))
op.execute(r.delete().where(r.c.k.in_(both.order_by(sa.literal(1)).limit(1))))
""",
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "distinct_on_integer",
        """
        once = sa.select(note.c.text).distinct(sa.literal(1))
        op.execute(seen.insert().from_select(["text"], once))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "group_by_integer",
        """
        most = sa.select(sa.func.max(note.c.text)).group_by(sa.literal(1))
        op.execute(seen.insert().from_select(["text"], most))
        """,
    ),
    shape(
        "limit_with_integers",
        """
        first = sa.select(note.c.id).where(note.c.id > 1).order_by(note.c.id).limit(1).offset(0)
        op.execute(note.update().where(note.c.id.in_(first)).values(text="first"))
        """,
    ),
    shape(
        "minus_of_a_negative",
        "op.execute(person.update().where(person.c.id == 1).values(age=-sa.literal(-5)))",
    ),
    shape(
        "minus_of_a_negative_at_the_end",
        "op.execute(person.delete().where(person.c.age > -sa.literal(-5)))",
    ),
    shape(
        "bulk_insert_of_functions",
        """op.bulk_insert(note, [{"text": sa.func.upper(sa.text("'x'"))}])""",
        fails=BOTH,
    ),
    shape("bulk_insert_of_null", 'op.bulk_insert(note, [{"text": sa.null()}])', fails=BOTH),
    shape(
        "bulk_insert_of_text",
        """op.bulk_insert(note, [{"text": sa.text("CURRENT_DATE")}])""",
        fails=BOTH,
    ),
    shape(
        "bulk_insert_of_inline_literals",
        'op.bulk_insert(note, [{"text": op.inline_literal("x")}])',
        fails=BOTH,
    ),
    shape(
        "inline_literals_one_by_one",
        'op.bulk_insert(note, [{"text": op.inline_literal("x")}], multiinsert=False)',
    ),
    shape(
        "compiled_by_the_implementation",
        """
        q = note.insert().values(text="50%")
        dialect = op.get_context().impl.dialect
        op.execute(str(q.compile(dialect=dialect, compile_kwargs={"literal_binds": True})))
        """,
    ),
    shape(
        "quoted_by_the_implementation",
        """
        quote = op.get_context().impl.dialect.identifier_preparer.quote
        op.execute("CREATE TABLE " + quote("100% sure") + " (id int)")
        """,
    ),
    shape(
        "literal_of_the_implementation",
        """
        process = sa.String().literal_processor(op.get_context().impl.dialect)
        op.execute("INSERT INTO note (text) VALUES (" + process("100% it's") + ")")
        """,
    ),
    shape("paramstyle_of_the_implementation", "see(op.get_context().impl.dialect.paramstyle)"),
    shape("driver_of_the_implementation", "see(op.get_context().impl.dialect.dbapi.__name__)"),
    shape(
        "dialect_of_a_batch",
        """
        with op.batch_alter_table("note") as batch_op:
            see(batch_op.impl.dialect.paramstyle)
        """,
    ),
    shape("name_of_the_implementation", "see(op.get_context().impl.dialect.name)"),
    shape(
        "expression_of_the_implementation",
        """
        see(op.get_context().impl.render_ddl_sql_expr(sa.literal("50%") + sa.column("a%b")))
        """,
    ),
    shape(
        "texts_into_other_types",
        """
        op.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
        op.execute("CREATE TABLE typed (v mood, n int, j jsonb)")
        typed = sa.table("typed", *(sa.column(name, sa.String) for name in "vnj"))
        op.bulk_insert(typed, [{"v": "a", "n": "5", "j": "{}"}])
        """,
        engines=POSTGRESQL,
        driver="psycopg2",
    ),
    shape(
        "lastval_of_an_earlier_revision",
        "op.execute(\"INSERT INTO note (text) VALUES ('n')\")",
        'op.execute("INSERT INTO seen (text) SELECT lastval()::text")',
        engines=POSTGRESQL,
    ),
    shape(
        "last_insert_rowid_of_an_earlier_revision",
        "pass",
        "op.execute(\"INSERT INTO note (id, text) VALUES (77, 'n')\")",
        'op.execute("INSERT INTO seen (text) SELECT last_insert_rowid()")',
        engines=SQLITE,
    ),
    shape("analyze_of_sqlite", 'op.execute("ANALYZE")', engines=SQLITE),
    shape(
        "statement_timestamps",
        """
        op.execute("CREATE TABLE at (t timestamptz DEFAULT statement_timestamp())")
        op.execute("INSERT INTO at DEFAULT VALUES")
        op.execute("INSERT INTO at DEFAULT VALUES")
        op.execute("INSERT INTO seen (text) SELECT count(DISTINCT t) FROM at")
        """,
        engines=POSTGRESQL,
        varies=("at.t",),
    ),
    shape(
        "element_of_an_array",
        """
        op.execute("ALTER TABLE note ADD COLUMN tags int[] DEFAULT '{1,2,3}'")
        tags = sa.column("tags", postgresql.ARRAY(sa.Integer))
        op.execute(sa.table("note", tags).update().values({tags[2]: 9}))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "current_query_in_trigger",
        """
        op.execute("INSERT INTO note (text) VALUES ('a')")
        op.execute("INSERT INTO note (text) VALUES ('b')")
        """,
        setup="CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO seen (text) VALUES (current_query()); RETURN NULL; END $$; "
        "CREATE TRIGGER audit AFTER INSERT ON note FOR EACH ROW EXECUTE FUNCTION audit();",
        engines=POSTGRESQL,
    ),
]
