"""The log in a database of a fleet, small on PostgreSQL; and what older releases have stored."""

import pytest

from testkit import raw_sql
from tests.acceptance.fleets import LOG, Fleet, statuses, version
from tests.acceptance.test_fleet_runs import add_slow
from tests.integration.engines import on_postgresql

OLD_LOG = """
CREATE TABLE tenantry_migration_log (
    position SERIAL NOT NULL, run_id UUID NOT NULL, stream VARCHAR NOT NULL,
    revision VARCHAR NOT NULL, applied_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP
    NOT NULL, PRIMARY KEY (position)
)
"""
CONCURRENTLY = """
from alembic import op

revision, down_revision = "a5", "a4"

def upgrade():
    with op.get_context().autocommit_block():
        op.execute("CREATE INDEX CONCURRENTLY by_email ON customer (email)")
"""
LOOPBACK = (
    "database_name = replace(database_name, 'localhost', '127.0.0.1'),"
    " server_name = replace(server_name, 'localhost', '127.0.0.1')"
)
RELATIONS = f"SELECT relname FROM pg_class WHERE relname LIKE '{LOG}%' ORDER BY relname"
ENTRIES = f"SELECT position, revision FROM {LOG} ORDER BY position"


@on_postgresql
class TestShape:
    def test_has_neither_an_index_nor_a_table_for_long_values(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]

        fleet.migrate()

        assert raw_sql.rows(url, RELATIONS) == [(LOG,), (f"{LOG}_position_seq",)]
        toast = f"SELECT reltoastrelid FROM pg_class WHERE relname = '{LOG}'"
        assert raw_sql.rows(url, toast) == [(0,)]

    def test_of_an_older_release_is_continued_and_undone(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]
        raw_sql.run(url, OLD_LOG)

        fleet.migrate()
        add_slow(fleet, 0)
        run = fleet.migrate()
        undone = fleet("undo", run["runId"], "--json").data

        assert [position for position, _ in raw_sql.rows(url, ENTRIES)] == [1, 2, 3, 4, 5, 6]
        assert raw_sql.rows(url, RELATIONS) == [
            (LOG,),
            (f"{LOG}_pkey",),
            (f"{LOG}_position_seq",),
        ]
        assert statuses(undone) == {"acme": "success"}
        assert version(url) == [("a4",)]

    def test_can_be_written_where_the_changes_of_all_tables_are_published(self, fleet: Fleet):
        """A table without a key rejects a deletion then, and an autocommit_block deletes."""
        url = fleet.add("acme")["acme"]
        raw_sql.run(url, "CREATE PUBLICATION every FOR ALL TABLES")
        (fleet.project.migrations / "versions" / "a5_index.py").write_text(CONCURRENTLY)

        run = fleet.migrate()

        assert statuses(run) == {"acme": "success"}
        assert [name for _, name in raw_sql.rows(url, ENTRIES)][-1] == "a5_index"

    def test_is_created_before_a_block_that_is_not_repeated(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]
        fleet.project.alembic("upgrade", "a4", url=fleet.absolute(url))
        block = CONCURRENTLY.replace("CREATE INDEX CONCURRENTLY by_email ON", "CREATE TABLE made")
        revision = block.replace("made customer (email)", "made (id integer)")
        (fleet.project.migrations / "versions" / "a5_block.py").write_text(revision)

        run = fleet.migrate()

        assert statuses(run) == {"acme": "success"}
        assert raw_sql.rows(url, ENTRIES) == [(1, "a5_block")]


class TestMixed:
    def test_databases_with_and_without_a_log_at_one_revision_all_get_theirs(self, fleet: Fleet):
        """Each is taken to be like the one before; what differs is found under its lock."""
        urls = fleet.add("a", "b")
        fleet.migrate()
        urls |= fleet.add("c", "d", "e")
        for name in "cde":
            fleet.project.alembic("upgrade", "a4", url=fleet.absolute(urls[name]))
        add_slow(fleet, 0)

        run = fleet.migrate()

        assert set(statuses(run).values()) == {"success"}
        for url in urls.values():
            assert version(url) == [("a5",)]
            assert [name for _, name in raw_sql.rows(url, ENTRIES)][-1] == "a5_slow"

    def test_an_undo_is_logged_if_its_run_was(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]
        fleet.migrate()
        add_slow(fleet, 0)
        run = fleet.migrate()

        undone = fleet("undo", run["runId"], "--no-log", "--json").data

        assert statuses(undone) == {"acme": "success"}
        assert [name for _, name in raw_sql.rows(url, ENTRIES)][-2:] == ["a5_slow", "a5_slow"]

    def test_the_log_of_a_removed_table_begins_again(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]
        fleet.migrate()
        raw_sql.run(url, f"DROP TABLE {LOG}")
        add_slow(fleet, 0)

        run = fleet.migrate()

        assert statuses(run) == {"acme": "success"}
        assert raw_sql.rows(url, ENTRIES) == [(1, "a5_slow")]


@on_postgresql
class TestPlaces:
    @pytest.mark.parametrize(
        ("parameters", "older"),
        [
            ("", "database_name = database_name || '?sslmode=disable'"),
            ("", LOOPBACK),
            ("?search_path=public", LOOPBACK),
            ("", "server_name = replace(server_name, 'localhost', 'LOCALHOST')"),
        ],
    )
    def test_of_older_releases_are_recognised(self, fleet: Fleet, parameters: str, older: str):
        url = fleet.add("acme")["acme"]
        (fleet.project.folder / "databases.txt").write_text(f"{url}{parameters}\n")
        first = fleet.migrate()
        state = f"sqlite:///{fleet.project.folder}/tenantry-fleet.db"
        raw_sql.run(state, f"UPDATE tenant SET {older}")

        again = fleet("migrate", "--json")
        stored = raw_sql.rows(state, "SELECT database_name, server_name FROM tenant")

        assert "new in the list" not in again.stderr
        assert [one["customerId"] for one in again.data["details"]] == [
            one["customerId"] for one in first["details"]
        ]
        assert len(stored) == 1
        assert "@localhost" in stored[0][0]
        assert "sslmode" not in stored[0][0]
        assert stored[0][1].startswith("localhost")
