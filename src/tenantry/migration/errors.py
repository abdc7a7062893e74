"""Explain in one sentence why a tenant failed, without a password, a URL or a row's value.

Tenants that failed for the same cause are grouped by the part of that sentence that they share.
"""

import re
import sqlite3
import ssl
from collections.abc import Callable
from functools import partial

import asyncpg

from tenantry.db import outage_errors
from tenantry.db.outage_errors import ServerAway, driver_error, is_of_driver, sqlstate_of
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.errors import TenantryError, chain_of
from tenantry.migration import sql_text
from tenantry.migration.revisions import RevisionFailed, describe
from tenantry.migration.statements import JOINT, LockAwaited
from tenantry.migration.streams import UnknownRevision

REASON_CHARS_MAX = 500
# Of a statement with a syntax error.
EXCERPT_CHARS_MAX = 80
SYNTAX_ERROR = "A statement has a syntax error"
BAD_VALUE = "A value in a row does not fit, or cannot be computed with"
REFUSED_OPTIONS = "The server refuses `options`, or the value of a setting, of the URL"
WRONG_TYPE = "A parameter has a Python type that the driver cannot send"
REJECTED_CALL = "The driver rejected a call of the revision, or one of its parameters"

# By SQLSTATE or SQLSTATE class. Source: PostgreSQL manual, appendix A.
BY_STATE = {
    "3D000": "The database does not exist",
    "25006": "The transaction is read-only: see `default_transaction_read_only` of the URL, the "
    "role, the database and the server",
    "28": "The server refuses our role or password",
    "55P03": "A lock was not free in time: something else uses the table",
    "08": "The connection to the server was lost",
    "53300": "The server has no connection left",
    # The server's message quotes the text at the error, which can be a literal.
    "42601": SYNTAX_ERROR,
    "42602": SYNTAX_ERROR,
    # The primary message of a data exception can contain a value of a row.
    "22": BAD_VALUE,
    # RAISE can put anything into its message.
    "P0": "A function or trigger of the database raised an error",
}
# The end of the message of a command that PostgreSQL refuses in a transaction.
_IN_BLOCK = "inside a transaction block"
_USE_BLOCK = (
    ": use `autocommit_block()` (SQL: `-- tenantry: no-transaction`) in a separate revision"
)
_AWAITS_OTHER = (
    ", while it was asked for the lock of a migration: perhaps another one has not ended, or its "
    "process is frozen"
)
_TO_CREATE = "permission denied to create database"
# A retry may succeed: lock timeout, deadlock, serialization failure.
_LOCK_STATES = ("55P03", "40")
_CHANGED_CONCURRENTLY = ("tuple concurrently updated", "tuple concurrently deleted")
# In these messages SQLite quotes the text, too.
_SQLITE_SYNTAX = ("syntax error", "unrecognized token")
_SQLITE_LOCKED = (
    "A lock was not free in time: something else writes to the database file, or holds it "
    "(SQLite: database is locked)."
)
# Another connection is never the reason for this one.
_SQLITE_TABLE_LOCKED = (
    "A statement of the same transaction still uses a table (SQLite: database table is locked)."
)
# In the messages of drivers when they cannot convert a parameter.
_TYPE_WORDS = ("adapt", "binding parameter")
# In the messages of libpq and asyncpg when TLS fails without an error of the ssl module.
_TLS_WORDS = ("SSL", "TLS", "certificate")
WORD = re.compile(r"\w+")
# Words in the messages of PostgreSQL, SQLite and Tenantry.
SERVER_WORDS = frozenset(
    """
A aborted about access active administrator after aggregate all allow allowed already ambiguous an
and another any appear are argument arguments array as assign at available bad be because been
before BEGIN below bigint bit block blocks boolean both but by bytea called can canceling cannot
cast change changed changes char character check checks cidr circular clause collation column
columns combination command commands compatible composite concurrent concurrently configuration
conflict conflicts connection constraint contain contained containing contains context could
covering create creating current cursor data database date deadlock default defined definition
deleted denied depend dependency dependent depends detected device different direct directory do
does domain double driver drop due duplicate during each either empty enabled encoding end ended
ending enum error events execute executed exist existing exists expected expression extend extension
failed file find first following for foreign format from function functions generate generated given
had has have holds identity if ignored immutable implemented in incomplete index inet inherit
inherited inherits input insert inserting inside instead integer interval into invalid is isolation
it its json jsonb key language least left level libraries library lock locked long lost
malformed many marked matching maximum may memory method migration missing money more most multiple
must name near nested new no non none nor not nothing null number numeric object objects of oid old
on once one only open operations operator or order other out outside over own owned owner parameter
parameters part partition partitioned partitions path pending permission permitted point precision
prepared primary pseudo public raised range read real record recursive refer reference referenced
references referencing relation replica request requested require required requires restricted
result return returned returning returns rewrite role row rows rule run running safety same
savepoint savepoints schema select sequence serial serialize server session set shared should single
smallint snapshot something space specified SQLite SQLSTATE statement still string subquery such
superuser support supported supports syntax system table tables tablespace temporary terminating
text than that the their there these they this time timeout timestamp to token too transaction
transactions trigger triggers twice two type types undefined under unique unknown unrecognized
unterminated until update updated use used user uses using uuid valid value values varchar variable
varying via view violates void wait was were when which while with within without write writes xml
zone
""".casefold().split()
)
PLACEHOLDER = "…"
# Several names with punctuation between them are one placeholder: `main.note`, `a, b`.
_REPEATED = re.compile(rf"{PLACEHOLDER}(?:[^\w{PLACEHOLDER}]*{PLACEHOLDER})+")

# Their messages are the same for every cause.
OF_ANY_CAUSE = (DatabaseUnavailable, ServerAway)

# The texts in a message that PostgreSQL or SQLite has quoted.
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
_ALL = re.compile(r".+", re.DOTALL)
_NEAR = re.compile(r'near "(.+)"', re.DOTALL)

Mask = Callable[[str], str]


def explain(error: BaseException) -> str:
    """Return the reason in a form that may be shown. An unknown error is named by its type only."""
    text = _explain(error, partial(_without_data, error))
    cause = cause_of(error)
    if _is_syntax_error(cause) and isinstance(error, RevisionFailed):
        text += _place_of(error, cause)
    return _storable(text)


def failure_cause(error: BaseException) -> str:
    """Return the reason with a placeholder for the names and numbers that differ between tenants.

    Errors of one kind (revision, class or SQLSTATE, words of the message) have the same cause.
    """
    text = _explain(error, _without_names)
    has_place = _is_syntax_error(cause_of(error)) and isinstance(error, RevisionFailed)
    return _storable(text + PLACEHOLDER * has_place)


def _explain(error: BaseException, mask: Mask) -> str:
    name = error.name if isinstance(error, RevisionFailed) else None
    text = _explain_cause(cause_of(error), name, mask)
    if name is not None:
        text = f"{name}: {text}"
    return text


def _storable(text: str) -> str:
    """Return *text* without what no database stores: NUL, and lone surrogates."""
    return text.replace("\0", "").encode(errors="replace").decode()[:REASON_CHARS_MAX]


def _without_data(error: BaseException, text: str) -> str:
    """Return *text*, with ``?`` for each word that neither the server nor the revision contains.

    A live revision can build a statement from data that it has read: then a name is a value. A
    recorded one can only pass a value to a function, and the server quotes it, such as the name of
    a setting. Errors of constraints name constraints and columns, which are in the schema.
    """
    if not isinstance(error, RevisionFailed) or _is_of_constraint(cause_of(error)):
        return text
    if error.source is None and error.statement is None:
        return text
    source = error.statement if error.source is None else error.source
    known = SERVER_WORDS | {word.casefold() for word in WORD.findall(source or "")}

    def masked(found: re.Match[str]) -> str:
        return WORD.sub(lambda word: word[0] if word[0].casefold() in known else "?", found[0])

    return (_QUOTED if error.source is None else _ALL).sub(masked, text)


def _place_of(error: RevisionFailed, cause: BaseException) -> str:
    """Return where a statement is wrong: the text up to there, without literals."""
    sql = error.statement
    if not sql:
        return ""
    place = _index_of(sql, cause)
    line, text = sql_text.command_until(sql, place)
    text = " ".join(text.split())
    if error.source is not None:
        text = _without_data(error, text)
    if place is None and JOINT in sql:  # the first statement is not the one that failed
        return ""
    if place is None:
        return f" It begins: {text[:EXCERPT_CHARS_MAX]}"
    excerpt = (
        text if len(text) <= EXCERPT_CHARS_MAX else f"{PLACEHOLDER}{text[-EXCERPT_CHARS_MAX:]}"
    )
    return f" Line {line} of the statement, at the end of: {excerpt}"


def _index_of(sql: str, cause: BaseException) -> int | None:
    """Return the index of the character in *sql* at which *cause* says that it is wrong."""
    position = getattr(getattr(cause, "diag", cause), "statement_position", None)
    near = _NEAR.search(_message_of(cause))
    # With parameters, the driver has sent another text than the one that is known.
    if position and (near is None or sql.startswith(near[1], int(position) - 1)):
        return int(position) - 1
    return sql.index(near[1]) if near and sql.count(near[1]) == 1 else None


def _without_names(text: str) -> str:
    words = WORD.sub(lambda w: w[0] if w[0].casefold() in SERVER_WORDS else PLACEHOLDER, text)
    return _REPEATED.sub(PLACEHOLDER, words)


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


def is_write_refused(error: BaseException) -> bool:
    """Return whether the role, or the permissions of the file, do not allow a write."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.OperationalError):
        return "readonly" in str(cause)
    return sqlstate_of(cause) == "42501"


def is_shared_object_race(error: BaseException) -> bool:
    """Return whether another transaction has changed the same entry of a system catalog.

    Roles and their settings are objects of the whole server, and PostgreSQL does not lock them: of
    two transactions that create or change the same one, the second fails. A unique constraint of a
    user's table is never in the schema of the system catalogs.
    """
    cause = cause_of(error)
    state, diagnosis = sqlstate_of(cause), getattr(cause, "diag", cause)
    if state == "23505":
        return getattr(diagnosis, "schema_name", None) == "pg_catalog"
    return state == "XX000" and _message_of(cause) in _CHANGED_CONCURRENTLY


def is_outage(error: BaseException) -> bool:
    """Return whether *error* can be caused by a server that is down, and not by a revision."""
    cause = cause_of(error)
    runs_code = isinstance(error, RevisionFailed) and error.source is not None
    if runs_code and isinstance(cause, OSError):
        return False  # an error of a file or another service that the revision uses
    return outage_errors.is_outage(cause)


def cause_of(error: BaseException) -> BaseException:
    """Return the error of the driver or the revision, which SQLAlchemy and we have wrapped."""
    if isinstance(error, RevisionFailed) and error.__cause__ is not None:
        error = error.__cause__
    return driver_error(error)


def _explain_cause(cause: BaseException, revision: str | None, mask: Mask) -> str:
    if isinstance(cause, UnknownRevision) and mask is _without_names:
        return cause.cause
    if type(cause) in OF_ANY_CAUSE and cause.__cause__ is not None:
        return _explain_cause(cause_of(cause.__cause__), revision, mask)
    if isinstance(cause, TenantryError):
        return cause.message
    if isinstance(cause, sqlite3.Error):
        return _explain_sqlite(cause, mask)
    state = sqlstate_of(cause)
    if state is not None:
        return _explain_postgres(cause, state, mask)
    return _explain_client(cause, revision, mask)


def _explain_client(error: BaseException, revision: str | None, mask: Mask) -> str:
    """Explain an error that was not sent by the server."""
    if isinstance(error, TimeoutError):
        why = _AWAITS_OTHER if isinstance(error, LockAwaited) else ""
        return f"The database did not answer in time{why}."
    because = ""
    if found := outage_errors.reason_of(
        error, names_file=not revision and mask is not _without_names
    ):
        because = f" ({found})"
    if any(map(_is_of_tls, chain_of(error))):
        return (
            f"The TLS connection to the server failed{because}: see its certificate and `sslmode`."
        )
    if is_of_driver(error, "ProgrammingError", "DataError"):
        return _explain_call(error)
    if isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return f"The database cannot be reached{because}."
    if is_of_driver(error, "OperationalError"):
        return "The connection to the server was lost."
    found = f"{describe(error, lambda file: file.stem == revision)}."
    if revision and mask is _without_names:
        found = f"{type(error).__name__}{PLACEHOLDER}"
    return f"The migration raised {found}"


def _explain_postgres(error: BaseException, state: str, mask: Mask) -> str:
    # An error inside a function has a context that names the function. A function can build
    # statements, so names in its errors can be values of rows.
    context = getattr(getattr(error, "diag", error), "context", None)
    is_of_function = isinstance(context, str) and "function" in context.lower()
    sentence = BY_STATE.get(state) or BY_STATE.get(state[:2])
    if sentence in (SYNTAX_ERROR, BAD_VALUE) and getattr(error, "severity_en", "") == "FATAL":
        sentence = REFUSED_OPTIONS
    if sentence is None:
        # An SQLSTATE that PostgreSQL does not define was raised by a function.
        known = asyncpg.PostgresError.get_message_class_for_sqlstate(state)  # type: ignore[attr-defined]
        is_of_code = is_of_function or known is asyncpg.exceptions.UnknownPostgresError
        sentence = BY_STATE["P0"] if is_of_code else mask(_message_of(error))
    if sentence.endswith(_IN_BLOCK):
        sentence += _USE_BLOCK
    elif sentence == _TO_CREATE:
        sentence += ": `ALTER ROLE … CREATEDB`"
    return f"{sentence} (SQLSTATE {state})."


def _message_of(error: BaseException) -> str:
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return str(primary or (error.args[0] if error.args else type(error).__name__))


def _explain_sqlite(error: sqlite3.Error, mask: Mask) -> str:
    message = str(error.args[0]) if error.args else type(error).__name__
    if message == "unable to open database file":
        return "The database file does not exist, or cannot be opened."
    if "locked" in message:
        return _SQLITE_TABLE_LOCKED if "table is locked" in message else _SQLITE_LOCKED
    if _is_syntax_error(error):
        return "SQLite: a statement has a syntax error."
    if getattr(error, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_TRIGGER":
        return "SQLite: a trigger raised an error."
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError):
        return _explain_call(error)
    return f"SQLite: {mask(message)}."


def _is_syntax_error(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return any(syntax in str(error) for syntax in _SQLITE_SYNTAX)
    return sqlstate_of(error) == "42601"


def _explain_call(error: BaseException) -> str:
    """Explain an error that the driver raised without the database."""
    is_of_type = any(words in str(error) for words in _TYPE_WORDS)
    return f"{WRONG_TYPE if is_of_type else REJECTED_CALL} ({type(error).__name__})."


def _is_of_constraint(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return "constraint failed" in str(error)
    return (sqlstate_of(error) or "").startswith("23")


def _is_of_tls(error: BaseException) -> bool:
    is_connection = isinstance(error, ConnectionError) or is_of_driver(error, "OperationalError")
    words = any(word in str(error) for word in _TLS_WORDS)
    return isinstance(error, ssl.SSLError) or (is_connection and words)
