"""The language that selects tenants, such as ``plan=free and region!=eu``: see docs/labels.md.

A key is a label of the tenant, or one of `COLUMNS`. A tenant without a label is not equal to any
value of it: ``=`` is false, and ``!=`` is true.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import sqlalchemy as sa

from tenantry.catalog.tables import tenant
from tenantry.db.types import sql_function
from tenantry.kit.errors import Invalid
from tenantry.kit.text import canonical, checked_line, shown

CHARS_MAX = 1_000
DEPTH_MAX = 20
"""Parentheses and ``not`` inside each other."""
TERMS_MAX = 50
"""Values that an expression compares."""

FAILING, NAME = "failing", "name"
COLUMNS = {NAME: "canonical_name", "revision": "schema_revision", "server": "server_name"}
"""The keys that are no labels, besides `FAILING`."""
WORDS = frozenset({"and", "or", "not", "in", FAILING})
LABEL_KEY = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
LABEL_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,62}")

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<symbol>!=|[=~(),])|(?P<word>[^\s=~(),!"']+))"""
)


class BadWhere(Invalid):
    """The expression that selects tenants is wrong; the message says where."""


class NoTenantMatches(Invalid):
    """The expression selects no tenant: a label or a value in it may be mistyped."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


Condition = sa.ColumnElement[bool]
# On PostgreSQL, a list of ids that does not fit in `work_mem` is searched for each tenant; on
# SQLite, only a list lets the index of the labels find the tenants.
_LABEL_OF_ONE = (
    "EXISTS (SELECT 1 FROM tenant_label WHERE tenant_label.tenant_id = {} "
    'AND tenant_label."key" = {} AND tenant_label.value = {})'
)
_has_label = sql_function(
    sa.types.NullType(),
    sqlite='{} IN (SELECT tenant_id FROM tenant_label WHERE tenant_label."key" = {} '
    "AND tenant_label.value = {})",
    postgresql=_LABEL_OF_ONE,
)
"""Whether the tenant of an id has a label, by its key and its value."""
_one_has_label = sql_function(sa.types.NullType(), sqlite=_LABEL_OF_ONE, postgresql=_LABEL_OF_ONE)
"""The same for tenants that are found by something else: one lookup for each."""


class Led(NamedTuple):
    """An expression of which every tenant has one label: its first condition by ``=``.

    Attributes:
        key: The key of that label.
        value: Its value.
        rest: The other conditions, as an expression; None without one.
    """

    key: str
    value: str
    rest: str | None


def condition_of(text: str, some: sa.FromClause = tenant, *, are_found: bool = False) -> Condition:
    """Return the condition of an expression, on the table `tenant` or an alias, with its values.

    *are_found* says that something else selects few of the tenants. It changes the duration alone.

    Raises:
        BadText: It is blank, too long, or has control characters.
        BadWhere: It breaks a rule of the language or a bound.
    """
    checked_line("where", text, chars_max=CHARS_MAX)
    parser = _Parser(_tokens(text), some, _one_has_label if are_found else _has_label)
    found = parser.alternatives(DEPTH_MAX)
    parser.expect_end()
    return found


def conditions_of(text: str | None, some: sa.FromClause = tenant) -> list[Condition]:
    """Return the condition of an expression as a list, which is empty without one.

    Raises:
        BadText, BadWhere: As for `condition_of`.
    """
    return [] if text is None else [condition_of(text, some)]


def led_by_label(text: str) -> Led | None:
    """Return an expression as `Led`; None if it has ``or`` outside parentheses, or no such label.

    Raises:
        BadText, BadWhere: As for `condition_of`.
    """
    tokens = _tokens(text)
    parser = _Parser(tokens, tenant, _has_label)
    parts = parser.factors() or []
    for part in parts:
        match tokens[part]:
            case [key, _Token(text="="), value] if key.text not in COLUMNS:
                if part is not parts[0]:
                    rest = text[: tokens[part.start - 1].at - 1] + text[tokens[part.stop].at - 1 :]
                else:
                    rest = text[tokens[part.stop + 1].at - 1 :] if len(parts) > 1 else ""
                return Led(key.text, _value_of(value), rest or None)
    return None


def is_of_labels(text: str) -> bool:
    """Return whether an expression needs only labels and names: no other column of `tenant`.

    False also if a value is one of the other words.

    Raises:
        BadText, BadWhere: As for `condition_of`.
    """
    words = {one.text for one in _tokens(text) if one.kind == "word"}
    return words.isdisjoint({FAILING, *COLUMNS} - {NAME})


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].lstrip()
            raise BadWhere(f"`where`: {shown(rest[0])} at {len(text) - len(rest) + 1} is wrong.")
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*tokens, _Token("end", "", end + 1)]


def _value_of(token: _Token) -> str:
    return token.text[1:-1] if token.kind == "quoted" else token.text


class _Parser:
    """Reads an expression from the left, with one function for each rule of the grammar."""

    def __init__(
        self,
        tokens: list[_Token],
        some: sa.FromClause,
        has_label: Callable[..., Condition],
    ) -> None:
        self._tokens = tokens
        self._some = some.c
        self._has_label = has_label
        self._at = 0
        self._terms = 0

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._wrong("`and`, `or`, or the end")

    def alternatives(self, depth: int) -> Condition:
        return self._joined("or", sa.or_, lambda: self._conjunction(depth))

    def factors(self) -> list[slice] | None:
        """Return which tokens are each of the conditions that `and` joins; None if `or` does."""
        found = []
        while True:
            start = self._at
            self._factor(DEPTH_MAX)
            found.append(slice(start, self._at))
            if not self._skip("word", "and"):
                return found if self._next.kind == "end" else None

    def _conjunction(self, depth: int) -> Condition:
        return self._joined("and", sa.and_, lambda: self._factor(depth))

    def _joined(
        self, word: str, join: Callable[..., Condition], part: Callable[[], Condition]
    ) -> Condition:
        parts = [part()]
        while self._skip("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(*parts)

    def _factor(self, depth: int) -> Condition:
        if not depth:
            raise BadWhere(f"`where`: more than {DEPTH_MAX} parentheses inside each other.")
        if self._skip("word", "not"):
            return sa.not_(self._factor(depth - 1))
        if self._skip("symbol", "("):
            inner = self.alternatives(depth - 1)
            self._expect("symbol", ")")
            return inner
        if self._skip("word", FAILING):
            return self._some.failing_run_id.is_not(None)
        return self._comparison()

    def _comparison(self) -> Condition:
        key = self._next
        if key.kind != "word" or key.text in WORDS:
            raise self._wrong("a label, `server`, `revision`, `name` or `failing`")
        self._at += 1
        if self._skip("symbol", "="):
            return self._equals(key.text, self._value())
        if self._skip("symbol", "!="):
            return sa.not_(self._equals(key.text, self._value()))
        if self._skip("word", "in"):
            return sa.or_(*(self._equals(key.text, one) for one in self._list()))
        if key.text == NAME and self._skip("symbol", "~"):
            escaped = canonical(self._value()).replace("\\", r"\\")
            escaped = escaped.replace("%", r"\%").replace("_", r"\_")
            return self._some.canonical_name.like(sa.literal(f"%{escaped}%"), escape="\\")
        raise self._wrong("`=`, `!=`, `in`" + (" or `~`" if key.text == NAME else ""))

    def _list(self) -> list[str]:
        self._expect("symbol", "(")
        values = [self._value()]
        while self._skip("symbol", ","):
            values.append(self._value())
        self._expect("symbol", ")")
        return values

    def _value(self) -> str:
        token = self._next
        if token.kind not in {"word", "quoted"}:
            raise self._wrong("a value")
        self._terms += 1
        if self._terms > TERMS_MAX:
            raise BadWhere(f"`where` must compare at most {TERMS_MAX} values.")
        self._at += 1
        return _value_of(token)

    def _equals(self, key: str, value: str) -> Condition:
        if key in COLUMNS:
            wanted = canonical(value) if key == NAME else value
            # Not NULL for a tenant whose revision is unknown, so that `!=` is its opposite.
            return sa.func.coalesce(self._some[COLUMNS[key]], "") == sa.literal(wanted, sa.String)
        # No tenant can have it: `!=` would select all of them.
        if not (LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value)):
            raise BadWhere(f"`where`: {shown(f'{key}={value}')} cannot be a label of a tenant.")
        return self._has_label(
            self._some.id, sa.literal(key, sa.String), sa.literal(value, sa.String)
        )

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _skip(self, kind: str, text: str) -> bool:
        is_it = self._next.kind == kind and self._next.text == text
        self._at += is_it
        return is_it

    def _expect(self, kind: str, text: str) -> None:
        if not self._skip(kind, text):
            raise self._wrong(f"`{text}`")

    def _wrong(self, wanted: str) -> BadWhere:
        found = shown(self._next.text) if self._next.kind != "end" else "the end"
        return BadWhere(f"`where`: {wanted} is expected at {self._next.at}, not {found}.")
