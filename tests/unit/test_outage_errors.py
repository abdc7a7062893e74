"""Which errors can be of a server that is away."""

import sqlite3
import ssl
from contextlib import closing
from pathlib import Path

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa

from tenantry.db.open_files import FileMissing
from tenantry.db.outage_errors import ConnectTimeout, is_full
from tenantry.migration.errors import is_outage
from tenantry.migration.revisions import RevisionFailed

OUTAGES = {
    "refused": ConnectionRefusedError(),
    "no name": OSError("Name or service not known"),
    "no socket": FileNotFoundError(),
    "no connection in time": ConnectTimeout(),
    "lost": asyncpg.ConnectionDoesNotExistError(),
    "closed": asyncpg.InterfaceError("connection is closed"),
    "no host to write to": asyncpg.TargetServerAttributeNotMatched(),
    "a pooler says no": asyncpg.ProtocolViolationError("server login failed"),
    "shutting down": asyncpg.AdminShutdownError(),
    "crashed": asyncpg.CrashShutdownError(),
    "starting": asyncpg.CannotConnectNowError(),
    "read-only": asyncpg.ReadOnlySQLTransactionError(),
    "full": asyncpg.TooManyConnectionsError(),
    "lost by psycopg": psycopg.OperationalError("server closed the connection unexpectedly"),
    "shutting down by psycopg": psycopg.errors.AdminShutdown(),
    "lost before, by SQLAlchemy": sa.exc.PendingRollbackError("It was lost.", code="8s2b"),
    "no file": FileMissing(),
}
OWN = {
    "no database": asyncpg.InvalidCatalogNameError(),
    "wrong password": asyncpg.InvalidPasswordError(),
    "refused by pg_hba": asyncpg.InvalidAuthorizationSpecificationError(),
    "locked": asyncpg.LockNotAvailableError(),
    "a deadlock": asyncpg.DeadlockDetectedError(),
    "a wrong URL": asyncpg.ClientConfigurationError("no such parameter"),
    "a wrong certificate": ssl.SSLCertVerificationError(),
    "no TLS": ConnectionError('PostgreSQL server at "db:5432" rejected SSL upgrade'),
    "no certificate": FileNotFoundError(2, "No such file or directory", "/etc/root.crt"),
    "the deadline": TimeoutError(),
    "a statement": psycopg.errors.UndefinedTable(),
    "a wrong value": asyncpg.DataError(),
    "a flush that failed before": sa.exc.PendingRollbackError("It failed.", code="7s2a"),
    "anything": RuntimeError(),
}


class TestIsOutage:
    @pytest.mark.parametrize("name", OUTAGES)
    def test_of_a_server(self, name: str):
        assert is_outage(OUTAGES[name])

    @pytest.mark.parametrize("name", OWN)
    def test_of_a_tenant(self, name: str):
        assert not is_outage(OWN[name])

    def test_in_a_revision(self):
        failed = RevisionFailed("u1_create_note")
        failed.__cause__ = asyncpg.AdminShutdownError()
        lost = RevisionFailed("u1_create_note", source="op.execute('SELECT 1')")
        lost.__cause__ = sa.exc.OperationalError("SELECT 1", {}, OUTAGES["lost by psycopg"])

        assert is_outage(failed)
        assert is_outage(lost)

    def test_of_a_service_that_a_revision_calls(self):
        """A live revision does what it likes, and its errors are its own."""
        failed = RevisionFailed("u1_call", source="urlopen('http://…')")
        failed.__cause__ = ConnectionRefusedError()

        assert not is_outage(failed)

    def test_of_a_full_disk(self, tmp_path: Path):
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as raw:
            raw.execute("CREATE TABLE a (b)")
            raw.execute("PRAGMA max_page_count = 2")
            with pytest.raises(sqlite3.OperationalError) as full:
                raw.execute("INSERT INTO a VALUES (zeroblob(100000))")
            with pytest.raises(sqlite3.OperationalError) as other:
                raw.execute("SELECT * FROM c")

        assert is_outage(full.value)
        assert not is_outage(other.value)


def test_a_server_that_is_full_is_known():
    assert is_full(sa.exc.OperationalError("", {}, asyncpg.TooManyConnectionsError()))
    assert not is_full(asyncpg.AdminShutdownError())
