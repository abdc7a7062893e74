"""Code in the database: functions, triggers, views, blocks, dollar quotes, extensions."""

from tests.corpus.shape import POSTGRESQL, SQLITE, shape

_FUNCTION = """
op.execute('''
    CREATE OR REPLACE FUNCTION twice(n integer) RETURNS integer LANGUAGE plpgsql AS $body$
    BEGIN
        -- it's a comment; with a 'quote
        IF n % 2 = 0 THEN RETURN n * 2; END IF;
        RETURN n * 2; /* ; */
    END;
    $body$
''')
"""

SHAPES = [
    shape("function", _FUNCTION, engines=POSTGRESQL),
    shape("function_replaced", _FUNCTION, _FUNCTION.replace("n * 2", "n * 3"), engines=POSTGRESQL),
    shape(
        "function_dropped",
        _FUNCTION,
        "op.execute('DROP FUNCTION twice(integer)')",
        engines=POSTGRESQL,
    ),
    shape(
        "function_with_percent_and_colon",
        """
        op.execute('''
            CREATE FUNCTION shout() RETURNS text LANGUAGE plpgsql AS $$
            DECLARE t text := 'a:b';
            BEGIN
                RAISE NOTICE 'at %', now();
                RETURN format('%s is %I', t, 'x') || '12:30'::text;
            END $$
        ''')
        op.execute("INSERT INTO seen (text) VALUES (shout())")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "function_begin_atomic",
        """
        op.execute("CREATE FUNCTION one() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; END")
        op.execute("INSERT INTO seen (text) VALUES (one()); INSERT INTO seen (text) VALUES (one())")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "nested_dollar_quotes",
        """
        op.execute("CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS $a$ BEGIN "
                   "EXECUTE $b$ SELECT 'x;$$y' $b$; RETURN $$z$$; END $a$")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "trigger_of_postgresql",
        """
        op.execute('''
            CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN NEW.text := upper(NEW.text); RETURN NEW; END $$;
            CREATE TRIGGER t BEFORE INSERT OR UPDATE ON note
            FOR EACH ROW WHEN (NEW.text IS NOT NULL) EXECUTE FUNCTION touch();
        ''')
        op.execute("INSERT INTO note (text) VALUES ('loud')")
        op.execute("ALTER TABLE note DISABLE TRIGGER t")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "trigger_that_raises",
        """
        op.execute("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
                   "$$ BEGIN RAISE EXCEPTION 'no % here', NEW.text; END $$")
        op.execute("CREATE TRIGGER t BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION no()")
        op.execute("INSERT INTO note (text) VALUES ('secret')")
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "trigger_of_sqlite",
        """
        op.execute('''
            CREATE TRIGGER shout AFTER INSERT ON note BEGIN
                UPDATE note SET text = upper(text) WHERE id = new.id;
                INSERT INTO seen (text) VALUES ('a;b');
            END
        ''')
        op.execute("INSERT INTO note (text) VALUES ('loud')")
        """,
        engines=SQLITE,
    ),
    shape(
        "views",
        """
        op.execute("CREATE VIEW names AS SELECT name, '100%' AS p FROM person WHERE name LIKE 'A%'")
        op.execute("INSERT INTO seen (text) SELECT name FROM names")
        op.execute("DROP VIEW names")
        op.execute("CREATE VIEW names AS SELECT upper(name) AS name FROM person")
        """,
    ),
    shape(
        "materialized_view",
        """
        op.execute("CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS n FROM note WITH DATA")
        op.execute("CREATE UNIQUE INDEX ux ON counts (n)")
        op.execute("INSERT INTO note (text) VALUES ('x')")
        op.execute("REFRESH MATERIALIZED VIEW counts")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "refresh_concurrently",
        """
        op.execute("CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS n FROM note")
        op.execute("CREATE UNIQUE INDEX ux ON counts (n)")
        op.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY counts")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "do_block",
        """
        op.execute('''
            DO $$ DECLARE r record; BEGIN
                FOR r IN SELECT id FROM note LOOP
                    INSERT INTO seen (text) VALUES ('note ' || r.id);
                END LOOP;
            END $$
        ''')
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "do_block_that_handles_an_error",
        """
        op.execute('''
            DO $$ BEGIN
                CREATE TYPE mood AS ENUM ('a');
                CREATE TYPE mood AS ENUM ('a');
            EXCEPTION WHEN duplicate_object THEN
                INSERT INTO seen (text) VALUES ('there');
            END $$
        ''')
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "do_block_that_commits",
        """
        op.execute("DO $$ BEGIN INSERT INTO seen (text) VALUES ('a'); COMMIT; END $$")
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "procedure",
        """
        op.execute("CREATE PROCEDURE p(t text) LANGUAGE sql AS "
                   "$$ INSERT INTO seen (text) VALUES (t) $$")
        op.execute("CALL p('called')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "procedure_that_commits",
        """
        op.execute("CREATE PROCEDURE p() LANGUAGE plpgsql AS "
                   "$$ BEGIN INSERT INTO seen (text) VALUES ('p'); COMMIT; END $$")
        op.execute("CALL p()")
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "rules_and_aggregates",
        """
        op.execute("CREATE RULE r AS ON DELETE TO note DO INSTEAD NOTHING")
        op.execute("CREATE AGGREGATE total (int) (sfunc = int4pl, stype = int, initcond = '0')")
        op.execute("DELETE FROM note")
        op.execute("INSERT INTO seen (text) SELECT total(id) FROM note")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "extension",
        'op.execute("CREATE EXTENSION IF NOT EXISTS plpgsql")',
        engines=POSTGRESQL,
    ),
    shape(
        "event_trigger",
        """
        op.execute("CREATE FUNCTION et() RETURNS event_trigger LANGUAGE plpgsql AS "
                   "$$ BEGIN NULL; END $$")
        op.execute("CREATE EVENT TRIGGER et ON ddl_command_end EXECUTE FUNCTION et()")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "virtual_table",
        """
        op.execute("CREATE VIRTUAL TABLE found USING fts5(text)")
        op.execute("INSERT INTO found SELECT text FROM note WHERE text IS NOT NULL")
        """,
        engines=SQLITE,
    ),
]
