"""Say in one sentence why a tenant failed, without a password, a URL or a row's value."""

import re
import sqlite3
import ssl
from collections.abc import Iterator

import asyncpg

from tenantry.db import outages
from tenantry.db.outages import driver_error, sqlstate_of
from tenantry.kit.errors import TenantryError
from tenantry.migration.revisions import RevisionFailed, describe

REASON_CHARS_MAX = 500
SYNTAX_ERROR = "A statement has a syntax error"
SQLITE = "SQLite: "
"""How the reason begins that is a message of SQLite."""
WRONG_TYPE = "A parameter has a Python type that the driver cannot send"

# By SQLSTATE, or by its class. Source: PostgreSQL manual, appendix A.
BY_STATE = {
    "3D000": "The database does not exist",
    "28": "The server refuses our role or password",
    "55P03": "A lock was not free in time: something else uses the table",
    "08": "The connection to the server was lost",
    "53300": "The server has no connection left",
    # It quotes the text at which it fails, and that can be a literal.
    "42601": SYNTAX_ERROR,
    "42602": SYNTAX_ERROR,
    # In a data exception even the primary message can hold a value of a row.
    "22": "A value in a row does not fit, or cannot be computed with",
    # What RAISE says is up to who wrote it.
    "P0": "A function or trigger of the database raised an error",
}
# Another try may succeed: no lock in time, a deadlock, a serialization failure.
_LOCK_STATES = ("55P03", "40")
# SQLite quotes the text, too, in these messages.
_SQLITE_SYNTAX = ("syntax error", "unrecognized token")
_SQLITE_LOCKED = (
    "A lock was not free in time: something else writes to the database file, or holds it "
    "(SQLite: database is locked)."
)
# What libpq and asyncpg say when TLS fails, without an error of the ssl module.
_TLS_WORDS = ("SSL", "TLS", "certificate")
WORD = re.compile(r"\w+")
# Of the messages of PostgreSQL and SQLite, and our own.
SERVER_WORDS = frozenset(
    """
A another already an and ambiguous appear are argument array as at be because been but by
BEGIN boolean cannot cast changed column columns combination connection constraint context
could current data database date defined depend depends denied deleted do does driver drop
duplicate each error exist exists expression extension failed file find for foreign format from
function functions generated given has have holds index in input integer into is it its key
language lock locked lost many matching migration more multiple must name no not null number
object objects of on only operator or other owner parameter partition permission primary raised
read reference referenced relation role row rows same schema sequence server set should
something specified SQLite SQLSTATE statement string such syntax table tables than text that the
there this time timestamp to transaction trigger type undefined unique unknown update used using
value values varying view violates was when which with without writes
""".casefold().split()
)
_DRIVERS = ("psycopg", "psycopg2", "asyncpg")


def explain(error: BaseException) -> str:
    """Return the reason as it may be shown. What is not known is named by its type alone."""
    name = error.name if isinstance(error, RevisionFailed) else None
    text = _explain(cause_of(error), name, getattr(error, "source", None))
    if name is not None:
        text = f"{name}: {text}"
    # A message can hold what no database stores: NUL, and halves of characters.
    text = text.replace("\0", "")
    return text.encode(errors="replace").decode()[:REASON_CHARS_MAX]


def _masked(text: str, source: str | None) -> str:
    """Return *text* without the words that are neither the server's nor the revision's own.

    A live revision can make a statement of what it has read, and then a name is a value.
    """
    if source is None:
        return text
    known = SERVER_WORDS | {word.casefold() for word in WORD.findall(source)}
    return WORD.sub(lambda word: word[0] if word[0].casefold() in known else "?", text)


def reason_of(error: BaseException) -> str:
    """Return why the database was not available, where the error alone does not say it."""
    hidden = None if isinstance(error, RevisionFailed) else error.__cause__
    return explain(hidden or error)


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether a lock was not free, so that another try may succeed."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.OperationalError):
        return "locked" in str(cause)
    return (sqlstate_of(cause) or "").startswith(_LOCK_STATES)


def is_outage(error: BaseException) -> bool:
    """Return whether a server that is away can have raised *error*, and no revision by itself."""
    cause = cause_of(error)
    runs_code = isinstance(error, RevisionFailed) and error.source is not None
    if runs_code and isinstance(cause, OSError):
        return False  # of a file, or another service, that the revision uses
    return outages.is_outage(cause)


def cause_of(error: BaseException) -> BaseException:
    """Return what the driver raised, or the revision. SQLAlchemy wraps it, and so do we."""
    if isinstance(error, RevisionFailed) and error.__cause__ is not None:
        error = error.__cause__
    return driver_error(error)


def _explain(cause: BaseException, revision: str | None, source: str | None) -> str:
    if isinstance(cause, TenantryError):
        return cause.message
    if isinstance(cause, sqlite3.Error):
        return _explain_sqlite(cause, source)
    state = sqlstate_of(cause)
    # asyncpg checks parameters itself, and gives its errors a state of the server's.
    if state is not None and not isinstance(cause, asyncpg.InterfaceError):
        return _explain_postgres(cause, state, source)
    return _explain_client(cause, revision)


def _explain_client(error: BaseException, revision: str | None) -> str:
    """Return what an error means that did not come from the server."""
    if isinstance(error, TimeoutError):
        return "The database did not answer in time."
    if any(map(_is_of_tls, _chain(error))):
        return "The TLS connection to the server failed: see its certificate and `sslmode`."
    if isinstance(error, asyncpg.DataError) or _is_of_driver(
        error, "ProgrammingError", "DataError"
    ):
        return f"{WRONG_TYPE} ({type(error).__name__})."
    if isinstance(error, OSError | asyncpg.InterfaceError):
        return "The database cannot be reached."
    if _is_of_driver(error, "OperationalError"):
        return "The connection to the server was lost."
    return f"The migration raised {describe(error, lambda file: file.stem == revision)}."


def _explain_postgres(error: BaseException, state: str, source: str | None) -> str:
    # What a function does it does in its own context: its names can be values of rows.
    context = getattr(error, "context", None) or getattr(_diag(error), "context", None)
    is_of_function = isinstance(context, str) and "function" in context.lower()
    sentence = BY_STATE.get(state) or BY_STATE.get(state[:2])
    if sentence is None:
        # A state that PostgreSQL does not know was made up by a function.
        is_known = hasattr(asyncpg.PostgresError, "get_message_class_for_sqlstate") and (
            asyncpg.PostgresError.get_message_class_for_sqlstate(state) is not asyncpg.PostgresError
        )
        if state.startswith("23"):  # it names a constraint, and that is from the schema
            source = None
        is_of_code = is_of_function or not is_known
        sentence = BY_STATE["P0"] if is_of_code else _masked(_message_of(error), source)
    return f"{sentence} (SQLSTATE {state})."


def _message_of(error: BaseException) -> str:
    primary = getattr(_diag(error), "message_primary", None)
    return str(primary or (error.args[0] if error.args else type(error).__name__))


def _diag(error: BaseException) -> object:
    return getattr(error, "diag", None)


def _explain_sqlite(error: sqlite3.Error, source: str | None) -> str:
    message = str(error.args[0]) if error.args else type(error).__name__
    if message == "unable to open database file":
        return "The database file does not exist, or cannot be opened."
    if "locked" in message:
        return _SQLITE_LOCKED
    if any(syntax in message for syntax in _SQLITE_SYNTAX):
        return "SQLite: a statement has a syntax error."
    if getattr(error, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_TRIGGER":
        return "SQLite: a trigger raised an error."
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError):
        return f"{WRONG_TYPE} ({type(error).__name__})."
    if "constraint failed" not in message:  # it names columns of the schema
        message = _masked(message, source)
    return f"{SQLITE}{message}."


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _is_of_tls(error: BaseException) -> bool:
    is_connection = isinstance(error, ConnectionError) or _is_of_driver(error, "OperationalError")
    words = any(word in str(error) for word in _TLS_WORDS)
    return isinstance(error, ssl.SSLError) or (is_connection and words)


def _is_of_driver(error: BaseException, *names: str) -> bool:
    kinds = {one.__name__ for one in type(error).__mro__}
    return type(error).__module__.partition(".")[0] in _DRIVERS and bool(kinds & set(names))
