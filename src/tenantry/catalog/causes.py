"""Failure causes: error messages without names and numbers.

Errors that differ only in tables, tenants or numbers have the same cause. The cause keeps the
failed revision, the SQLSTATE and the wording.
"""

import re
from collections.abc import Sequence

from tenantry.kit.text import canonical

PLACEHOLDER = "…"
NOT_ATTEMPTED = "not attempted: "
"""The prefix of the error of a tenant that was not started; the reason follows."""

# The name of a revision in front, and the state at the end.
_REVISION = re.compile(r"([^\s:]+(?::[^\s:]+)?): (?=.)", re.DOTALL)
_STATE = re.compile(r" ?\(SQLSTATE [0-9A-Z]{5}\)\.?$")
_RAISED = "P0001"  # the text is the revision's own
_QUOTED = re.compile(r""""[^"]*"|(?<!\w)'[^']*'(?!\w)|`[^`]*`""")
# Unquoted names in messages of the databases: the text before, and after.
_KIND = "(?:table|index|view|trigger|column|relation|type|schema|sequence|database)"
_BARE = tuple(
    re.compile(rf"(?P<before>{before}){name}(?P<after>{after})")
    for before, name, after in (
        (r"\bno such [a-z ]+: ", r".+?", r"\.?$"),
        (r"\b(?:column name|constraint failed): ", r".+?", r"\.?$"),
        (r"\bno column named ", r"\S+?", r"\.?$"),
        (r"\bcannot store ", r".+?", r"\.?$"),
        (r"\bfunction ", r".+?", r" does not exist"),
        (
            rf"\b{_KIND} ",
            r"(?!file )[^\s:]+",
            r" (?:already exists|does not exist|has|may not|is not|of)\b",
        ),
        (rf"\b(?:for|of) {_KIND} ", r"\S+?", r"\.?(?= |$)"),
    )
)
# Whatever holds a digit is a number, or the name of one among many.
_NUMBERED = re.compile(r"[\w@.+-]*\d[\w@+-]*(?:[.:/][\w@+-]+)*")
_REPEATED = re.compile(rf"{PLACEHOLDER}(?:[\s,]*{PLACEHOLDER})+")


def cause_of(error: str, names: Sequence[str] = ()) -> str:
    """Return the cause that *error* names, as `migration.errors` has worded it.

    Args:
        error: The text.
        names: Of the tenant and of its database, which are taken out of what a revision says.
    """
    if error.startswith(NOT_ATTEMPTED):
        return error
    revision, text, state = _split(error)
    text = _QUOTED.sub(PLACEHOLDER, text)
    # Elsewhere a tenant's name could only be a word of the sentence: some are called "Lock".
    for name in names if _RAISED in state else ():
        text = _without(name, text)
    for pattern in _BARE:
        text = pattern.sub(rf"\g<before>{PLACEHOLDER}\g<after>", text)
    text = _NUMBERED.sub(PLACEHOLDER, text)
    return revision + _REPEATED.sub(PLACEHOLDER, text) + state


def _split(error: str) -> tuple[str, str, str]:
    state = _STATE.search(error)
    end = state.start() if state else len(error)
    revision = _REVISION.match(error, 0, end)
    start = revision.end() if revision else 0
    return error[:start], error[start:end], error[end:]


def _without(name: str, text: str) -> str:
    # As a word of its own: a tenant called "a" is in no word that holds the letter.
    pattern = rf"(?<!\w){re.escape(canonical(name))}(?!\w)"
    return re.sub(pattern, PLACEHOLDER, text, flags=re.IGNORECASE) if name else text
