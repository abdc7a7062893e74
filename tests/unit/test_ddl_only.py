"""Which statements define something, so that a copy of a template may hold what they leave."""

import pytest

from tenantry.migration.ddl_only import is_definition


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE note (id SERIAL PRIMARY KEY, at TIMESTAMP DEFAULT now() NOT NULL)",
        "CREATE TABLE IF NOT EXISTS note (id INTEGER, twice INTEGER GENERATED ALWAYS AS (id * 2))",
        "CREATE UNIQUE INDEX i ON note (lower(text))",
        "CREATE TYPE mood AS ENUM ('happy', 'sad')",
        "CREATE OR REPLACE VIEW busy AS SELECT now() FROM note",
        "CREATE OR REPLACE FUNCTION f() RETURNS uuid LANGUAGE sql AS $$ SELECT random() $$",
        "CREATE TRIGGER t BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE note ADD COLUMN token uuid DEFAULT gen_random_uuid()",
        "ALTER TYPE mood ADD VALUE 'so so'",
        "DROP TABLE note",
        "COMMENT ON COLUMN note.text IS 'what it says'",
        "CREATE TABLE a (id INTEGER); CREATE INDEX i ON a (id);",
        "-- a remark\nALTER TABLE note RENAME TO notes",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM ('2020-01-01', MINVALUE) TO (-1.5, 'it''s')",
        "CREATE TABLE p PARTITION OF t FOR VALUES IN (1, NULL, true) PARTITION BY HASH (id)",
        "ALTER TABLE t ATTACH PARTITION p FOR VALUES WITH (MODULUS 4, REMAINDER 0)",
        "CREATE TABLE p PARTITION OF t DEFAULT",
    ],
)
def test_defines(sql: str):
    assert is_definition(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO note VALUES (1)",
        "UPDATE note SET text = 'one'",
        "DELETE FROM note",
        "SELECT setval('note_id_seq', 100)",
        "TRUNCATE note",
        "COPY note FROM STDIN",
        "DO $$ BEGIN INSERT INTO note VALUES (random()); END $$",
        "CREATE TABLE copied AS SELECT now()",
        "CREATE TABLE copied AS VALUES (now())",
        "CREATE TABLE copied AS/* */VALUES (now())",
        "CREATE TABLE copied AS EXECUTE prepared",
        "CREATE MATERIALIZED VIEW seen AS SELECT now()",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
        "CREATE EXTENSION pgcrypto",
        "CREATE DATABASE other",
        "CREATE ROLE reader",
        "ALTER DATABASE acme SET work_mem = '8MB'",
        "ALTER ROLE acme SET work_mem = '8MB'",
        "ALTER SYSTEM SET work_mem = '8MB'",
        "GRANT CONNECT ON DATABASE acme TO reader",
        "COMMENT ON DATABASE acme IS 'a customer'",
        "ALTER TABLE note ADD COLUMN at timestamp DEFAULT ' Now'",
        "ALTER TABLE note ADD COLUMN at timestamp DEFAULT timestamp 'today 12:00'",
        "CREATE TABLE a (id INTEGER); INSERT INTO a VALUES (1)",
        "CREATE TABLE a (text TEXT DEFAULT 'open",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM (current_date) TO (MAXVALUE)",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM ('2020-01-01') TO (now() + '1 day')",
        "CREATE TABLE p PARTITION OF t FOR VALUES IN (extract(year FROM now()))",
        "ALTER TABLE t ATTACH PARTITION p FOR/**/VALUES IN (random())",
        "SET search_path TO other",
        "PRAGMA user_version = 5",
        "WITH new AS (INSERT INTO note VALUES (1) RETURNING id) SELECT 1",
    ],
)
def test_may_do_more(sql: str):
    assert not is_definition(sql)
