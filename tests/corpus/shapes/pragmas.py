"""Pragmas of SQLite."""

from tests.corpus.shape import SQLITE, shape

_OFF, _ON = (f"op.execute('PRAGMA foreign_keys={one}')\n" for one in ("OFF", "ON"))
_CASCADE = """
    CREATE TABLE owned (id INTEGER PRIMARY KEY, note INTEGER REFERENCES note ON DELETE CASCADE);
    INSERT INTO owned VALUES (1, 1), (2, 2);
"""
_REBUILD = """
with op.batch_alter_table("note") as batch:
    batch.alter_column("text", nullable=True, type_=sa.Text)
"""
_ADD = "op.execute('ALTER TABLE note ADD COLUMN more TEXT')\n"
_BREAK = "op.execute(\"INSERT INTO person (name, note_id) VALUES ('Cleo', 99)\")\n"

SHAPES = [
    shape(
        "pragma_foreign_keys_around_batch",
        _OFF + _REBUILD + _ON,
        _REBUILD.replace("Text", "String(99)"),
        _OFF + "op.execute('DELETE FROM owned WHERE id = 2')\n" + _ON,
        setup=_CASCADE,
        engines=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_around_column",
        _OFF + _ADD + _ON,
        "op.execute(\"INSERT INTO person (name, note_id) VALUES ('Cleo', 2)\")",
        _OFF + _REBUILD + _ON,
        setup=_CASCADE,
        engines=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_of_the_dialect",
        """
        bind = op.get_bind()
        if bind.dialect.name == "sqlite":
            bind.execute(sa.text("PRAGMA foreign_keys = 0"))
        op.add_column("note", sa.Column("more", sa.Integer))
        if bind.dialect.name == "sqlite":
            bind.execute(sa.text("PRAGMA foreign_keys = 1"))
        """,
    ),
    shape(
        "pragma_foreign_keys_violated_after_on",
        _OFF + _ON + _BREAK,
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_violated_later",
        *(_OFF + _ADD + _ON, _BREAK),
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_cascade_after_on",
        *(_OFF + _ADD + _ON, "op.execute('DELETE FROM note WHERE id = 2')"),
        setup=_CASCADE,
        engines=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_table_rebuilt_after_on",
        *(_OFF + _ADD + _ON, _REBUILD),
        setup=_CASCADE + "UPDATE person SET note_id = NULL;",
        engines=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_empty_table_rebuilt_after_on",
        *(_OFF + _ADD + _ON, _REBUILD),
        setup=_CASCADE + "DELETE FROM owned; UPDATE person SET note_id = NULL;",
        engines=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_written_in_another_way_before_on",
        _OFF
        + "op.execute(\"WITH a AS (SELECT 'k') INSERT INTO seen (text) SELECT * FROM a\")\n"
        + _ON,
        _BREAK,
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_deleted_before_on",
        *(_OFF + "op.execute('DELETE FROM seen')\n" + _ON, _BREAK),
        engines=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_other_writes_after_on",
        _OFF + _ADD + _ON,
        """
        op.execute("INSERT OR REPLACE INTO seen (id, text) VALUES (1, 'new')")
        op.execute("INSERT INTO note (id, text) VALUES (9, replace('old', 'old', 'new'))")
        op.execute("UPDATE note SET text = 'changed'")
        op.execute("DELETE FROM owned WHERE id = 2")
        """,
        setup=_CASCADE,
        engines=SQLITE,
    ),
    shape(
        "pragmas_of_the_connection",
        """
        op.execute("PRAGMA synchronous = NORMAL")
        op.execute("PRAGMA busy_timeout = 5000")
        op.execute("PRAGMA temp_store = MEMORY")
        op.execute("PRAGMA locking_mode = NORMAL")
        op.execute("PRAGMA cache_size = -20000")
        op.execute("PRAGMA defer_foreign_keys = ON")
        op.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        op.execute("PRAGMA optimize")
        """,
        setup="PRAGMA journal_mode = WAL",
        engines=SQLITE,
    ),
    shape(
        "pragma_journal_mode_other_than_wal",
        "op.execute('PRAGMA journal_mode = DELETE')",
        setup="PRAGMA journal_mode = WAL",
        engines=SQLITE,
    ),
    shape(
        "pragma_case_sensitive_like",
        "op.execute('PRAGMA case_sensitive_like = ON')",
        "op.execute(\"UPDATE note SET text = 'found' WHERE text LIKE 'ON%'\")",
        engines=SQLITE,
    ),
    shape(
        "pragma_legacy_alter_table",
        """
        op.execute("PRAGMA legacy_alter_table = ON")
        op.rename_table("note", "other")
        op.execute("PRAGMA legacy_alter_table = OFF")
        """,
        setup="CREATE VIEW notes AS SELECT * FROM note;",
        engines=SQLITE,
    ),
]
