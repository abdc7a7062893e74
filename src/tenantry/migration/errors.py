"""Explain in one sentence why a tenant failed, without a password, a URL or a row's value."""

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

# By SQLSTATE or SQLSTATE class. Source: PostgreSQL manual, appendix A.
BY_STATE = {
    "3D000": "The database does not exist",
    "28": "The server refuses our role or password",
    "55P03": "A lock was not free in time: something else uses the table",
    "08": "The connection to the server was lost",
    "53300": "The server has no connection left",
    # The server's message quotes the text at the error, which can be a literal.
    "42601": SYNTAX_ERROR,
    "42602": SYNTAX_ERROR,
    # The primary message of a data exception can contain a value of a row.
    "22": "A value in a row does not fit, or cannot be computed with",
    # RAISE can put anything into its message.
    "P0": "A function or trigger of the database raised an error",
}
# A retry may succeed: lock timeout, deadlock, serialization failure.
_LOCK_STATES = ("55P03", "40")
# In these messages SQLite quotes the text, too.
_SQLITE_SYNTAX = ("syntax error", "unrecognized token")
_SQLITE_LOCKED = (
    "A lock was not free in time: something else writes to the database file, or holds it "
    "(SQLite: database is locked)."
)
# In the messages of libpq and asyncpg when TLS fails without an error of the ssl module.
_TLS_WORDS = ("SSL", "TLS", "certificate")
WORD = re.compile(r"\w+")
# Words in the messages of PostgreSQL, SQLite and Tenantry.
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
    """Return the reason in a form that may be shown. An unknown error is named by its type only."""
    name = error.name if isinstance(error, RevisionFailed) else None
    text = _explain(cause_of(error), name, getattr(error, "source", None))
    if name is not None:
        text = f"{name}: {text}"
    # A message can contain text that no database stores: NUL, and lone surrogates.
    text = text.replace("\0", "")
    return text.encode(errors="replace").decode()[:REASON_CHARS_MAX]


def _masked(text: str, source: str | None) -> str:
    """Return *text*, with ``?`` for each word that neither the server nor the revision contains.

    A live revision can build a statement from data that it has read. Then a name is a value.
    """
    if source is None:
        return text
    known = SERVER_WORDS | {word.casefold() for word in WORD.findall(source)}
    return WORD.sub(lambda word: word[0] if word[0].casefold() in known else "?", text)


def reason_of(error: BaseException) -> str:
    """Return why the database was not available, from the cause of *error* if it has one."""
    hidden = None if isinstance(error, RevisionFailed) else error.__cause__
    return explain(hidden or error)


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether *error* is a lock timeout or deadlock, so that a retry may succeed."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.OperationalError):
        return "locked" in str(cause)
    return (sqlstate_of(cause) or "").startswith(_LOCK_STATES)


def is_outage(error: BaseException) -> bool:
    """Return whether *error* can be caused by a server that is down, and not by a revision."""
    cause = cause_of(error)
    runs_code = isinstance(error, RevisionFailed) and error.source is not None
    if runs_code and isinstance(cause, OSError):
        return False  # an error of a file or another service that the revision uses
    return outages.is_outage(cause)


def cause_of(error: BaseException) -> BaseException:
    """Return the error of the driver or the revision, which SQLAlchemy and we have wrapped."""
    if isinstance(error, RevisionFailed) and error.__cause__ is not None:
        error = error.__cause__
    return driver_error(error)


def _explain(cause: BaseException, revision: str | None, source: str | None) -> str:
    if isinstance(cause, TenantryError):
        return cause.message
    if isinstance(cause, sqlite3.Error):
        return _explain_sqlite(cause, source)
    state = sqlstate_of(cause)
    # asyncpg checks parameters itself, and gives its own errors an SQLSTATE of the server.
    if state is not None and not isinstance(cause, asyncpg.InterfaceError):
        return _explain_postgres(cause, state, source)
    return _explain_client(cause, revision)


def _explain_client(error: BaseException, revision: str | None) -> str:
    """Explain an error that was not sent by the server."""
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
    # An error inside a function has a context that names the function. A function can build
    # statements, so names in its errors can be values of rows.
    context = getattr(error, "context", None) or getattr(_diag(error), "context", None)
    is_of_function = isinstance(context, str) and "function" in context.lower()
    sentence = BY_STATE.get(state) or BY_STATE.get(state[:2])
    if sentence is None:
        # An SQLSTATE that PostgreSQL does not define was raised by a function.
        is_known = hasattr(asyncpg.PostgresError, "get_message_class_for_sqlstate") and (
            asyncpg.PostgresError.get_message_class_for_sqlstate(state) is not asyncpg.PostgresError
        )
        if state.startswith("23"):  # it names a constraint, which is in the schema
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
    if "constraint failed" not in message:  # that one names columns of the schema
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
