"""The connection of the driver: cursors of every kind, composed statements, its settings."""

from typing import Any

from tests.corpus.shape import NEITHER, POSTGRESQL, SQLITE, VERSION_TABLE, shape

_RAW = "raw = op.get_bind().connection.driver_connection"
_INSERT = "op.execute(\"INSERT INTO note (text) VALUES ('a')\")"
_PSYCOPG2: Any = {"engines": POSTGRESQL, "driver": "psycopg2"}
# Each commits or rolls back. Then the revision fails, so nothing of it may be left.
_BODIES = {
    "composed_commit_of_parts": """
word = psycopg.sql.SQL("COM") + psycopg.sql.SQL("MIT")
raw.cursor().execute(word)
""",
    "streamed_commit": 'list(raw.cursor().stream("COMMIT"))',
    "commit_of_a_client_cursor": 'psycopg.ClientCursor(raw).execute("COMMIT")',
    "commit_of_another_cursor": 'psycopg.Cursor(raw).execute("COMMIT")',
    "commit_of_another_cursor_factory": """
raw.cursor_factory = psycopg.ClientCursor
raw.execute("COMMIT")
""",
    "commit_by_keyword": 'raw.cursor().execute(query="COMMIT")',
}
_BODIES_2 = {
    "composed_commit": 'raw.cursor().execute(psycopg2.sql.SQL("COMMIT"))',
    "commit_of_a_cursor_factory": """
from psycopg2.extras import RealDictCursor
raw.cursor(cursor_factory=RealDictCursor).execute("COMMIT")
""",
    "commit_of_another_cursor_factory": """
from psycopg2.extras import DictCursor
raw.cursor_factory = DictCursor
raw.cursor().execute("COMMIT")
""",
    "commit_by_with": "with raw:\n    raw.cursor().execute(\"INSERT INTO note (text) VALUES ('b')\")",
    "rollback_by_reset": "raw.reset()",
}

_STATEMENT_TRIGGER = """
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen (text) VALUES ('statement'); RETURN NULL; END $$;
CREATE TRIGGER audit AFTER INSERT ON note FOR EACH STATEMENT EXECUTE FUNCTION audit();
"""

SHAPES = [
    *(
        shape(
            f"psycopg_{name}",
            f"import psycopg.sql\n{_INSERT}\n{_RAW}\n{body}\n1 / 0",
            fails=POSTGRESQL,
            engines=NEITHER,
        )
        for name, body in _BODIES.items()
    ),
    *(
        shape(
            f"psycopg2_{name}",
            f"import psycopg2.sql\n{_INSERT}\n{_RAW}\n{body}\n1 / 0",
            fails=POSTGRESQL,
            **_PSYCOPG2,
        )
        for name, body in _BODIES_2.items()
    ),
    shape(
        "psycopg_composed_commit",
        f'import psycopg.sql\n{_INSERT}\n{_RAW}\nraw.execute(psycopg.sql.SQL("COMMIT"))',
        engines=POSTGRESQL,
    ),
    shape(
        "psycopg_another_cursor",
        f'import psycopg\n{_RAW}\npsycopg.ClientCursor(raw).execute("SELECT 1")',
        engines=POSTGRESQL,
    ),
    shape(
        "psycopg_another_cursor_in_block",
        f"""
import psycopg
{_RAW}
with op.get_context().autocommit_block():
    psycopg.ClientCursor(raw).execute("CREATE TABLE made ()")
""",
        setup=VERSION_TABLE,
        engines=POSTGRESQL,
    ),
    shape(
        "psycopg2_isolation_level",
        f"{_INSERT}\n{_RAW}\nraw.set_isolation_level(0)",
        setup=VERSION_TABLE,
        **_PSYCOPG2,
    ),
    shape(
        "psycopg_autocommit",
        f"{_INSERT}\n{_RAW}\nraw.autocommit = True",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "psycopg2_autocommit",
        f"{_INSERT}\n{_RAW}\nraw.autocommit = True",
        fails=POSTGRESQL,
        **_PSYCOPG2,
    ),
    shape(
        "psycopg2_set_session",
        f"{_INSERT}\n{_RAW}\nraw.set_session(autocommit=True)",
        fails=POSTGRESQL,
        **_PSYCOPG2,
    ),
    shape(
        "psycopg_composed",
        f"""
from psycopg import sql
{_RAW}
insert = sql.SQL("INSERT INTO {{}} (text) VALUES ({{}})")
raw.execute(insert.format(sql.Identifier("note"), sql.Literal("50%; COMMIT")))
see(list(raw.cursor().stream("SELECT text FROM note ORDER BY id")))
with raw.cursor().copy("COPY note (text) FROM STDIN") as copy:
    copy.write_row(("copied",))
with raw.cursor("named") as named:
    see(named.execute("SELECT id FROM note ORDER BY id").fetchall())
""",
        engines=POSTGRESQL,
    ),
    shape(
        "psycopg2_cursors",
        f"""
import io
import psycopg2.sql as sql
from psycopg2.extras import DictCursor, RealDictCursor, execute_batch, execute_values
{_RAW}
insert = sql.SQL("INSERT INTO {{}} (text) VALUES ({{}})")
raw.cursor().execute(insert.format(sql.Identifier("note"), sql.Literal("50%; COMMIT")))
execute_values(raw.cursor(), "INSERT INTO note (text) VALUES %s", [("x%",), ("y",)])
execute_batch(raw.cursor(), "INSERT INTO note (text) VALUES (%s)", [("z",)])
raw.cursor().copy_expert("COPY note (text) FROM STDIN", io.StringIO("q\\nr\\n"))
for kind in (DictCursor, RealDictCursor):
    cursor = raw.cursor(cursor_factory=kind)
    cursor.execute("SELECT count(*) AS notes FROM note")
    see(cursor.fetchone()["notes"])
named = raw.cursor("named")
named.execute("SELECT id FROM note ORDER BY id")
see(named.fetchall())
""",
        **_PSYCOPG2,
    ),
    shape(
        "psycopg2_reads_and_writes",
        """
        rows = op.get_bind().execute(sa.text("SELECT id, text FROM note ORDER BY id")).all()
        see(rows)
        op.execute("INSERT INTO note (text) VALUES ('100%'), ('12:30')")
        op.bulk_insert(note, [{"text": "50%"}, {"text": None}])
        see(sa.inspect(op.get_bind()).has_table("note"))
        """,
        "see('recorded')",
        'see(op.get_bind().execute(note.insert().values(text="n").returning(note.c.id)).scalar())',
        **_PSYCOPG2,
    ),
    *(
        shape(
            f"{driver}_bulk_insert_with_trigger",
            'op.bulk_insert(note, [{"text": "a"}, {"text": "b"}])',
            'op.bulk_insert(note, [{"text": "c"}])',
            setup=_STATEMENT_TRIGGER,
            engines=POSTGRESQL,
            driver=driver,
        )
        for driver in ("psycopg", "psycopg2")
    ),
    shape(
        "type_named_hstore",
        "see(op.get_bind().scalar(sa.text('SELECT 1')))",
        setup="CREATE TYPE hstore AS (a text);",
        engines=POSTGRESQL,
    ),
    shape(
        "psycopg2_block",
        """
        with op.get_context().autocommit_block():
            op.create_index("ix_text", "note", ["text"], postgresql_concurrently=True)
        see("after")
        """,
        **_PSYCOPG2,
    ),
    shape(
        "psycopg2_compiled_by_the_implementation",
        """
        q = note.insert().values(text="50%")
        dialect = op.get_context().impl.dialect
        op.execute(str(q.compile(dialect=dialect, compile_kwargs={"literal_binds": True})))
        """,
        **_PSYCOPG2,
    ),
    shape(
        "sqlite_authorizer",
        f"{_RAW}\nraw.set_authorizer(None)\n{_INSERT}",
        engines=SQLITE,
    ),
    shape(
        "sqlite_backup",
        f"""
import sqlite3
{_RAW}
copy = sqlite3.connect(":memory:")
raw.backup(copy)
see(copy.execute("SELECT count(*) FROM note").fetchone())
""",
        engines=SQLITE,
    ),
    shape(
        "sqlite_functions_of_its_own",
        f"""
{_RAW}
raw.create_function("twice", 1, lambda value: value and value * 2)
op.execute("UPDATE person SET age = twice(age)")
""",
        engines=SQLITE,
    ),
]
