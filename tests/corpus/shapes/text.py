"""Statements as text: per cent signs, colons, quotation marks, comments, several commands."""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE, shape

_SET = 'op.execute("SET LOCAL standard_conforming_strings = off")'
# Each leaves the setting with another value than the one before it.
_STANDARD_STRINGS = {
    "set_config": """op.execute("SELECT set_config('standard_conforming_strings', 'off', true)")""",
    "do_block": """op.execute("DO $$ BEGIN SET LOCAL standard_conforming_strings = off; END $$")""",
    "rollback_to": f"""op.execute('SAVEPOINT s'); {_SET}; op.execute('ROLLBACK TO s')""",
    "reset": f"""{_SET}; op.execute('RESET standard_conforming_strings')""",
    "reset_all": f"""{_SET}; op.execute('RESET ALL')""",
}

SHAPES = [
    shape(
        "percent",
        "op.execute(\"INSERT INTO note (text) VALUES ('100%'), ('%s %(a)s %%')\")",
        since="2.0.58",
    ),
    shape("like_percent", "op.execute(\"UPDATE note SET text = 'l' WHERE text LIKE '%n%'\")"),
    shape(
        "percent_as_modulo",
        "op.execute(\"UPDATE note SET text = 'even' WHERE id % 2 = 0\")",
    ),
    shape(
        "percent_in_driver_sql",
        """
        op.get_bind().exec_driver_sql("INSERT INTO note (text) VALUES ('100%')")
        """,
        fails=POSTGRESQL,
    ),
    shape(
        "colon", r"""op.execute("INSERT INTO note (text) VALUES ('12:30'), ('a\\:b'), ('::')")"""
    ),
    shape(
        "colon_that_is_a_parameter",
        "op.execute(\"INSERT INTO note (text) VALUES (':name')\")",
        fails=BOTH,
    ),
    shape(
        "colon_that_has_no_value",
        "op.execute('INSERT INTO note (text) VALUES (:name)')",
        fails=BOTH,
    ),
    shape(
        "double_colon_cast",
        "op.execute(\"UPDATE note SET text = id::text || ' ' || '5'::integer\")",
        engines=POSTGRESQL,
    ),
    shape(
        "json_operators",
        """
        op.execute("ALTER TABLE note ADD COLUMN j jsonb DEFAULT '{\\"a\\": {\\"b\\": 1}}'")
        op.execute("UPDATE note SET text = j #>> '{a,b}' WHERE j ? 'a' AND j @> '{}'")
        op.execute("UPDATE note SET text = 'q' WHERE j ?| array['x', 'y']")
        """,
        engines=POSTGRESQL,
    ),
    shape("question_mark", "op.execute(\"INSERT INTO note (text) VALUES ('what?'), ('?')\")"),
    shape("dollar", "op.execute(\"INSERT INTO note (text) VALUES ('$1'), ('$tag$')\")"),
    shape("backslash", r"""op.execute("INSERT INTO note (text) VALUES ('a\\nb'), ('\\')")"""),
    shape(
        "escape_string",
        r"""op.execute("INSERT INTO note (text) VALUES (E'a\\tb\\'c'), (U&'\\00e4')")""",
        engines=POSTGRESQL,
    ),
    *(
        shape(
            f"standard_strings_off_by_{name}",
            rf"""
            {before}
            op.execute(r"INSERT INTO seen (text) VALUES ('C:\\x')")
            op.execute("INSERT INTO seen (text) VALUES ('after')")
            """,
            engines=POSTGRESQL,
        )
        for name, before in _STANDARD_STRINGS.items()
    ),
    shape(
        "standard_strings_off",
        r"""
        op.execute("SET LOCAL standard_conforming_strings = off")
        op.execute("INSERT INTO note (text) VALUES ('a\\tb')")
        op.execute("SET LOCAL standard_conforming_strings = on")
        op.execute(note.insert().values(text="a\\b"))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "standard_strings_off_with_values",
        r"""
        op.execute("SET LOCAL standard_conforming_strings = off")
        op.execute(note.insert().values(text="back\\slash"))
        """,
        engines=POSTGRESQL,
    ),
    *(
        shape(
            f"standard_strings_off_in_the_database_{driver}",
            r"""
            op.create_table("made", sa.Column("a", sa.Text, server_default="x\\y"))
            op.execute("INSERT INTO made DEFAULT VALUES")
            """,
            r"""
            op.execute("INSERT INTO made VALUES ('b\\\\c'), ('it''s')")
            op.execute(note.insert().values(text="back\\slash"))
            """,
            'op.execute(note.insert().values(text="it\'s"))',
            setup="DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings "
            "= off', current_database()); END $$;",
            engines=POSTGRESQL,
            driver=driver,
        )
        for driver in ("psycopg", "psycopg2")
    ),
    shape("trailing_semicolon", "op.execute(\"INSERT INTO note (text) VALUES ('a');\")"),
    shape(
        "several_commands",
        """
        op.execute("CREATE TABLE one (a int); INSERT INTO one VALUES (1); -- and; no more")
        """,
        engines=POSTGRESQL,
        fails=SQLITE,
    ),
    shape(
        "several_commands_of_which_one_reads",
        "op.execute(\"SELECT 1; INSERT INTO note (text) VALUES ('a'); SELECT 2\")",
        engines=POSTGRESQL,
    ),
    shape(
        "several_commands_with_an_error",
        "op.execute(\"INSERT INTO note (text) VALUES ('a'); SELECT * FROM nowhere\")",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "several_commands_with_parameters",
        """
        op.execute(sa.text("INSERT INTO note (text) VALUES (:a); UPDATE person SET age = :b")
                   .bindparams(a="x", b=3))
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape("empty_statement", "op.execute('')", engines=POSTGRESQL),
    shape("only_a_comment", "op.execute('-- nothing')", engines=POSTGRESQL),
    shape(
        "comments_in_text",
        """
        op.execute("INSERT INTO note (text) /* a ; comment */ VALUES ('-- no') -- it's; one")
        op.execute("-- first\\nINSERT INTO note (text) VALUES ('/* not */')")
        """,
    ),
    shape(
        "nested_comment",
        "op.execute(\"/* a /* b ; */ c */ INSERT INTO note (text) VALUES ('n')\")",
        engines=POSTGRESQL,
    ),
    shape(
        "long_script_from_a_file",
        """
        path = os.path.join(os.path.dirname(__file__), "..", "load.sql")
        with open(path) as file:
            op.execute(file.read())
        """,
        engines=POSTGRESQL,
        files={
            "migrations/load.sql": """
                CREATE TABLE loaded (id int, text text);
                INSERT INTO loaded VALUES (1, 'a;b'), (2, '100%');
                CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$;
                COMMENT ON TABLE loaded IS 'it''s';
            """
        },
    ),
    shape(
        "file_split_at_semicolons",
        """
        path = os.path.join(os.path.dirname(__file__), "..", "load.sql")
        with open(path) as file:
            for statement in file.read().split(";"):
                if statement.strip():
                    op.execute(statement)
        """,
        files={
            "migrations/load.sql": """
                CREATE TABLE loaded (id int, text text);
                INSERT INTO loaded VALUES (1, 'a'), (2, '100%');
            """
        },
    ),
    shape(
        "executescript",
        """
        raw = op.get_bind().connection.driver_connection
        raw.executescript("CREATE TABLE one (a int); INSERT INTO one VALUES (1);")
        """,
        engines=SQLITE,
    ),
    shape(
        "nul_character",
        "op.execute(note.insert().values(text='a\\0b'))",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape("select_as_text", "op.execute('SELECT 1')"),
    shape("select_construct", "op.execute(sa.select(note.c.id))"),
    shape(
        "select_that_acts",
        """
        op.execute("CREATE FUNCTION act() RETURNS void LANGUAGE sql AS "
                   "'INSERT INTO seen (text) VALUES (''acted'')'")
        op.execute("SELECT act()")
        op.execute(sa.select(sa.func.act()))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "execution_options",
        """
        op.execute("INSERT INTO note (text) VALUES ('o')", execution_options={"stream_results": False})
        op.execute(sa.text("INSERT INTO note (text) VALUES ('p')").execution_options(no_parameters=True))
        """,
    ),
]
