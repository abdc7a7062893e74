"""What lasts from one revision to the next where `autocommit_block` divides their transaction."""

from tests.corpus.shape import POSTGRESQL, VERSION_TABLE, Rev, shape

_APP = "CREATE SCHEMA app;"
_APP_FIRST = 'op.execute("SET search_path TO app, public")\n'
_MAKE = 'op.create_table("made", sa.Column("id", sa.Integer))'


def _block(*lines: str) -> str:
    return "\n    ".join(["with op.get_context().autocommit_block():", *lines])


def _create(index: str, column: str) -> str:
    return f'op.execute("CREATE INDEX CONCURRENTLY {index} ON public.person ({column})")'


_INDEX = _block(_create("ix1", "age"))
_VACUUM = _block('op.execute("VACUUM note")')
_SHOW_TIMEOUT = 'see(op.get_bind().scalar(sa.text("SHOW statement_timeout")))'
_READ_VERSIONS = 'see(op.get_bind().scalar(sa.text("SELECT count(*) FROM alembic_version")))'
SHAPES = [
    shape(
        "search_path_lasts_beyond_block",
        *(_APP_FIRST, _INDEX, _MAKE),
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_lasts_beyond_two_blocks",
        _APP_FIRST + _READ_VERSIONS,
        *(_INDEX, _READ_VERSIONS, _VACUUM, _MAKE),
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "time_zone_lasts_beyond_block",
        "op.execute(\"SET TIME ZONE 'Asia/Tokyo'\")",
        _INDEX,
        "op.execute(\"INSERT INTO seen (text) SELECT (timestamptz '2020-01-01 00:00Z')::text\")",
        engines=POSTGRESQL,
    ),
    shape(
        "temporary_table_lasts_beyond_block",
        'op.execute("CREATE TEMP TABLE keep AS SELECT * FROM note")',
        _INDEX,
        'op.execute("INSERT INTO seen (text) SELECT text FROM keep")',
        engines=POSTGRESQL,
    ),
    shape(
        "replication_role_lasts_beyond_block",
        'op.execute("SET session_replication_role = replica")',
        _VACUUM,
        "op.execute(\"INSERT INTO person (name, note_id) VALUES ('z', 999)\")",
        engines=POSTGRESQL,
    ),
    shape(
        "statement_timeout_in_block",
        _block('op.execute("SET statement_timeout = 12345")', _SHOW_TIMEOUT),
        engines=POSTGRESQL,
    ),
    shape(
        "statement_timeout_lasts_beyond_block",
        _block('op.execute("SET statement_timeout = 12345")'),
        _SHOW_TIMEOUT,
        engines=POSTGRESQL,
    ),
    shape(
        "block_not_entered",
        "op.execute(\"INSERT INTO note (text) VALUES ('r1')\")",
        """
        if op.get_bind().scalar(sa.text("SELECT 1")) == 2:
            with op.get_context().autocommit_block():
                pass
        sql = "SELECT count(*) FROM note WHERE xmin = pg_current_xact_id()::xid"
        see("of this transaction", op.get_bind().scalar(sa.text(sql)))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "set_local_before_block",
        _APP_FIRST.replace("SET", "SET LOCAL"),
        _MAKE + "\n" + _VACUUM,
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "set_local_after_block",
        _VACUUM + "\n" + _APP_FIRST.replace("SET", "SET LOCAL"),
        _MAKE,
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "rows_deleted_at_commit_after_block",
        _VACUUM + "\nop.execute('CREATE TEMP TABLE keep (n int) ON COMMIT DELETE ROWS')\n"
        "op.execute('INSERT INTO keep VALUES (1)')",
        "op.execute('INSERT INTO seen (text) SELECT count(*) FROM keep')",
        engines=POSTGRESQL,
    ),
    shape(
        "listener_for_later_revisions",
        """
        def change(connection, cursor, sql, parameters, *more):
            return sql.replace("before", "after"), parameters
        sa.event.listen(op.get_bind(), "before_cursor_execute", change, retval=True)
        """,
        "op.execute(\"INSERT INTO note (text) VALUES ('before')\")",
    ),
    shape(
        "context_options_for_later_revisions",
        "op.get_context().opts['mine'] = 5",
        "see(op.get_context().opts.get('mine'))",
    ),
    shape(
        "execution_options_for_later_revisions",
        """
        app = {None: "app"}
        op.get_bind().execution_options(schema_translate_map=app)
        """,
        "op.create_table('made', sa.Column('id', sa.Integer))",
        setup=_APP + VERSION_TABLE.replace("alembic_version (", "app.alembic_version ("),
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_before_only_block",
        _APP_FIRST + _INDEX,
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_before_first_block",
        *(_APP_FIRST + _INDEX, _MAKE),
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_before_first_block_with_version_table",
        *(_APP_FIRST + _INDEX, _MAKE),
        setup=_APP + VERSION_TABLE,
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_before_second_block",
        *("see(1)", _APP_FIRST + _INDEX, _MAKE),
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "search_path_of_the_block",
        _block(
            'op.execute("SET search_path TO app")',
            'op.execute("CREATE TABLE made (id int)")',
            'op.execute("SET search_path TO public")',
        ),
        setup=_APP,
        engines=POSTGRESQL,
    ),
    shape(
        "version_table_in_a_later_schema",
        _MAKE,
        setup=VERSION_TABLE + _APP + "DO $$ BEGIN EXECUTE format("
        "'ALTER DATABASE %I SET search_path = app, public', current_database()); END $$;",
        engines=POSTGRESQL,
    ),
    shape(
        "first_block_reads_the_version_table",
        "op.execute(\"INSERT INTO note (text) VALUES ('before')\")\n" + _block(_READ_VERSIONS),
        engines=POSTGRESQL,
    ),
    shape(
        "first_block_alters_the_version_table",
        _block('op.execute("ALTER TABLE alembic_version ALTER version_num TYPE varchar(255)")'),
        engines=POSTGRESQL,
    ),
    shape(
        "isolation_level_in_block",
        _block(
            'op.execute("CREATE TABLE made (id int)")',
            "see(op.get_bind().get_isolation_level() != '')",
        ),
        engines=POSTGRESQL,
    ),
    shape(
        "idle_connection_in_block",
        _block(
            'op.execute("CREATE TABLE made (id int)")',
            "op.get_bind().connection.rollback()",
            "op.get_bind().connection.driver_connection.commit()",
            "see(1)",
        ),
        "see(2)",
        engines=POSTGRESQL,
    ),
    shape(
        "whole_transaction_in_block",
        _block(
            "op.execute(\"BEGIN; INSERT INTO note (text) VALUES ('in'); COMMIT\")",
            "op.execute(\"START TRANSACTION; INSERT INTO note (text) VALUES ('no'); ROLLBACK;\")",
        ),
        engines=POSTGRESQL,
    ),
    shape(
        "transaction_in_block",
        _block(
            'op.execute("BEGIN")',
            "op.execute(\"INSERT INTO note (text) VALUES ('in')\")",
            'op.execute("COMMIT")',
            'op.get_bind().execute(sa.text("START TRANSACTION"))',
            "op.execute(\"INSERT INTO note (text) VALUES ('no')\")",
            'op.execute("ROLLBACK")',
            "see(1)",
        ),
        "see(2)",
        engines=POSTGRESQL,
    ),
    shape(
        "failed_transaction_in_block",
        _block(
            'op.execute("BEGIN")',
            "op.execute(\"INSERT INTO note (text) VALUES ('no')\")",
            "try:",
            '    op.execute("SELECT 1 / 0")',
            "except sa.exc.DBAPIError:",
            '    op.execute("ROLLBACK")',
            "see(1)",
        ),
        "see(2)",
        engines=POSTGRESQL,
    ),
    shape(
        "block_reads_batches_until_done",
        _block(
            "sql = \"UPDATE note SET text = 'done' WHERE id IN \" \\",
            "    \"(SELECT id FROM note WHERE text IS DISTINCT FROM 'done' LIMIT 1)\"",
            "while op.get_bind().execute(sa.text(sql)).rowcount: pass",
        ),
        engines=POSTGRESQL,
    ),
    shape(
        "commit_before_block",
        *("see(1)", "see(2)\nop.get_bind().commit()\n" + _INDEX, "see(3)"),
        configure="transaction_per_migration=True",
        engines=POSTGRESQL,
    ),
    shape(
        "commit_before_two_blocks",
        "see(1)\nop.get_bind().connection.commit()\n" + _INDEX,
        "see(2)\nop.get_bind().commit()\n" + _VACUUM + "\nop.get_bind().commit()\n" + _VACUUM,
        "see(3)",
        configure="transaction_per_migration=True",
        engines=POSTGRESQL,
    ),
    shape(
        "commit_after_block",
        _VACUUM + "\nsee(1)\nop.get_bind().commit()",
        "see(2)",
        configure="transaction_per_migration=True",
        engines=POSTGRESQL,
    ),
    shape(
        "commit_apart_caught_before_block",
        "see(1)\nop.get_bind().commit()\ntry:\n    see(2)\nexcept Exception:\n    pass\n" + _VACUUM,
        configure="transaction_per_migration=True",
        fails=POSTGRESQL,
        engines=POSTGRESQL,
    ),
    shape(
        "block_first_in_a_branch",
        *(Rev("a"), Rev("b", "see(2)", "a"), Rev("c", _INDEX, "a"), Rev("d", "pass", ("b", "c"))),
        engines=POSTGRESQL,
    ),
    shape(
        "block_between_branches",
        *(Rev("a"), Rev("b", "see(2)", "a"), Rev("c", _VACUUM, "b"), Rev("d", "see(4)", "a")),
        *(Rev("e", _INDEX, "d"), Rev("f", "see(6)", ("c", "e"))),
        engines=POSTGRESQL,
    ),
    shape(
        "block_between_branches_with_depends_on",
        *(Rev("a"), Rev("b", "see(2)", "a"), Rev("c", "see(3)", "b")),
        Rev("d", "see(4)", "a", more='depends_on = "c"'),
        *(Rev("e", _INDEX, "d"), Rev("f", "see(6)", ("c", "e"))),
        engines=POSTGRESQL,
    ),
    shape(
        "last_value_is_of_the_revisions",
        "op.execute(\"INSERT INTO note (text) VALUES ('n')\")",
        'op.execute("UPDATE person SET age = lastval()")',
        engines=POSTGRESQL,
    ),
    shape(
        "last_value_is_of_the_revisions_live",
        "op.get_bind().execute(sa.text(\"INSERT INTO note (text) VALUES ('n')\"))",
        'see(op.get_bind().scalar(sa.text("SELECT lastval()")))',
        engines=POSTGRESQL,
    ),
    shape(
        "last_value_in_block",
        _block(
            "op.execute(\"INSERT INTO note (text) VALUES ('n')\")",
            'op.create_index("ix", "note", ["text"], postgresql_concurrently=True)',
            'see(op.get_bind().scalar(sa.text("SELECT lastval()")))',
        ),
        engines=POSTGRESQL,
    ),
]
