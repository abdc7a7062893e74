"""Transactions, savepoints, autocommit blocks, commits and rollbacks, settings, timeouts."""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE, VERSION_TABLE, shape

_BEFORE = "op.execute(\"INSERT INTO note (text) VALUES ('before')\")\n"
_AFTER = "\nop.execute(\"INSERT INTO note (text) VALUES ('after')\")"
_FAIL = "\nraise ValueError('at the end')"


def _block(body: str) -> str:
    return f"with op.get_context().autocommit_block():\n    {body}"


SHAPES = [
    shape(
        "block_with_concurrent_index",
        _block('op.create_index("ix", "note", ["text"], postgresql_concurrently=True)'),
    ),
    shape(
        "block_between_revisions",
        "op.execute(\"INSERT INTO note (text) VALUES ('a')\")",
        _block('op.create_index("ix", "note", ["text"], postgresql_concurrently=True)'),
        "op.execute(\"INSERT INTO note (text) VALUES ('b')\")",
        engines=POSTGRESQL,
    ),
    shape(
        "block_with_work_around_it",
        _BEFORE
        + _block('op.create_index("ix", "note", ["text"], postgresql_concurrently=True)')
        + _AFTER,
        engines=POSTGRESQL,
    ),
    shape(
        "block_with_read",
        'count = op.get_bind().scalar(sa.text("SELECT count(*) FROM note"))\n'
        + _block("op.execute(f\"INSERT INTO seen (text) VALUES ('{count}')\")"),
        engines=POSTGRESQL,
    ),
    shape(
        "block_drop_index",
        _block('op.drop_index("ix", "note", postgresql_concurrently=True, if_exists=True)'),
        setup="CREATE INDEX ix ON note (text);",
        engines=POSTGRESQL,
    ),
    shape(
        "block_of_data",
        _block("op.execute(\"INSERT INTO note (text) VALUES ('own transaction')\")") + _AFTER,
        engines=POSTGRESQL,
    ),
    shape(
        "two_blocks",
        _block('op.create_index("ix1", "note", ["text"], postgresql_concurrently=True)')
        + "\n"
        + _block('op.create_index("ix2", "note", ["id"], postgresql_concurrently=True)'),
        engines=POSTGRESQL,
    ),
    shape("vacuum_in_block", _block('op.execute("VACUUM note")'), engines=POSTGRESQL),
    shape("vacuum", 'op.execute("VACUUM note")', engines=POSTGRESQL, fails=POSTGRESQL),
    shape("vacuum_of_sqlite", 'op.execute("VACUUM")', engines=SQLITE),
    shape(
        "reindex_concurrently_in_block",
        _block('op.execute("REINDEX TABLE CONCURRENTLY note")'),
        engines=POSTGRESQL,
    ),
    shape("reindex", 'op.execute("REINDEX TABLE note")', engines=POSTGRESQL),
    shape(
        "concurrent_index_without_block",
        'op.create_index("ix", "note", ["text"], postgresql_concurrently=True)',
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape("commit_by_connection", _BEFORE + "op.get_bind().commit()" + _AFTER, loses=BOTH),
    shape("commit_in_text", _BEFORE + 'op.execute("COMMIT")' + _AFTER),
    shape(
        "commit_and_begin_in_text",
        _BEFORE + 'op.execute("COMMIT")\nop.execute("BEGIN")' + _AFTER,
    ),
    shape(
        "commit_for_concurrent_index",
        """
        op.execute("COMMIT")
        op.execute("CREATE INDEX CONCURRENTLY ix ON note (text)")
        """,
        fails=POSTGRESQL,
        engines=POSTGRESQL,
    ),
    shape("commit_within_several", 'op.execute("SELECT 1; COMMIT; SELECT 2")', engines=POSTGRESQL),
    shape("end_in_text", _BEFORE + 'op.execute("END")' + _AFTER, engines=POSTGRESQL),
    shape(
        "commit_lower_case", _BEFORE + 'op.execute("  commit work ;")' + _AFTER, engines=POSTGRESQL
    ),
    shape(
        "rollback_by_connection",
        _BEFORE + "op.get_bind().rollback()" + _AFTER,
        setup=VERSION_TABLE,
        loses=BOTH,
    ),
    shape("rollback_in_text", _BEFORE + 'op.execute("ROLLBACK")' + _AFTER, setup=VERSION_TABLE),
    shape(
        "rollback_by_raw_connection",
        _BEFORE + "op.get_bind().connection.rollback()" + _AFTER,
        setup=VERSION_TABLE,
    ),
    shape("commit_by_raw_connection", _BEFORE + "op.get_bind().connection.commit()" + _AFTER),
    shape(
        "rollback_of_transaction",
        _BEFORE + "op.get_bind().get_transaction().rollback()" + _AFTER,
        setup=VERSION_TABLE,
        loses=BOTH,
    ),
    shape(
        "prepare_transaction",
        _BEFORE + "op.execute(\"PREPARE TRANSACTION 'x'\")",
        fails=POSTGRESQL,
        engines=POSTGRESQL,
    ),
    shape(
        "commit_and_chain", _BEFORE + 'op.execute("COMMIT AND CHAIN")' + _AFTER, engines=POSTGRESQL
    ),
    shape("begin_in_text", 'op.execute("BEGIN")' + _AFTER, engines=POSTGRESQL),
    shape("begin_in_text_of_sqlite", 'op.execute("BEGIN")' + _AFTER, engines=SQLITE),
    shape(
        "begin_by_connection",
        """
        with op.get_bind().begin():
            op.execute("INSERT INTO note (text) VALUES ('in')")
        """,
        fails=BOTH,
    ),
    shape(
        "begin_nested",
        """
        with op.get_bind().begin_nested():
            op.execute("INSERT INTO note (text) VALUES ('nested')")
        """,
    ),
    shape(
        "begin_nested_rolled_back",
        _BEFORE
        + """
with op.get_bind().begin_nested() as savepoint:
    op.execute("INSERT INTO note (text) VALUES ('gone')")
    savepoint.rollback()
"""
        + _AFTER,
    ),
    shape(
        "savepoint_in_text",
        """
        op.execute("SAVEPOINT s")
        op.execute("INSERT INTO note (text) VALUES ('gone')")
        op.execute("ROLLBACK TO SAVEPOINT s")
        op.execute("RELEASE SAVEPOINT s")
        op.execute("INSERT INTO note (text) VALUES ('kept')")
        """,
    ),
    shape(
        "savepoint_swallows_constraint_error",
        """
        for name in ("Ada", "Cleo"):
            try:
                with op.get_bind().begin_nested():
                    op.execute(person.insert().values(name=name))
            except sa.exc.IntegrityError:
                see("there is", name)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "savepoint_left_open",
        "op.get_bind().begin_nested()\n" + _AFTER,
    ),
    shape(
        "begin_transaction_caught",
        """
        try:
            with op.get_context().begin_transaction():
                op.execute("INSERT INTO note (text) VALUES ('in')")
        except Exception:
            pass
        """,
        loses=POSTGRESQL,
    ),
    shape(
        "block_of_a_helper_caught",
        """
        try:
            helper.create()
        except Exception:
            pass
        """,
        head="import helper",
        files={
            "helper.py": "from alembic import op\ndef create():\n"
            "    with op.get_context().autocommit_block():\n"
            "        op.create_index('ix', 'note', ['text'], postgresql_concurrently=True)\n"
        },
        engines=POSTGRESQL,
    ),
    shape(
        "begin_transaction_of_context",
        """
        with op.get_context().begin_transaction():
            op.execute("INSERT INTO note (text) VALUES ('in')")
        """,
        loses=POSTGRESQL,
    ),
    shape(
        "in_transaction",
        "see(op.get_bind().in_transaction(), op.get_bind().in_nested_transaction())",
    ),
    shape(
        "isolation_level",
        "see(op.get_bind().get_isolation_level(), op.get_bind().default_isolation_level)",
    ),
    shape(
        "execution_options_isolation",
        'op.get_bind().execution_options(isolation_level="AUTOCOMMIT")' + _AFTER,
        fails=BOTH,
    ),
    shape(
        "insert_or_rollback_fails",
        """
        op.execute("INSERT INTO note (text) VALUES ('x')")
        op.execute("INSERT OR ROLLBACK INTO person (name) VALUES ('Ada')")
        """,
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "insert_or_rollback_caught",
        """
        op.execute("INSERT INTO note (text) VALUES ('half')")
        try:
            op.execute("INSERT OR ROLLBACK INTO person (name) VALUES ('Ada')")
        except sa.exc.IntegrityError:
            pass
        op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        setup=VERSION_TABLE,
        engines=SQLITE,
    ),
    shape(
        "insert_or_rollback_caught_and_chained",
        "op.execute(\"INSERT INTO note (text) VALUES ('first')\")",
        """
        with contextlib.suppress(sa.exc.IntegrityError):
            op.execute("INSERT OR ROLLBACK INTO person (name) VALUES ('Ada')")
        """,
        "op.execute(\"INSERT INTO note (text) VALUES ('third')\")",
        setup=VERSION_TABLE,
        engines=SQLITE,
    ),
    shape(
        "raise_rollback_caught",
        """
        op.execute("CREATE TRIGGER no BEFORE DELETE ON note BEGIN "
                   "SELECT RAISE(ROLLBACK, 'not deleted'); END")
        try:
            op.execute("DELETE FROM note")
        except sa.exc.IntegrityError:
            see("refused")
        """,
        setup=VERSION_TABLE,
        engines=SQLITE,
    ),
    shape(
        "insert_or_ignore",
        """
        op.execute("INSERT OR IGNORE INTO person (name) VALUES ('Ada'), ('Cleo')")
        op.execute("INSERT OR REPLACE INTO note (id, text) VALUES (1, 'replaced')")
        """,
        engines=SQLITE,
    ),
    shape(
        "set_local",
        """
        op.execute("SET LOCAL work_mem = '8MB'")
        see(op.get_bind().scalar(sa.text("SHOW work_mem")))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "set_for_the_session",
        "op.execute(\"SET work_mem = '8MB'\")",
        'see(op.get_bind().scalar(sa.text("SHOW work_mem")))',
        engines=POSTGRESQL,
    ),
    shape(
        "set_config",
        """
        op.execute("SELECT set_config('app.me', 'ada', true)")
        op.execute("INSERT INTO seen (text) VALUES (current_setting('app.me'))")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "set_lock_timeout",
        """
        op.execute("SET LOCAL lock_timeout = '5s'")
        op.execute("ALTER TABLE note ADD COLUMN more int")
        see(op.get_bind().scalar(sa.text("SHOW lock_timeout")))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "set_statement_timeout",
        """
        op.execute("SET statement_timeout = '60s'")
        op.execute("ALTER TABLE note ADD COLUMN more int")
        """,
        'see(op.get_bind().scalar(sa.text("SHOW statement_timeout")))',
        engines=POSTGRESQL,
    ),
    shape(
        "statement_timeout_fires",
        """
        op.execute("SET LOCAL statement_timeout = 50")
        op.execute("SELECT pg_sleep(5)")
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "statement_timeout_of_the_database",
        'see(op.get_bind().scalar(sa.text("SHOW statement_timeout")))',
        setup="DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = ''9s''', "
        "current_database()); END $$;",
        engines=POSTGRESQL,
    ),
    shape(
        "search_path",
        """
        op.execute("CREATE SCHEMA app")
        op.execute("SET LOCAL search_path = app, public")
        op.create_table("here", sa.Column("id", sa.Integer))
        op.execute("INSERT INTO note (text) VALUES ('public, still')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_of_the_session",
        "op.execute('CREATE SCHEMA app')\nop.execute('SET search_path = app, public')",
        "op.create_table('here', sa.Column('id', sa.Integer))",
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_without_public",
        "op.execute('CREATE SCHEMA app')\nop.execute('SET search_path = app')",
        "op.create_table('here', sa.Column('id', sa.Integer))",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "search_path_of_the_database",
        "op.create_table('here', sa.Column('id', sa.Integer))",
        'see(op.get_bind().scalar(sa.text("SELECT current_schema()")))',
        setup="CREATE SCHEMA app; DO $$ BEGIN EXECUTE format("
        "'ALTER DATABASE %I SET search_path = app, public', current_database()); END $$;",
        engines=POSTGRESQL,
    ),
    shape(
        "set_role",
        """
        op.execute("SET LOCAL ROLE pg_database_owner")
        op.create_table("owned", sa.Column("id", sa.Integer))
        op.execute("RESET ROLE")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "set_role_for_the_session",
        "op.execute('SET ROLE pg_database_owner')",
        "op.create_table('owned', sa.Column('id', sa.Integer))\nop.execute('RESET ROLE')",
        fails=POSTGRESQL,
        engines=POSTGRESQL,
    ),
    shape(
        "set_role_with_rights_for_the_session",
        """
        op.execute("GRANT ALL ON note, alembic_version TO pg_monitor")
        op.execute("SET ROLE pg_monitor")
        """,
        "op.execute('RESET ROLE')",
        engines=POSTGRESQL,
    ),
    shape(
        "time_zone",
        """
        op.execute("SET LOCAL TIME ZONE 'Asia/Tokyo'")
        op.execute("INSERT INTO seen (text) VALUES ('2024-01-01 00:00+00'::timestamptz::text)")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "constraints_deferred",
        """
        op.execute("SET CONSTRAINTS ALL DEFERRED")
        op.execute("INSERT INTO person (name, note_id) VALUES ('Early', 77)")
        op.execute("INSERT INTO note (id, text) VALUES (77, 'late')")
        """,
        setup="ALTER TABLE person ALTER CONSTRAINT person_note_id_fkey DEFERRABLE;",
        engines=POSTGRESQL,
    ),
    shape(
        "deferred_constraint_fails_at_commit",
        """
        op.execute("SET CONSTRAINTS ALL DEFERRED")
        op.execute("INSERT INTO person (name, note_id) VALUES ('Early', 77)")
        """,
        setup="ALTER TABLE person ALTER CONSTRAINT person_note_id_fkey DEFERRABLE;",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "lock_table", 'op.execute("LOCK TABLE note IN ACCESS EXCLUSIVE MODE")', engines=POSTGRESQL
    ),
    shape(
        "advisory_lock",
        """
        op.execute("SELECT pg_advisory_xact_lock(5)")
        op.execute("INSERT INTO note (text) VALUES ('held')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "set_transaction",
        'op.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")',
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "listen_and_notify",
        """op.execute("NOTIFY work, 'x'")\nop.execute("LISTEN work")""",
        engines=POSTGRESQL,
    ),
    shape("discard_all", 'op.execute("DISCARD ALL")', engines=POSTGRESQL, fails=POSTGRESQL),
    shape(
        "create_database",
        'op.execute("CREATE DATABASE nope")',
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "prepared_statement_of_the_session",
        """
        op.execute("PREPARE p AS INSERT INTO seen (text) VALUES ($1)")
        op.execute("EXECUTE p('prepared')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "cursor_in_text",
        """
        op.execute("DECLARE c CURSOR FOR SELECT id FROM note")
        op.execute("FETCH 2 FROM c")
        op.execute("CLOSE c")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "attach",
        """
        op.execute("ATTACH DATABASE ':memory:' AS other")
        op.execute("CREATE TABLE other.t (a)")
        """,
        engines=SQLITE,
    ),
    shape(
        "pragma_journal_mode",
        'op.execute("PRAGMA journal_mode = WAL")',
        setup="PRAGMA journal_mode = WAL",
        engines=SQLITE,
    ),
    shape("pragma_journal_mode_changed", 'op.execute("PRAGMA journal_mode = WAL")', engines=SQLITE),
    shape("pragma_journal_mode_read", 'op.execute("PRAGMA journal_mode")', engines=SQLITE),
]
