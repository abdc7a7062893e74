"""Say in one sentence why a tenant failed, without a password, a URL or a row's value."""

import sqlite3

import asyncpg
import sqlalchemy.exc

from tenantry.kit.errors import TenantryError
from tenantry.migration.streams import RevisionFailed

# In these classes even the primary message can hold a value of a row.
# Source: PostgreSQL manual, appendix A: 22 is "data exception".
DATA_EXCEPTION_CLASS = "22"
REASON_CHARS_MAX = 500
SYNTAX_ERROR = "A statement has a syntax error"

_BY_TYPE: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.InvalidCatalogNameError, "The database does not exist"),
    (asyncpg.InvalidAuthorizationSpecificationError, "The server refuses our role or password"),
    (asyncpg.LockNotAvailableError, "A lock was not free in time: something else uses the table"),
    (asyncpg.PostgresConnectionError, "The connection to the server was lost"),
    (asyncpg.TooManyConnectionsError, "The server has no connection left"),
    # It quotes what it stumbles over, and that can be a literal.
    (asyncpg.PostgresSyntaxError, SYNTAX_ERROR),
    (asyncpg.InvalidNameError, SYNTAX_ERROR),
)
# So does SQLite, in these messages.
_SQLITE_SYNTAX = ("syntax error", "unrecognized token")


def explain(error: BaseException) -> str:
    """Return the reason as it may be shown. What is not known is named by its type alone."""
    text = _explain(cause_of(error))
    if isinstance(error, RevisionFailed):
        text = f"{error.name}: {text}"
    # A message can hold what no database stores: NUL, and halves of characters.
    text = text.replace("\0", "")
    return text.encode(errors="replace").decode()[:REASON_CHARS_MAX]


def reason_of(error: BaseException) -> str:
    """Return why the database was not available, where the error alone does not say it."""
    hidden = None if isinstance(error, RevisionFailed) else error.__cause__
    return explain(hidden or error)


def is_lock_timeout(error: BaseException) -> bool:
    """Tell whether the error is that a lock was not free, so that another try may succeed."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.OperationalError):
        return "locked" in str(cause)
    return isinstance(cause, asyncpg.LockNotAvailableError | asyncpg.TransactionRollbackError)


def cause_of(error: BaseException) -> BaseException:
    """Return what the driver raised, or the revision.

    SQLAlchemy wraps it, once on SQLite and twice over asyncpg; and so do we.
    """
    if isinstance(error, RevisionFailed) and error.__cause__ is not None:
        error = error.__cause__
    while isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
        error = error.orig
    if not isinstance(error, asyncpg.PostgresError) and isinstance(
        error.__cause__, asyncpg.PostgresError
    ):
        return error.__cause__
    return error


def _explain(cause: BaseException) -> str:
    if isinstance(cause, TenantryError):
        return cause.message
    if isinstance(cause, asyncpg.PostgresError):
        return _explain_postgres(cause)
    if isinstance(cause, sqlite3.Error):
        return _explain_sqlite(cause)
    if isinstance(cause, TimeoutError):
        return "The database did not answer in time."
    if isinstance(cause, OSError | asyncpg.InterfaceError):
        return "The database cannot be reached."
    return f"The migration raised {type(cause).__name__}."


def _explain_postgres(error: asyncpg.PostgresError) -> str:
    state = f"(SQLSTATE {error.sqlstate})"
    for type_, sentence in _BY_TYPE:
        if isinstance(error, type_):
            return f"{sentence} {state}."
    if (error.sqlstate or "").startswith(DATA_EXCEPTION_CLASS):
        return f"A value in a row does not fit, or cannot be computed with {state}."
    return f"{error.args[0]} {state}."


def _explain_sqlite(error: sqlite3.Error) -> str:
    message = str(error.args[0]) if error.args else type(error).__name__
    if message == "unable to open database file":
        return "The database file does not exist, or cannot be opened."
    if any(syntax in message for syntax in _SQLITE_SYNTAX):
        return "SQLite: a statement has a syntax error."
    return f"SQLite: {message}."
