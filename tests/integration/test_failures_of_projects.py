"""What an operator reads when a revision, or what it needs, is wrong."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenantry.migration.errors import explain, failure_cause
from tenantry.migration.streams import BadStream, Stream
from testkit import raw_sql
from testkit.postgres import create_database
from testkit.revisions import AlembicFolder
from tests.integration.conftest import Rig
from tests.integration.engines import on_postgresql, on_sqlite

pytestmark = pytest.mark.filterwarnings("ignore")

LIVE = "online = True"
LONG_ID = "a" * 33
SETTINGS = """
from pydantic_settings import BaseSettings

class Settings(BaseSettings):
    project_redis_url: str
    project_workers: int

Settings()
"""
ROLE = """
role = "{role}"
op.execute(f'''
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{{role}}') THEN
        CREATE ROLE {{role}};
    END IF;
END $$''')
op.execute(f"ALTER ROLE {{role}} SET statement_timeout = '5s'")
op.execute(f"GRANT pg_monitor TO {{role}}")
op.execute("SELECT pg_sleep(0.05)")
"""


async def failure(rig: Rig, url: str) -> Exception:
    error = (await rig.migrate(url)).error
    assert error is not None
    return error


@pytest.mark.parametrize("head", ["", LIVE], ids=["recorded", "live"])
class TestFailure:
    @on_postgresql
    async def test_of_copy_without_data_names_the_remedy(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        folder.add("0001_note", 'op.execute("CREATE TABLE note (x int)")')
        folder.add("0002_copy", 'op.execute("COPY note FROM STDIN;\\n1\\n")', head=head)

        error = await failure(rig, tenant_url)

        assert "COPY … FROM STDIN needs" in explain(error)

    @on_postgresql
    async def test_of_a_long_revision_id_says_so(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        folder.add(LONG_ID, "op.create_table('note', sa.Column('x', sa.Integer))", head=head)

        error = await failure(rig, tenant_url)

        assert "at most 32 characters" in explain(error)

    @on_postgresql
    async def test_does_not_follow_from_a_long_id_if_the_column_is_wide(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        widen = "op.execute('ALTER TABLE alembic_version ALTER version_num TYPE varchar(128)')"
        folder.add("0001_wide", widen, head=head)
        folder.add(LONG_ID, "op.create_table('note', sa.Column('x', sa.Integer))", head=head)

        assert (await rig.migrate(tenant_url)).error is None
        assert raw_sql.rows(tenant_url, "SELECT version_num FROM alembic_version") == [(LONG_ID,)]

    async def test_of_a_syntax_error_shows_the_statement_up_to_it(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        folder.add("0001_note", 'op.execute("CREATE TABLE note (x int)")')
        wrong = "SELECT x, 'a literal'\\n FORM x note"
        folder.add("0002_wrong", f'op.execute("{wrong}")', head=head)

        error = await failure(rig, tenant_url)

        said = explain(error)
        assert "syntax error" in said
        # SQLite says near what, and the word occurs more than once.
        places = (
            "Line 2 of the statement, at the end of: SELECT x, '' FORM x",
            "It begins: SELECT x",
        )
        assert any(place in said for place in places)
        assert "literal" not in said
        assert said.startswith(failure_cause(error).partition("…")[0])

    @on_postgresql
    async def test_hides_a_name_that_comes_out_of_a_row(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (x text)", "INSERT INTO note VALUES ('secret')")
        folder.add("0001_set", "op.execute('SELECT set_config(x, x, false) FROM note')", head=head)

        said = explain(await failure(rig, tenant_url))

        assert "unrecognized configuration parameter" in said
        assert "secret" not in said

    @on_postgresql
    async def test_keeps_the_names_of_types(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (x varchar)")
        folder.add("0001_sum", "op.execute('SELECT 1 FROM note WHERE x = 1')", head=head)

        said = explain(await failure(rig, tenant_url))

        assert "operator does not exist: character varying = integer" in said

    @on_sqlite
    @pytest.mark.parametrize(
        "change", ["drop_constraint('fk_note_x')", "create_unique_constraint(None, ['x'])"]
    )
    async def test_of_batch_mode_names_the_naming_convention_of_env_py(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str, change: str
    ):
        folder.add("0001_note", "op.create_table('note', sa.Column('x', sa.Integer))", head=head)
        batch = f"with op.batch_alter_table('note') as batch:\n    batch.{change}"
        folder.add("0002_batch", batch, head=head)

        said = explain(await failure(rig, tenant_url))

        assert "ValueError in 0002_batch.py, line" in said
        assert "set TENANTRY_TENANT_NAMING_CONVENTION" in said

    @on_sqlite
    async def test_hides_a_path_that_comes_out_of_a_row(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (x text)", "INSERT INTO note VALUES ('secret')")
        query = "CREATE TABLE copy AS SELECT json_extract(json_array(1), x) FROM note"
        folder.add("0001_path", f'op.execute("{query}")', head=head)

        said = explain(await failure(rig, tenant_url))

        assert "JSON path" in said
        assert "secret" not in said


class TestImport:
    def test_of_a_missing_package_says_where_to_install_it(self, folder: AlembicFolder):
        folder.add("0001_note", "pass", head="import no_such_package.models")

        said = _unreadable(folder)

        assert "0001_note.py, line" in said
        assert "No module named 'no_such_package'" in said
        assert "Install its package into Tenantry's environment" in said

    def test_of_settings_names_those_that_are_missing(
        self, folder: AlembicFolder, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("PROJECT_WORKERS", "a-secret-value")
        folder.add("0001_note", "pass", head=SETTINGS)

        said = _unreadable(folder)

        assert "missing or wrong: project_redis_url, project_workers" in said
        assert "secret" not in said

    def test_of_a_missing_environment_variable_names_it(self, folder: AlembicFolder):
        folder.add("0001_note", "pass", head="import os\nos.environ['PROJECT_URL']")

        assert "the environment variable 'PROJECT_URL' is not set" in _unreadable(folder)

    def test_without_a_revision_names_the_file(self, folder: AlembicFolder):
        folder.add("0001_note", "pass")
        folder.write("readme", "def upgrade():\n    pass\n")

        assert "Could not determine revision id from filename readme.py" in _unreadable(folder)

    def test_of_one_id_in_two_files_names_both(self, folder: AlembicFolder):
        folder.add("0001_note", "pass")
        folder.add("0002_note", "pass")
        folder.write("copy", "revision = '0001'\ndown_revision = None\ndef upgrade():\n    pass\n")

        said = _unreadable(folder)

        assert "copy.py" in said
        assert "0001_note.py" in said
        assert "are both the revision '0001'" in said


def _unreadable(folder: AlembicFolder) -> str:
    with pytest.raises(BadStream) as caught:
        _ = Stream("user", folder.path).head
    return caught.value.message


class TestRole:
    """A role belongs to the whole server, so several tenants change it at once."""

    async def test_is_created_and_changed_by_every_tenant(
        self, rig: Rig, folder: AlembicFolder, postgres_url: str, role: str
    ):
        urls = [create_database(postgres_url, f"{role}_{number}") for number in range(6)]
        for url in urls:
            await rig.initialise(url)
        folder.add("0001_role", ROLE.format(role=role), head=LIVE)
        streams = rig.streams()

        states = await asyncio.gather(*(rig.migrate(url, streams) for url in urls))

        assert [explain(one.error) for one in states if one.error] == []

    @on_postgresql
    async def test_is_not_confused_with_a_row_that_exists_twice(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (x int UNIQUE)", "INSERT INTO note VALUES (1)")
        folder.add("0001_twice", "op.execute('INSERT INTO note VALUES (1)')\nprint()", head=LIVE)

        error = await failure(rig, tenant_url)

        assert "note_x_key" in explain(error)


@pytest.fixture(name="role")
def _role(postgres_url: str, tmp_path: Path) -> Iterator[str]:
    name = f"role_of_{abs(hash(tmp_path))}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {name}")
