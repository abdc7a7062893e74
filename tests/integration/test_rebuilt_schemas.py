"""Schemas that a restore evaluates again: functions that name others without their schemas."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.backup import dumps
from tenantry.db.copying.rebuilding import NotRebuilt
from tenantry.db.postgres.tools import PostgresTools
from testkit import raw_sql
from testkit.postgres import find_binaries
from tests.integration.engines import on_postgresql

pytestmark = on_postgresql

TOOLS = PostgresTools(find_binaries())
FUNCTION = "CREATE FUNCTION {} RETURNS integer LANGUAGE {} IMMUTABLE AS $$ {} $$"
# The function `f` names another function, or a table, which is found on the path of the database.
NAMING = {
    "function": [
        FUNCTION.format("g(integer)", "sql", "SELECT $1 + 1"),
        FUNCTION.format("f(integer)", "sql", "SELECT g($1)"),
    ],
    "table": [
        "CREATE TABLE a_lookup (id integer, value integer)",
        "INSERT INTO a_lookup VALUES (7, 8)",
        FUNCTION.format(
            "f(integer)",
            "plpgsql",
            "BEGIN RETURN (SELECT value FROM a_lookup WHERE id = $1); END",
        ),
    ],
}
SHAPES = {
    "check": ["CREATE TABLE note (id integer CHECK (f(id) = 8))"],
    "generated column": [
        "CREATE TABLE note (id integer, next integer GENERATED ALWAYS AS (f(id)) STORED)"
    ],
    "domain": [
        "CREATE DOMAIN seven AS integer CHECK (f(VALUE) = 8)",
        "CREATE TABLE note (id seven)",
    ],
}
# PostgreSQL 17 and later build these with a path of their own.
BUILT_ALONE = {
    "index": ["CREATE TABLE note (id integer)", "CREATE INDEX note_f ON note (f(id))"],
    "materialized view": [
        "CREATE TABLE note (id integer)",
        "CREATE MATERIALIZED VIEW seen AS SELECT f(id) AS next FROM note",
    ],
}
# A function of SQL is inlined, so not even an index without rows can be built with it.
LATE = "plpgsql IMMUTABLE AS $$ BEGIN RETURN g($1); END"
ROWS = ["INSERT INTO note SELECT 7 FROM generate_series(1, 3)"]


SCHEMA = '"it\'s, ü"'


@pytest.fixture(name="source")
def _source(new_database: Callable[[], str]) -> str:
    """A database with a path of its own."""
    url = new_database()
    with raw_sql.connected(url) as query:
        name = query("SELECT current_database()")[0][0]
        query(f"CREATE SCHEMA {SCHEMA}")
        query(f"ALTER DATABASE {name} SET search_path = {SCHEMA}, public")
    return url


async def copied(source: str, target: str, tmp_path: Path) -> str:
    """Write an archive's contents, restore them, and return what the engine's tool writes."""
    parts: list[bytes] = []
    contents = await dumps.dump(source, parts.append, tools=TOOLS, scratch=tmp_path)
    await dumps.load(target, iter(parts), tools=TOOLS)
    await dumps.check_loaded(target, contents, is_foreign=False)
    return raw_sql.written(target)


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_restore_has_the_path_of_the_database(
    shape: str, naming: str, source: str, new_database: Callable[[], str], tmp_path: Path
):
    raw_sql.run(source, *NAMING[naming], *SHAPES[shape], *ROWS)

    assert await copied(source, new_database(), tmp_path) == raw_sql.written(source)


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("shape", BUILT_ALONE)
async def test_a_restore_builds_what_its_server_can_build(
    shape: str, naming: str, source: str, new_database: Callable[[], str], tmp_path: Path
):
    raw_sql.run(source, *NAMING[naming])
    if server_major(source) >= 17:
        path = raw_sql.rows(source, "SHOW search_path")[0][0]
        raw_sql.run(source, f"ALTER FUNCTION f SET search_path = {path}")
    raw_sql.run(source, *BUILT_ALONE[shape], *ROWS)
    if shape == "materialized view":
        raw_sql.run(source, "REFRESH MATERIALIZED VIEW seen")

    assert await copied(source, new_database(), tmp_path) == raw_sql.written(source)


@pytest.mark.parametrize("naming", NAMING)
async def test_an_index_that_reindex_cannot_build_is_refused_at_once(
    naming: str, source: str, tmp_path: Path
):
    if server_major(source) < 17:
        pytest.skip("an older server builds it")
    functions = [sql.replace("sql IMMUTABLE AS $$ SELECT g($1)", LATE) for sql in NAMING[naming]]
    raw_sql.run(source, *functions, *BUILT_ALONE["index"], *ROWS)

    with pytest.raises(NotRebuilt, match=r"The index .*note_f .* does not exist.* SET search_path"):
        await dumps.dump(source, lambda _data: None, tools=TOOLS, scratch=tmp_path)


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_function_that_reads_a_table_which_is_loaded_later_is_refused_at_once(
    shape: str, source: str, tmp_path: Path
):
    naming = [sql.replace("a_lookup", "z_lookup") for sql in NAMING["table"]]
    raw_sql.run(source, *naming, *SHAPES[shape], *ROWS)

    with pytest.raises(NotRebuilt, match=f"^The {shape} .* reads the table z_lookup, whose rows"):
        await dumps.dump(source, lambda _data: None, tools=TOOLS, scratch=tmp_path)


async def test_a_builtin_function_is_not_replaced_by_one_of_the_same_name_on_the_path(
    new_database: Callable[[], str], tmp_path: Path
):
    source = new_database()
    raw_sql.run(
        source,
        "CREATE TABLE note (body text)",
        "CREATE INDEX note_lower ON note (lower(body))",
        "CREATE FUNCTION lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''x'''",
        "INSERT INTO note VALUES ('A')",
    )
    name = raw_sql.rows(source, "SELECT current_database()")[0][0]
    raw_sql.run(source, f"ALTER DATABASE {name} SET search_path = public, pg_catalog")

    target = new_database()
    assert await copied(source, target, tmp_path) == raw_sql.written(source)
    used = """SELECT count(*) FROM pg_depend WHERE objid = 'note_lower'::regclass
        AND refclassid = 'pg_proc'::regclass"""
    assert raw_sql.rows(target, used) == [(0,)]


# Built-in ones that take any type, and those of a user that fit arrays of integers better.
SHADOWING = [
    "CREATE FUNCTION never(integer[], integer[]) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
    "CREATE OPERATOR @> (LEFTARG = integer[], RIGHTARG = integer[], FUNCTION = never)",
    "CREATE FUNCTION to_json(integer[]) RETURNS json LANGUAGE sql IMMUTABLE AS 'SELECT NULL::json'",
]
JOINING = [
    "CREATE FUNCTION ours(text, integer) RETURNS text LANGUAGE sql AS $$ SELECT text 'ours' $$",
    "CREATE OPERATOR || (LEFTARG = text, RIGHTARG = integer, FUNCTION = ours)",
]
CONCAT = JOINING[0].replace("ours(text, integer)", "concat(integer, text)")


@pytest.mark.parametrize(
    ("expression", "statements", "value"),
    [
        ("a @> ARRAY[1]", SHADOWING[:2], True),
        ("to_json(a)::text", SHADOWING[2:], "[1]"),
        ("'a' || a[1]", JOINING, "a1"),
        ("concat(a[1], 'a')", [CONCAT], "1a"),
    ],
)
async def test_a_builtin_of_any_type_is_not_replaced_by_one_that_fits_better(
    expression: str,
    statements: list[str],
    value: object,
    new_database: Callable[[], str],
    tmp_path: Path,
):
    source, target = new_database(), new_database()
    raw_sql.run(
        source,
        "CREATE TABLE note (a integer[] CHECK (a @> ARRAY[1]))",
        "INSERT INTO note VALUES (ARRAY[1])",
        f"CREATE VIEW seen AS SELECT {expression} AS one FROM note",
        *statements,
    )

    assert await copied(source, target, tmp_path) == raw_sql.written(source)
    assert raw_sql.rows(target, "SELECT * FROM seen") == [(value,)]


@pytest.mark.parametrize("calls", ["f(id) = 8", "id ### 1 = 8"])
async def test_a_function_that_needs_a_path_with_a_better_fit_is_refused_at_once(
    calls: str, source: str, new_database: Callable[[], str], tmp_path: Path
):
    raw_sql.run(
        source,
        *NAMING["function"],
        FUNCTION.format("f(integer, integer)", "sql", "SELECT f($1)"),
        "CREATE OPERATOR ### (LEFTARG = integer, RIGHTARG = integer, FUNCTION = f)",
        f"CREATE TABLE note (id integer CHECK ({calls}))",
        *ROWS,
        *SHADOWING,
    )

    with pytest.raises(NotRebuilt, match=r" on that path .*\.(@>|to_json) .* ALTER FUNCTION f\("):
        await dumps.dump(source, lambda _data: None, tools=TOOLS, scratch=tmp_path)
    path = raw_sql.rows(source, "SHOW search_path")[0][0]
    for name in ("f(integer)", "f(integer, integer)"):
        raw_sql.run(source, f"ALTER FUNCTION {name} SET search_path = {path}")
    assert await copied(source, new_database(), tmp_path) == raw_sql.written(source)


async def test_a_function_of_another_type_does_not_replace_a_builtin(
    source: str, new_database: Callable[[], str], tmp_path: Path
):
    raw_sql.run(source, *NAMING["function"], *SHAPES["check"], *ROWS)
    raw_sql.run(
        source,
        "CREATE FUNCTION never(json, json) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "CREATE OPERATOR @> (LEFTARG = json, RIGHTARG = json, FUNCTION = never)",
    )

    assert await copied(source, new_database(), tmp_path) == raw_sql.written(source)


SMALL = FUNCTION.format(
    "checked(integer)", "plpgsql", "BEGIN IF $1 < 5 THEN RAISE 'too small'; END IF; RETURN $1; END"
)


async def test_a_constraint_that_is_not_valid_is_restored_as_it_is(
    new_database: Callable[[], str], tmp_path: Path
):
    source = new_database()
    raw_sql.run(
        source,
        SMALL,
        "CREATE DOMAIN large AS integer",
        "CREATE TABLE note (id integer, size large)",
        "INSERT INTO note VALUES (1, 1)",
        "ALTER TABLE note ADD CONSTRAINT small CHECK (checked(id) > 0) NOT VALID",
        "ALTER DOMAIN large ADD CONSTRAINT small CHECK (checked(VALUE) > 0) NOT VALID",
    )

    assert await copied(source, new_database(), tmp_path) == raw_sql.written(source)


KNOWN = """
CREATE FUNCTION known(integer) RETURNS boolean LANGUAGE sql
AS 'SELECT EXISTS (SELECT FROM a_lookup WHERE id = $1)'
"""
# What the rows no longer fulfil, and the sentence about it.
OUTDATED = {
    "a function": (
        [
            "CREATE FUNCTION checked(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
            "CREATE TABLE note (id integer CHECK (checked(id) > 0))",
            "INSERT INTO note VALUES (1)",
            SMALL.replace("CREATE", "CREATE OR REPLACE"),
        ],
        r"check constraint note_id_check .*: too small\.",
    ),
    "a table": (
        [
            "CREATE TABLE a_lookup (id integer)",
            "INSERT INTO a_lookup VALUES (1)",
            KNOWN,
            "CREATE TABLE note (id integer CHECK (known(id)))",
            "INSERT INTO note VALUES (1)",
            "DELETE FROM a_lookup",
        ],
        "check constraint note_id_check .*: rows violate it",
    ),
    "the time": (
        [
            "CREATE TABLE note (at timestamptz CHECK (at > clock_timestamp()))",
            "INSERT INTO note VALUES (clock_timestamp() + interval '0.2 s')",
            "SELECT pg_sleep(0.3)",
        ],
        "check constraint note_at_check .*: rows violate it",
    ),
    "a domain": (
        [
            "CREATE DOMAIN later AS timestamptz CHECK (VALUE > clock_timestamp())",
            "CREATE TABLE note (at later)",
            "INSERT INTO note VALUES (clock_timestamp() + interval '0.2 s')",
            "SELECT pg_sleep(0.3)",
        ],
        "domain later .* violates check constraint",
    ),
    "a materialized view": (
        [
            "CREATE TABLE note (id integer)",
            "INSERT INTO note VALUES (1)",
            "CREATE MATERIALIZED VIEW seen AS SELECT 1 / id AS part FROM note",
            "UPDATE note SET id = 0",
        ],
        r"materialized view public\.seen .*: division by zero",
    ),
}


@pytest.mark.parametrize("changed", OUTDATED)
async def test_what_the_rows_no_longer_fulfil_is_refused_at_once(
    changed: str, new_database: Callable[[], str], tmp_path: Path
):
    source, (statements, message) = new_database(), OUTDATED[changed]
    raw_sql.run(source, *statements)

    with pytest.raises(NotRebuilt, match=f"^The {message}"):
        await dumps.dump(source, lambda _data: None, tools=TOOLS, scratch=tmp_path)


def server_major(url: str) -> int:
    return int(raw_sql.rows(url, "SHOW server_version_num")[0][0]) // 10_000
