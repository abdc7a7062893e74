"""Reading SQL text: its commands, and whether one of them ends the transaction."""

import pytest

from tenantry.migration.sql_text import has_comment, outlives_rollback, read


class TestEndsTransaction:
    @pytest.mark.parametrize(
        "sql",
        [
            "COMMIT",
            "commit;",
            "END",
            "ABORT",
            "ROLLBACK",
            "BEGIN",
            "START TRANSACTION",
            "PREPARE TRANSACTION 'x'",
            "COMMIT PREPARED 'x'",
            "SELECT 1; COMMIT",
            "-- a comment\nCOMMIT",
            "/* a\ncomment */ COMMIT AND CHAIN",
            "SELECT ';' ; COMMIT",
            r"SELECT E'\'' ; COMMIT",
            "SELECT $a$ $$ ; $a$; COMMIT",
            'SELECT "a;" ; COMMIT',
            "SELECT a$b$c; COMMIT",
            "/* a /* b */ c */ COMMIT",
            "/* /* /* */ */ it's */ COMMIT",
            "-- a comment\rCOMMIT",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT",
            "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC END; END",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END; END",
            "CREATE OR REPLACE VIEW v AS SELECT begin atomic FROM t; END",
            # Where a backslash is an escape, the literal ends earlier.
            r"INSERT INTO t VALUES ('it\'s'); COMMIT; INSERT INTO t VALUES ('x')",
        ],
    )
    def test_is_true_of_what_begins_or_ends_one(self, sql: str):
        assert read(sql).ends_transaction

    @pytest.mark.parametrize(
        "sql",
        [
            "",
            ";;",
            "SELECT 1",
            "SELECT 'a; COMMIT'",
            "SELECT 'it''s; COMMIT'",
            r"SELECT E'\'; COMMIT'",
            "SELECT $$ ; COMMIT; $$",
            "SELECT $tag$ ; COMMIT; $tag$",
            "SELECT 1 -- ; COMMIT",
            "SELECT 1 /* ; COMMIT */",
            'SELECT 1 AS "; COMMIT"',
            "SELECT 1 AS commit",
            "ROLLBACK TO SAVEPOINT a",
            "ROLLBACK WORK TO a",
            "SAVEPOINT a",
            "RELEASE a",
            "CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; COMMIT)",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; SELECT 1",
            "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END",
            "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\nCOMMIT;\nEND\n$$",
            "/* a /* b ; COMMIT; */\nCOMMIT; */ SELECT 1",
            "CREATE TABLE commit (id int)",
        ],
    )
    def test_is_false_of_everything_else(self, sql: str):
        assert not read(sql).ends_transaction


class TestIsWhole:
    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT 'open",
            'SELECT "open',
            "SELECT $$ open",
            "SELECT 1 /* open",
            "SELECT (1",
            "/* one /* in another */ SELECT 1",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END",
        ],
    )
    def test_is_false_where_something_may_be_open(self, sql: str):
        assert not read(sql).is_whole

    def test_is_true_of_what_is_closed(self):
        assert read("SELECT ('a', \"b\", $$c$$, $1) /* one /* in another */ */ -- d").is_whole

    def test_takes_no_time_with_a_long_text(self):
        assert read("INSERT INTO t VALUES " + "('it''s'), " * 100_000 + "('x')").is_whole


class TestCommands:
    def test_are_identified_by_their_first_words(self):
        found = read("create table t (a int); insert into t values (1);\n-- the end").commands

        assert found == (("CREATE", "TABLE", "T"), ("INSERT", "INTO", "T"))


class TestHasComment:
    @pytest.mark.parametrize("sql", ["SELECT --5", "SELECT 1 -- one", "-- one\nSELECT 1"])
    def test_is_true_of_two_minus_signs(self, sql: str):
        assert has_comment(sql)

    @pytest.mark.parametrize(
        "sql", ["SELECT '--'", 'SELECT "--"', "SELECT - -5", "SELECT $$--$$", "/* -- */ SELECT"]
    )
    def test_is_false_of_two_in_a_literal_or_a_name(self, sql: str):
        assert not has_comment(sql)


class TestOutlivesRollback:
    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT setval('s', 9)",
            """SELECT "setval" ('s', 9)""",
            "SELECT setval/* c */('s', 9)",
            "DO $$ BEGIN PERFORM setval('s', 9); END $$",
        ],
    )
    def test_is_true_of_a_function_however_it_is_written(self, sql: str):
        assert outlives_rollback(sql)

    @pytest.mark.parametrize("sql", ["SELECT nextval('s')", "UPDATE setvalues SET i = 1"])
    def test_is_false_of_what_a_rollback_undoes(self, sql: str):
        assert not outlives_rollback(sql)
