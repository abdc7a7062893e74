"""Both streams of revisions lead to the tables that the code knows, on both engines."""

import ast
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from tenantry.catalog import stream as catalog_stream
from tenantry.catalog import tables as catalog_tables
from tenantry.db.types import Canonical
from tenantry.kit.ids import new_id
from tenantry.migration import schema_state
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Stream, Streams
from tenantry.tenant import stream as tenant_stream
from tenantry.tenant import tables as tenant_tables
from tests.contracts.ledger import sync_engine

STREAMS = {
    "catalog": (catalog_stream.STREAM, catalog_tables.metadata),
    "tenant": (tenant_stream.STREAM, tenant_tables.metadata),
}
FILE_NAME = re.compile(r"(\d{4})_([a-z]+)_[a-z0-9_]+")
PATIENCE = TimeLimits(connect_seconds=5, deadline_seconds=60, lock_ms=3_000)


@dataclass(frozen=True)
class MigrationResult:
    """A database at the head of one stream, and the tables that it should have."""

    stream: Stream
    metadata: sa.MetaData
    url: str
    engine: sa.Engine


@pytest.fixture(name="migrator")
def _migrator() -> Iterator[Migrator]:
    with ThreadPoolExecutor(1) as threads:
        yield Migrator(threads, PATIENCE)


@pytest.fixture(name="migrated", params=sorted(STREAMS))
async def _migrated(
    request: pytest.FixtureRequest, new_database: Callable[[], str], migrator: Migrator
) -> AsyncIterator[MigrationResult]:
    stream, metadata = STREAMS[request.param]
    url = new_database()
    await _to_head(migrator, url, stream)
    engine = sync_engine(url)
    yield MigrationResult(stream, metadata, url, engine)
    engine.dispose()


async def _to_head(migrator: Migrator, url: str, stream: Stream) -> None:
    await migrator.initialise(url, RunScripts(Streams(stream)), run_id=new_id())


# Each engine has its own index of the names of tenants, which no table of the code describes.
TRIGRAMS = ("tenant_name_trigrams", "ix_tenant_name_trigrams")


def everything_in(engine: sa.Engine) -> dict[str, Any]:
    """Return the schema of a database, and what is in it."""
    with engine.begin() as connection:
        inspector = sa.inspect(connection)
        return {
            table: (
                [str(column) for column in inspector.get_columns(table)],
                inspector.get_pk_constraint(table),
                [_plain(index) for index in inspector.get_indexes(table)],
                inspector.get_unique_constraints(table),
                inspector.get_foreign_keys(table),
                connection.execute(sa.text(f'SELECT * FROM "{table}"')).all(),
            )
            for table in sorted(inspector.get_table_names())
        }


def _plain(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return an index in a form that can be compared: a condition is text."""
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


class TestStream:
    def test_leads_to_the_tables(self, migrated: MigrationResult):
        """The last revision leaves exactly the tables that the code knows."""
        together = sa.MetaData()
        for metadata in (migrated.metadata, schema_state.metadata):
            for table in metadata.tables.values():
                table.to_metadata(together)

        with migrated.engine.begin() as connection:
            options = {
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: (
                    kind not in {"table", "index"} or not str(name).startswith(TRIGRAMS)
                ),
            }
            context = MigrationContext.configure(connection, opts=options)
            differences = compare_metadata(context, together)

        assert differences == []

    def test_leads_to_the_keys(self, migrated: MigrationResult):
        """Primary keys and the collation of canonical text, which Alembic does not compare."""
        with migrated.engine.begin() as connection:
            inspector = sa.inspect(connection)
            for table in migrated.metadata.sorted_tables:
                found = inspector.get_pk_constraint(table.name)["constrained_columns"]
                types = {one["name"]: one["type"] for one in inspector.get_columns(table.name)}

                assert found == [column.name for column in table.primary_key]
                for column in table.columns:
                    if column.type is Canonical and connection.dialect.name == "postgresql":
                        assert types[column.name].collation == "C", column

    async def test_applied_twice_changes_nothing(
        self, migrated: MigrationResult, migrator: Migrator
    ):
        """At the head there is nothing to do, however often it is asked for."""
        before = everything_in(migrated.engine)

        await _to_head(migrator, migrated.url, migrated.stream)
        again = await migrator.migrate(
            migrated.url, RunScripts(Streams(migrated.stream)), run_id=new_id()
        )

        assert everything_in(migrated.engine) == before
        assert (again.applied, again.error, again.revision.own) == ([], None, migrated.stream.head)

    def test_writes_down_what_it_applied(self, migrated: MigrationResult):
        """The log of the database has one row for each revision, in order, and the head."""
        with migrated.engine.begin() as connection:
            log = connection.execute(
                sa.select(schema_state.log.c.revision).order_by(schema_state.log.c.position)
            )
            version = connection.execute(sa.select(schema_state.version.c.version_num))

            assert log.scalars().all() == [one.name for one in migrated.stream.revisions]
            assert version.scalars().all() == [migrated.stream.head]


@pytest.mark.parametrize("name", sorted(STREAMS))
class TestRevisions:
    def test_are_named_by_number_verb_and_noun(self, name: str):
        """A file is ``NNNN_verb_noun.py``, numbered without a gap, and its number is its id."""
        stream, _ = STREAMS[name]

        for number, revision in enumerate(stream.revisions, 1):
            match = FILE_NAME.fullmatch(revision.name)
            assert match, revision.name
            assert match[1] == revision.id == f"{number:04}"

    def test_begin_with_their_verb(self, name: str):
        """What a revision says of itself begins like its name."""
        stream, _ = STREAMS[name]

        for revision in stream.revisions:
            docstring = ast.get_docstring(ast.parse(revision.path.read_text())) or ""
            verb = revision.name.split("_")[1]
            assert docstring.lower().startswith(verb), revision.name

    def test_take_op_and_import_nothing_of_ours(self, name: str):
        """A revision must not change its meaning, so it cannot depend on code that changes."""
        stream, _ = STREAMS[name]

        for revision in stream.revisions:
            text = revision.path.read_text()
            assert "def upgrade(op: Operations) -> None:" in text, revision.name
            assert not re.search(r"^\s*(from|import) tenantry", text, re.MULTILINE), revision.name
            assert not re.search(r"^from alembic import", text, re.MULTILINE), revision.name

    def test_are_one_file_each(self, name: str):
        """No file lies beside the line of revisions."""
        stream, _ = STREAMS[name]
        folder = stream.revisions[0].path.parent

        assert {one.path for one in stream.revisions} == set(folder.glob("*.py"))
