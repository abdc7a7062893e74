"""Group failures: the part of an error that it shares with the errors of other tenants.

The key of a group is derived from the exception: the revision, the class or the SQLSTATE, and the
words of the server's message, without the names and numbers in it.
"""

import re
import sqlite3

from tenantry.db.outages import sqlstate_of
from tenantry.kit.errors import TenantryError
from tenantry.migration.errors import (
    BY_STATE,
    SERVER_WORDS,
    SQLITE,
    WORD,
    cause_of,
    explain,
)
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.streams import UnknownRevision

PLACEHOLDER = "…"
# Several names with punctuation between them are one placeholder: `main.note`, `a, b`.
_REPEATED = re.compile(rf"{PLACEHOLDER}(?:[^\w{PLACEHOLDER}]*{PLACEHOLDER})+")


def failure_cause(error: BaseException) -> str:
    """Return the common part of errors of one kind, in the form of `explain`.

    A placeholder replaces the text that differs between tenants.
    """
    raised = cause_of(error)
    prefix = f"{error.name}: " if isinstance(error, RevisionFailed) else ""
    if isinstance(raised, UnknownRevision):
        return f"{prefix}{raised.cause}"
    reason = explain(error)
    if isinstance(raised, TenantryError):
        return reason
    if isinstance(raised, sqlite3.Error):
        is_message = reason.startswith(f"{prefix}{SQLITE}")
        return prefix + _without_names(reason.removeprefix(prefix)) if is_message else reason
    state = sqlstate_of(raised)
    if state is not None and reason.endswith(f"(SQLSTATE {state})."):
        return _of_postgres(reason, prefix, state)
    if prefix and not isinstance(raised, OSError):
        return f"{prefix}The migration raised {type(raised).__name__}{PLACEHOLDER}"
    return reason


def _of_postgres(reason: str, prefix: str, state: str) -> str:
    suffix = f" (SQLSTATE {state})."
    sentence = reason.removeprefix(prefix).removesuffix(suffix)
    if sentence not in BY_STATE.values():
        sentence = _without_names(sentence)
    return f"{prefix}{sentence}{suffix}"


def _without_names(message: str) -> str:
    def shown(word: re.Match[str]) -> str:
        return word[0] if word[0].casefold() in SERVER_WORDS else PLACEHOLDER

    text = WORD.sub(shown, message)
    return _REPEATED.sub(PLACEHOLDER, text)
