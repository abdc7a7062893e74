"""Find the revisions with the same result in every new database: they define, and write no rows.

A row can contain the time or a random value, from a function, a default or a trigger. What a
revision reads can have another value later, but then it is not recorded. The settings and grants of
a database itself are not part of a copy.
"""

import re

import sqlalchemy as sa

from tenantry.migration import sql_text
from tenantry.migration.recorder import Unrecorded, record
from tenantry.migration.revisions import Revision

_KINDS = frozenset(
    {
        *("COLUMN", "CONSTRAINT", "DOMAIN", "FUNCTION", "INDEX", "PROCEDURE", "SCHEMA"),
        *("SEQUENCE", "TABLE", "TRIGGER", "TYPE", "VIEW"),
    }
)
_DEFINITIONS = frozenset(
    {
        *((verb, kind) for verb in ("CREATE", "ALTER", "DROP") for kind in _KINDS),
        ("CREATE", "UNIQUE"),
        ("CREATE", "OR"),
    }
)
_OF_TABLES = frozenset({("CREATE", "TABLE"), ("ALTER", "TABLE")})
# A table that a query fills; and times that PostgreSQL evaluates when it parses the definition.
# Any match counts, also one in a name or a literal: a false alarm is harmless.
_WRITES_ROWS = re.compile(r"\bSELECT\b|\bEXECUTE\b|\bAS\s+(TABLE|VALUES)\b|--|/\*", re.IGNORECASE)
_TIME_OF_DEFINITION = re.compile(r"'\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
# PostgreSQL evaluates the bounds of a partition when it is created.
_VALUES = re.compile(r"\bVALUES\b", re.IGNORECASE)
_LITERAL = r"\s*(?:-?[\d.]+|'(?:[^']|'')*'|MINVALUE|MAXVALUE|NULL|TRUE|FALSE)\s*"
_LITERALS = rf"\({_LITERAL}(?:,{_LITERAL})*\)"
_LITERAL_BOUNDS = re.compile(
    rf"\bVALUES\s+(?:IN\s*{_LITERALS}|FROM\s*{_LITERALS}\s*TO\s*{_LITERALS}|WITH\s*\([\w\s,]*\))",
    re.IGNORECASE,
)


def is_ddl_only(revision: Revision, dialect: sa.Dialect, version_table: str) -> bool:
    """Return whether *revision* has the same result in every database without rows.

    In doubt, return False.
    """
    recording = record(revision, dialect, version_table)
    return not isinstance(recording, Unrecorded) and all(map(is_definition, recording))


def is_definition(sql: str) -> bool:
    """Return whether every command in *sql* defines something, and none writes a row."""
    text = sql_text.read(sql)
    if not text.is_whole or _TIME_OF_DEFINITION.search(sql):
        return False
    kinds = {words[:2] for words in text.commands}
    if ("CREATE", "TABLE") in kinds and _WRITES_ROWS.search(sql):
        return False
    if kinds & _OF_TABLES and len(_VALUES.findall(sql)) > len(_LITERAL_BOUNDS.findall(sql)):
        return False
    return all(_is_definition(words) for words in text.commands)


def _is_definition(words: tuple[str, ...]) -> bool:
    if words[:2] == ("COMMENT", "ON"):
        return words[2:3] != () and words[2] in _KINDS
    return words[:2] in _DEFINITIONS
