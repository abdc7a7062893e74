"""Find the statements of a revision that block requests, lose data or break the running release.

A finding is a hint: it never stops a run. A statement that cannot be parsed has no finding.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise

from tenantry.migration import sql_text
from tenantry.migration.lint_rules import RULES, Sent

LINT_CHARS_MAX = 100_000
"""A longer statement is not parsed: a megabyte takes seconds, and is data."""

Command = tuple[str, ...]
Hint = tuple[str, str | None]
"""A rule, and the table that the command names."""

_MAYBE_FOUND = re.compile(
    r"alter|cluster|create|delete|drop|lock|refresh|reindex|truncate|update|vacuum", re.IGNORECASE
)
_IF_EXISTS = (("if", "not", "exists"), ("if", "exists"))
_KINDS_OF_TABLE = tuple(
    (one,) for one in ("global", "local", "temp", "temporary", "unlogged", "materialized")
)
_CONSTRAINTS = frozenset({"check", "exclude", "foreign", "not", "primary", "unique"})
_SERIALS = frozenset({"bigserial", "serial", "serial2", "serial4", "serial8", "smallserial"})
# The others are not known, or are evaluated once, such as now().
_VOLATILE = frozenset(
    {"clock_timestamp", "gen_random_uuid", "nextval", "random", "timeofday", "uuidv4", "uuidv7"}
    | {"uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4"}
)
_CONCURRENT = {("create",), ("drop",), ("reindex",), ("alter",)}
_NEVER_IN_TRANSACTION = {
    *((verb, kind) for verb in ("create", "drop") for kind in ("database", "tablespace")),
    ("alter", "system"),
}
_CHECKED = {
    ("check",): "check-without-not-valid",
    ("foreign",): "foreign-key-without-not-valid",
    ("not",): "set-not-null",
}
_REWRITES = {"logged", "unlogged", "tablespace", "access"}
_BATCH_PREFIX = "_alembic_tmp_"
_BATCH_CHARS_MAX = 50  # Alembic cuts the name of its temporary table


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A hint about one statement of a revision.

    Attributes:
        rule: Its name, a key of `RULES`.
        message: What happens, and what to do instead.
        statement_number: The place of the statement, from 1; 0 if it is about the file.
        table: The table, index, type or schema that the statement names, if it names one.
        line: The line of the revision's file that sends it; None if it is not known.
    """

    rule: str
    message: str
    statement_number: int
    table: str | None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier statements of the same run have done; the names are those of `_key`.

    Attributes:
        created: The new tables and types: they are empty, and no request uses them.
        altered: The tables that the transaction has locked by ALTER TABLE.
    """

    created: set[str] = field(default_factory=set)
    altered: set[str] = field(default_factory=set)


def finding_of(rule: str, about: str | None, number: int = 0, line: int | None = None) -> Finding:
    """Return a finding of *rule*, about a table or for a reason."""
    message = RULES[rule].message.format(table=about or "the table")
    table = about if RULES[rule].url else None
    return Finding(rule=rule, message=message, statement_number=number, table=table, line=line)


def findings_of(
    statements: Sequence[Sent], engine: str, earlier: Earlier | None = None
) -> list[Finding]:
    """Return the findings about a revision.

    Args:
        statements: Its recorded statements; each may contain several commands.
        engine: ``sqlite`` or ``postgresql``.
        earlier: What the revisions before it have done in the same run; it is updated.
    """
    return list(_findings(statements, engine, earlier or Earlier()))


def drops_of(statements: Sequence[str], engine: str) -> list[tuple[str, str | None]]:
    """Return what recorded *statements* drop: tables, and columns with the table before them."""
    commands = (one for sql in statements for one in _commands(sql, engine))
    return list(dict.fromkeys(drop for command in commands for drop in _drops(command)))


def _drops(command: Command) -> Iterator[tuple[str, str | None]]:
    match command:
        case ("drop", "table", *rest):
            yield from ((table, None) for table in _tables(rest))
        case ("alter", "table", *rest):
            table, actions = _table(tuple(rest))
            for action in _split(actions if table else ()):
                column, _ = _table(_without(action[1:], ("column",)))
                if table and column and "drop-column" in _rules_of_action(action):
                    yield table, column


def _findings(statements: Sequence[Sent], engine: str, earlier: Earlier) -> Iterator[Finding]:
    sent = [(one, command) for one in statements for command in _commands(one.sql, engine)]
    created = earlier.created
    for number, ((one, command), (_, following)) in enumerate(pairwise([*sent, (Sent(""), ())]), 1):
        for rule, table in [*_hints(command), *_in_transaction(one, command, earlier)]:
            # A new table is empty, and no request uses it.
            if (table and _key(table) in created) or (
                engine == "sqlite" and RULES[rule].engine != "both"
            ):
                continue
            is_rebuilt = rule == "drop-table" and _is_rebuilt(table, following, created)
            yield finding_of("rebuilds-table" if is_rebuilt else rule, table, number, one.line)
        created |= _created(command, created)


def _in_transaction(sent: Sent, command: Command, earlier: Earlier) -> Iterator[Hint]:
    """Yield the rules that *command* matches because it is in the transaction of a migration."""
    if sent.is_autocommit:
        earlier.altered.clear()
        return
    is_concurrent = command[:1] in _CONCURRENT and "concurrently" in command
    if is_concurrent or command[:1] == ("vacuum",) or command[:2] in _NEVER_IN_TRANSACTION:
        yield "not-in-transaction", None
    match command:
        case ("alter", "type", *rest):
            name, action = _table(tuple(rest))
            yield from [("enum-value-in-transaction", name)] * (action[:2] == ("add", "value"))
        case ("update" | "delete", *rest) if "where" in _top(rest):
            table, _ = _table(_without(tuple(rest), ("from",)))
            yield from [("scan-after-alter", table)] * (_key(table or "") in earlier.altered)
        case ("alter", "table", *rest):
            table, actions = _table(tuple(rest))
            is_scan = actions[:1] == ("validate",) and _key(table or "") in earlier.altered
            yield from [("scan-after-alter", table)] * is_scan
            earlier.altered.add(_key(table or ""))


def _commands(sql: str, engine: str) -> list[Command]:
    """Return the commands of one statement; for a text that is not parsed, one without tokens."""
    if len(sql) > LINT_CHARS_MAX or (";" not in sql and not _MAYBE_FOUND.search(sql)):
        return [()]  # many rows of data need no parsing
    found = sql_text.commands(sql)
    # SQLite accepts one command in a statement. More are the body of a trigger.
    return found if len(found) == 1 or (found and engine == "postgresql") else [()]


def _created(command: Command, created: AbstractSet[str]) -> AbstractSet[str]:
    """Return the key of the table or type that *command* creates, or of a created one renamed."""
    match (*command[:1], *_without(command[1:], *_KINDS_OF_TABLE)):
        case ("create", "table" | "view" | "type" | "domain", *rest) if rest[:2] != ["if", "not"]:
            table, _ = _table(tuple(rest))
            return {_key(table)} if table else set()
        case ("alter", "table", *rest):
            old, new = _renamed(tuple(rest))
            # What batch mode renames has the rows of the table that it replaces.
            is_empty = old in created and not old.startswith(_BATCH_PREFIX)
            return {new} if is_empty else set()
    return set()


def _is_rebuilt(table: str | None, following: Command, created: AbstractSet[str]) -> bool:
    """Return whether *following* replaces *table* with the temporary table of batch mode."""
    name = _key(table or "")
    temporary = f"{_BATCH_PREFIX}{name}"[:_BATCH_CHARS_MAX]
    is_next = following[:2] == ("alter", "table") and _renamed(following[2:]) == (temporary, name)
    return is_next and temporary in created


def _renamed(rest: Command) -> tuple[str, str]:
    """Return the keys of the old and new name, of what follows ``ALTER TABLE``; else empty ones."""
    table, action = _table(rest)
    target = _table(action[2:])[0] if action[:2] == ("rename", "to") else None
    return (_key(table), _key(target)) if table and target else ("", "")


def _key(table: str) -> str:
    """Return what is compared: in doubt, two names are of one table, and there is no finding."""
    return table.rpartition(".")[2].casefold()


def _hints(command: Command) -> Iterator[Hint]:
    """Yield the rules that *command* matches by itself."""
    match command:
        case ("alter", "table", *rest):
            yield from _of_alter_table(tuple(rest))
        case ("create", "index", *rest) | ("create", "unique", "index", *rest):
            yield from _of_index(tuple(rest))
        case ("drop", kind, *rest):
            yield from _of_drop(kind, tuple(rest))
        case ("truncate", "table", *rest) | ("truncate", *rest):
            yield from (("truncate", table) for table in _tables(rest))
            yield from [("cascade", table) for table in _tables(rest)[-1:] if rest[-1] == "cascade"]
        case ("lock", "table", *rest) | ("lock", *rest):
            yield from (("lock-table", table) for table in _tables(rest))
        case ("update" | "delete" as verb, *rest) if "where" not in _top(rest):
            table, _ = _table(_without(tuple(rest), ("from",), ("or", *rest[1:2])))
            yield from [(f"{verb}-without-where", table)] if table else []
        case ("alter", "type" | "schema" | "domain" as kind, *rest):
            name, action = _table(tuple(rest))
            yield from [(rule, name) for rule in _rules_of_other(kind, action)]
        case _:
            yield from _of_maintenance(command)


def _of_drop(kind: str, rest: Command) -> Iterator[Hint]:
    names = _tables(_without(rest, ("concurrently",)))
    rule = {"database": "drop-schema", "schema": "drop-schema", "table": "drop-table"}.get(kind)
    if kind == "index" and rest[:1] != ("concurrently",):
        rule = "drop-index-without-concurrently"
    yield from ((rule, name) for name in names if rule)
    if rest[-1:] == ("cascade",):
        yield "cascade", names[0] if names else None


def _rules_of_other(kind: str, action: Command) -> Iterator[str]:
    """Yield the rule of an action on what is no table."""
    if kind == "type" and action[:2] == ("rename", "value"):
        yield "rename-enum-value"
    if kind == "schema" and action[:2] == ("rename", "to"):
        yield "rename-schema"
    is_constraint = action[:1] == ("add",) or action[:3] == ("set", "not", "null")
    if kind == "domain" and is_constraint and not _has(_top(action), "not", "valid"):
        yield "domain-constraint"


def _of_maintenance(command: Command) -> Iterator[Hint]:
    top = _top(command)  # without a list of options
    match command:
        case ("cluster", *_) if table := _table(_without(top[1:], ("verbose",)))[0]:
            yield "cluster", table
        case ("reindex", *_) if "concurrently" not in command:
            table = _table(top[2:])[0] if top[1:2] == ("table",) else None
            yield "reindex-without-concurrently", table
        case ("vacuum", *_) if "full" in command:
            yield "vacuum-full", None
        case ("refresh", "materialized", "view", *rest) if rest[:1] != ["concurrently"]:
            yield "refresh-without-concurrently", _table(tuple(rest))[0]


def _of_index(rest: Command) -> Iterator[Hint]:
    at = rest.index("on") + 1 if "on" in rest else len(rest)
    table, _ = _table(rest[at:])
    # On the partitioned table alone, no index is built.
    if table and "concurrently" not in rest and rest[at] != "only":
        yield "index-without-concurrently", table


def _of_alter_table(rest: Command) -> Iterator[Hint]:
    table, actions = _table(rest)
    for action in _split(actions if table else ()):
        yield from ((rule, table) for rule in _rules_of_action(action))


def _rules_of_action(action: Command) -> Iterator[str]:
    """Yield the rules that one action of ``ALTER TABLE`` matches."""
    rest = _without(action[1:], ("column",), *_IF_EXISTS)
    is_constraint = rest[:1] == ("constraint",) or bool(_CONSTRAINTS.intersection(rest[:1]))
    found: str | None = None
    match action[:1]:
        case ("add",) if is_constraint:
            found = _rule_of_constraint(rest[2:] if rest[0] == "constraint" else rest)
        case ("add",):
            yield from _rules_of_column(rest[1:])
        case ("alter",) if not is_constraint:
            found = _rule_of_change(rest[1:])
        case ("drop",) if not is_constraint:
            found = "drop-column"
        case ("rename",) if not is_constraint:
            found = "rename-table" if rest[:1] == ("to",) else "rename-column"
        case ("set",) if rest[:1] == ("schema",):
            found = "rename-table"
        case ("set",) if _REWRITES.intersection(rest[:1]):
            found = "rewrites-table"
        case ("detach",) if not {"concurrently", "finalize"} & set(action):
            found = "detach-partition-without-concurrently"
    yield from [found] if found else []
    if action[:1] == ("drop",) and action[-1] == "cascade":
        yield "cascade"


def _rule_of_constraint(constraint: Command) -> str | None:
    kind, top = constraint[:1], _top(constraint)
    if kind in _CHECKED:
        is_checked = not _has(top, "not", "valid") and not _has(top, "not", "enforced")
        return _CHECKED[kind] if is_checked else None
    if kind == ("exclude",):
        return "exclusion-constraint"
    is_index = kind in {("primary",), ("unique",)}
    # An index has been built; USING INDEX TABLESPACE after the columns is another clause.
    is_built = _without(constraint[1:], ("key",))[:2] == ("using", "index")
    return "constraint-without-using-index" if is_index and not is_built else None


def _rules_of_column(definition: Command) -> Iterator[str]:
    """Yield the rules for a new column: its type, default and constraints."""
    top = _top(definition)
    is_computed = _has(top, "as", "identity") or "stored" in top[1:]
    has_default = "default" in top and not is_computed
    default = definition[definition.index("default") :] if has_default else ()
    calls = {name for name, following in pairwise(default) if following == "("}
    if is_computed or (_SERIALS.intersection(top[:1]) and not has_default) or calls & _VOLATILE:
        yield "column-rewrites-table"
    elif not has_default and _has(top, "not", "null") and "as" not in top:
        yield "not-null-without-default"
    if top[:1] == ("json",):
        yield "json-column"
    if "unique" in top[1:] or _has(top, "primary", "key"):
        yield "constraint-without-using-index"
    if "check" in top[1:]:
        yield "check-without-not-valid"
    if "references" in top[1:] and has_default:  # without a default, PostgreSQL checks no row
        yield "foreign-key-without-not-valid"


def _rule_of_change(change: Command) -> str | None:
    if change[:1] == ("type",) or change[:3] == ("set", "data", "type"):
        return "column-type"
    if change[:2] == ("set", "expression"):
        return "rewrites-table"
    return "set-not-null" if change[:3] == ("set", "not", "null") else None


def _table(words: Command) -> tuple[str | None, Command]:
    """Return the name of the table that *words* begin with, and the words after it.

    The name is without quotes. It is None if *words* begin with something else.
    """
    rest = _without(words, *_IF_EXISTS, ("only",))
    parts: list[str] = []
    while rest and (rest[0][0].isalpha() or rest[0][0] in '_"'):
        parts.append(rest[0].removeprefix('"').removesuffix('"').replace('""', '"'))
        if rest[1:2] != (".",):
            is_escaped = rest[:2] == ("u", "&")  # U&"..."
            return None if is_escaped else ".".join(parts), rest[1:]
        rest = rest[2:]
    return None, ()


def _tables(words: Sequence[str]) -> list[str]:
    return [name for part in _split(words) if (name := _table(part)[0]) is not None]


def _without(words: Command, *optional: Command) -> Command:
    """Return *words* without the *optional* words at the beginning, which have this order."""
    for one in optional:
        words = words[len(one) :] if words[: len(one)] == one else words
    return words


def _split(words: Sequence[str]) -> list[Command]:
    """Return the parts of *words* between commas outside parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for one in words:
        depth += (one == "(") - (one == ")")
        if one == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(one)
    return [tuple(part) for part in parts]


def _top(words: Sequence[str]) -> Command:
    """Return *words* without parentheses and what is in them."""
    top: list[str] = []
    depth = 0
    for one in words:
        depth += (one == "(") - (one == ")")
        if depth == 0 and one != ")":
            top.append(one)
    return tuple(top)


def _has(words: Command, first: str, second: str) -> bool:
    """Return whether *first* is in *words*, with *second* after it."""
    return (first, second) in pairwise(words)
