"""Where Tenantry does not do what plain Alembic does: every case, and how it is said.

The table of habits in ``docs/howto/bring-your-own-migrations.md`` names each of them.
"""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE

_ENDS = "ends its transaction"
_SECOND = "opens a second connection"
_NO_ENV = "which Tenantry does not run"


def _on(engines: frozenset[str], sentence: str, *names: str) -> dict[tuple[str, str], str]:
    return {(engine, name): sentence for engine in sorted(engines) for name in names}


# What the history then says of the tenant, as a regular expression.
REFUSALS = (
    _on(BOTH, _ENDS, "commit_in_text", "commit_and_begin_in_text", "commit_by_raw_connection")
    | _on(BOTH, _ENDS, "rollback_in_text", "rollback_by_raw_connection")
    | _on(POSTGRESQL, _ENDS, "commit_within_several", "end_in_text", "commit_lower_case")
    | _on(POSTGRESQL, _ENDS, "commit_and_chain", "begin_in_text")
    | _on(SQLITE, _ENDS, "begin_in_text_of_sqlite", "executescript")
    | _on(POSTGRESQL, _ENDS, "psycopg_composed_commit")
    | _on(POSTGRESQL, "changes autocommit", "psycopg2_isolation_level")
    | _on(POSTGRESQL, "makes a cursor itself", "psycopg_another_cursor_in_block")
    | _on(POSTGRESQL, "permission denied", "set_role_with_rights_for_the_session")
    | _on(SQLITE, "sets an authorizer", "sqlite_authorizer")
    | _on(SQLITE, "never returns in a write transaction", "sqlite_backup")
    | _on(BOTH, _SECOND, "session_of_a_new_engine", "second_connection")
    | _on(POSTGRESQL, _SECOND, "second_connection_writes")
    | _on(SQLITE, "cannot VACUUM", "vacuum_of_sqlite")
    | _on(
        SQLITE,
        "rows of the table person violate a foreign key",
        "pragma_foreign_keys_off",
    )
    | _on(SQLITE, "deletes or replaces rows of", "pragma_foreign_keys_cascade_after_on")
    | _on(SQLITE, "keeps SQLite files in WAL mode", "pragma_journal_mode_other_than_wal")
    | _on(SQLITE, "drops the table note", "pragma_foreign_keys_table_rebuilt_after_on")
    | _on(
        SQLITE,
        "rolled the transaction back",
        *("insert_or_rollback_caught", "insert_or_rollback_caught_and_chained"),
        "raise_rollback_caught",
    )
    | _on(POSTGRESQL, "sets schema_translate_map", "execution_options_for_later_revisions")
    | _on(BOTH, "reads the -x arguments", "x_argument")
    | _on(BOTH, _NO_ENV, "context_config", "config_of_context", "script_directory")
    | _on(POSTGRESQL, "calls `autocommit_block` indirectly", "block_of_a_helper_caught")
    | _on(BOTH, r"used outside `upgrade\(\)`", "op_at_import")
)
# Intended differences, which do not concern what a revision itself leaves behind.
DIFFERENCES = {
    **_on(BOTH, "The list has the tables of Tenantry.", "inspector_lists_every_table"),
    **_on(SQLITE, "The list has the tables of Tenantry.", "analyze_of_sqlite"),
    **_on(
        POSTGRESQL,
        "Recorded statements share a message.",
        *("statement_timestamps", "current_query_in_trigger"),
    ),
    **_on(
        POSTGRESQL,
        "A revision with a block has its own transactions.",
        *("set_local_before_block", "set_local_after_block"),
        "rows_deleted_at_commit_after_block",
    ),
    **_on(POSTGRESQL, "The module is imported before the connection.", "listener_on_every_engine"),
    **_on(BOTH, "env.py is not run.", "naming_convention_of_env_py"),
    **_on(
        POSTGRESQL,
        "Timeouts are those of Tenantry's settings.",
        *("lock_timeout_of_the_session", "statement_timeout_of_the_database"),
        "statement_timeout_lasts_beyond_block",
    ),
    **_on(POSTGRESQL, "The block is expected: what precedes it is committed.", "block_not_entered"),
    **_on(
        SQLITE,
        "The transaction was begun before the revision, by hand.",
        *("raw_connection_attributes", "row_factory_and_text_factory"),
    ),
}
