"""Classify errors that can mean that a whole server is down, and not one database on it.

An error alone does not decide: one database can be read-only, or one connection lost. The
server decides, when it is probed (`Server.probe`).
"""

import os
import re
import sqlite3
import ssl

import asyncpg
import sqlalchemy.exc

from tenantry.db.open_files import FileMissing
from tenantry.kit.errors import Unavailable

FULL_STATE = "53300"
DISK_FULL_STATE = "53100"
# SQLSTATEs, or their classes. Source: PostgreSQL manual, appendix A.
OUTAGE_STATES = (
    "08",  # the connection was lost or refused; poolers refuse with 08P01
    "25006",  # read-only: a demoted primary
    FULL_STATE,  # too many connections
    "57P01",  # shutting down
    "57P02",  # crashed
    "57P03",  # starting, or in recovery
)
# Primary result codes. Source: https://www.sqlite.org/rescode.html
_SQLITE_OUTAGES = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
    }
)
_PRIMARY_CODE = 0xFF
# asyncpg's own: the connection is closed, or none of several hosts may be written to.
_ASYNCPG_LOST = (asyncpg.InterfaceError, asyncpg.InternalClientError)
# Mistakes in a URL or an argument: waiting does not correct them. A host name without an address is
# none: that of a container has no address while the container restarts.
_MISTAKES = (
    asyncpg.ClientConfigurationError,
    asyncpg.UnsupportedClientFeatureError,
    ssl.SSLCertVerificationError,
)
# asyncpg's message if the server supports no TLS, and `sslmode` requires it.
_NO_TLS = "rejected SSL upgrade"
# What the ssl module raises for a file; `PostgresConnector` adds the name. A socket has none.
OF_TLS_FILE = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_LIVE_DRIVERS = ("psycopg", "psycopg2")
# SQLAlchemy's code of a statement after it has found the connection lost. A `PendingRollbackError`
# of its ORM has another. Source: SQLAlchemy, "Error Messages"
_LOST_BEFORE = "8s2b"
# asyncio joins the errors of several addresses into one text.
_ERRNO = re.compile(r"\[Errno (\d+)\]")


class ServerAway(Unavailable):
    """The server does not answer, or does not accept writes."""


class ConnectTimeout(TimeoutError):
    """No connection was made in time."""


def is_outage(error: BaseException) -> bool:
    """Return whether *error* can be caused by a server that is down.

    The errors of a revision's own code, such as an `OSError` of a file that it reads, are for
    the caller to exclude.
    """
    cause = driver_error(error)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & _PRIMARY_CODE in _SQLITE_OUTAGES
    if isinstance(cause, FileMissing | ServerAway):
        return True
    state = sqlstate_of(cause)
    if state is not None:
        return state.startswith(OUTAGE_STATES)
    if isinstance(cause, _MISTAKES) or _NO_TLS in str(cause):
        return False
    if isinstance(cause, OF_TLS_FILE) and cause.filename is not None:
        return False
    return isinstance(cause, _ASYNCPG_LOST) or _is_lost_connection(cause)


def is_lost(error: BaseException) -> bool:
    """Return whether a connection was refused or lost, so that a retry may succeed.

    If the server is full, the request has waited already: see `Database`.
    """
    is_file = isinstance(driver_error(error), sqlite3.Error | FileMissing)
    return is_outage(error) and not is_file and not is_full(error)


def is_full(error: BaseException) -> bool:
    """Return whether the server had no connection left: at all, for the role or the database."""
    return sqlstate_of(driver_error(error)) == FULL_STATE


def reason_of(error: BaseException, *, names_file: bool) -> str:
    """Return why a client could not connect, in the words of the system; empty if unknown.

    It has no host, user or password, and the name of a file only with *names_file*.
    """
    if isinstance(error, asyncpg.ClientConfigurationError) and names_file:
        return "" if "://" in str(error) else str(error)
    if _NO_TLS in str(error):
        return "the server does not support TLS"
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "no host matches `target_session_attrs` of the URL"
    if isinstance(error, ssl.SSLError):
        stated = getattr(error, "verify_message", None) if names_file else None
        return stated or (error.reason or error.strerror or "").replace("_", " ")
    if not isinstance(error, OSError):
        return ""
    found = _ERRNO.search(str(error))
    number = int(found[1]) if found else error.errno or 0
    # The text of asyncio has the address; an unknown name has a negative number.
    reason = os.strerror(number) if number > 0 else error.strerror or ""
    return f"{reason} ({error.filename})" if names_file and error.filename else reason


def is_disk_full(error: BaseException) -> bool:
    """Return whether a write failed because the disk of the database is full."""
    cause = driver_error(error)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_FULL
    return sqlstate_of(cause) == DISK_FULL_STATE


def driver_error(error: BaseException) -> BaseException:
    """Return the error of the driver; SQLAlchemy wraps it."""
    while isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
        error = error.orig
    return error


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error of any driver of PostgreSQL, if it has one."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else None


def is_of_driver(error: BaseException, *names: str) -> bool:
    """Return whether *error* is of psycopg or psycopg2, and of a class with one of *names*.

    Both drivers name their classes as the DBAPI does (PEP 249).
    """
    kinds = {one.__name__ for one in type(error).__mro__}
    return type(error).__module__.partition(".")[0] in _LIVE_DRIVERS and not kinds.isdisjoint(names)


def _is_lost_connection(error: BaseException) -> bool:
    if isinstance(error, sqlalchemy.exc.PendingRollbackError):
        return error.code == _LOST_BEFORE
    if isinstance(error, OSError):
        return not isinstance(error, TimeoutError) or isinstance(error, ConnectTimeout)
    # libpq gives no SQLSTATE when it cannot connect, or loses the connection.
    return is_of_driver(error, "OperationalError")


def is_of_database(error: BaseException) -> bool:
    """Return whether a driver has raised *error*: a database, or its disk, has failed."""
    cause = driver_error(error)
    kinds = (sqlite3.Error, asyncpg.PostgresError, *_ASYNCPG_LOST)
    return isinstance(cause, kinds) or is_of_driver(cause, "Error")


def is_missing_table(error: BaseException) -> bool:
    """Return whether *error* says that a table does not exist."""
    if isinstance(error, sqlite3.OperationalError):
        return str(error).startswith("no such table")
    return sqlstate_of(error) == "42P01"
