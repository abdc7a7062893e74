"""Find the statements of a revision that block requests, lose data or break the running release.

A finding is a hint: it never stops a run. A statement that cannot be parsed has no finding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice, pairwise
from types import MappingProxyType

from tenantry.migration import sql_text

FINDINGS_MAX = 50
"""The findings of one revision; later ones are left out."""

LINT_CHARS_MAX = 100_000
"""A longer statement is not parsed: a megabyte takes seconds, and is data."""

Command = tuple[str, ...]
Hint = tuple[str, str | None]
"""A rule, and the table that the command names."""

_MAYBE_FOUND = re.compile(
    r"alter|cluster|create|delete|drop|lock|reindex|truncate|update|vacuum", re.IGNORECASE
)
_IF_EXISTS = (("if", "not", "exists"), ("if", "exists"))
_KINDS_OF_TABLE = tuple(
    (one,) for one in ("global", "local", "temp", "temporary", "unlogged", "materialized")
)
_CONSTRAINTS = frozenset({"check", "foreign", "primary", "unique"})
_SERIALS = frozenset({"bigserial", "serial", "serial2", "serial4", "serial8", "smallserial"})
# The others are not known, or are evaluated once, such as now().
_VOLATILE = frozenset(
    {"clock_timestamp", "gen_random_uuid", "nextval", "random", "timeofday", "uuidv4", "uuidv7"}
    | {"uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4"}
)
_BATCH_PREFIX = "_alembic_tmp_"
_BATCH_CHARS_MAX = 50  # Alembic cuts the name of its temporary table
# The names of the rules never change: programs read them. {table} is what the statement names.
# Source: PostgreSQL manual: ALTER TABLE, CREATE INDEX, CLUSTER, LOCK, REINDEX, and 13.3.1.
MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "index-without-concurrently": (
            "Adds an index without CONCURRENTLY: writes to {table} wait until the migration "
            "commits. Use op.create_index(..., postgresql_concurrently=True) in an "
            "autocommit_block, in a separate revision."
        ),
        "column-type": (
            "Changes the type of a column: this may rewrite {table}, and requests that use it "
            "wait until the migration commits. Add a new column, and copy the values in batches."
        ),
        "column-rewrites-table": (
            "Adds a column with a value computed for each row: {table} is rewritten, and requests "
            "that use it wait. Add the column without it, and fill it in batches."
        ),
        "not-null-without-default": (
            "Adds a NOT NULL column without a default: this fails if {table} has rows. Add a "
            "server_default, or allow NULL."
        ),
        "set-not-null": (
            "Sets NOT NULL: requests that use {table} wait while each row is checked, and the "
            "migration fails if one has NULL. A valid CHECK (... IS NOT NULL) makes it quick."
        ),
        "foreign-key-without-not-valid": (
            "Adds a foreign key without NOT VALID: writes to {table} and to the referenced table "
            "wait while each row is checked. Use postgresql_not_valid=True, and VALIDATE "
            "CONSTRAINT in a later run."
        ),
        "check-without-not-valid": (
            "Adds a CHECK without NOT VALID: requests that use {table} wait while each row is "
            "checked. Use postgresql_not_valid=True, and VALIDATE CONSTRAINT in a later run."
        ),
        "constraint-without-using-index": (
            "Adds a constraint that builds an index: requests that use {table} wait. Create a "
            "unique index with CONCURRENTLY first, and add the constraint with USING INDEX."
        ),
        "drop-table": (
            "Drops {table}: its data is lost, and a release that still uses it fails. Drop it "
            "when no process uses it."
        ),
        "drop-column": (
            "Drops a column of {table}: its data is lost, and a release that still uses it fails. "
            "Drop it when no process uses it."
        ),
        "truncate": "Truncates {table}: all of its rows are lost.",
        "rename-table": (
            "Renames {table}: the running release fails until it uses the new name. Add a table "
            "or a view instead."
        ),
        "rename-column": (
            "Renames a column of {table}: the running release fails until it uses the new name. "
            "Add a new column instead."
        ),
        "update-without-where": (
            "Updates every row of {table} in one transaction: other writes to them wait until the "
            "migration commits. Update a large table in batches."
        ),
        "delete-without-where": (
            "Deletes every row of {table}: the data is lost, and other writes to them wait until "
            "the migration commits."
        ),
        "lock-table": (
            "Locks {table}: requests that need a conflicting lock wait until the migration commits."
        ),
        "cluster": (
            "Rewrites {table} in the order of an index: requests that use it wait until the "
            "migration commits."
        ),
        "reindex-without-concurrently": (
            "Builds indexes again without CONCURRENTLY: writes to the table, and most reads, wait. "
            "Use REINDEX ... CONCURRENTLY in an autocommit_block."
        ),
        "vacuum-full": (
            "VACUUM FULL rewrites a table while requests that use it wait, and fails in the "
            "transaction of a migration. Use an autocommit_block, at a quiet time."
        ),
        "rebuilds-table": (
            "Rebuilds {table}: every row is copied, and writes wait until the migration commits. "
            "The data of a column that the new table lacks is lost."
        ),
    }
)

ON_SQLITE = frozenset(
    {"drop-table", "drop-column", "rename-table", "rename-column", "not-null-without-default"}
    | {"update-without-where", "delete-without-where", "rebuilds-table"}
)
"""The rules that apply to SQLite; all of them apply to PostgreSQL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A hint about one statement of a revision.

    Attributes:
        rule: Its name, a key of `MESSAGES`.
        message: What happens, and what to do instead.
        statement_number: The place of the statement in the revision; the first is 1.
        table: The table that the statement names, if it names one.
    """

    rule: str
    message: str
    statement_number: int
    table: str | None


def findings_of(statements: Sequence[str], engine: str) -> list[Finding]:
    """Return the first `FINDINGS_MAX` findings about a revision.

    Args:
        statements: Its recorded statements; each may contain several commands.
        engine: ``sqlite`` or ``postgresql``.
    """
    return list(islice(_findings(statements, engine), FINDINGS_MAX))


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
                if table and column and _rule_of_action(action) == "drop-column":
                    yield table, column


def _findings(statements: Sequence[str], engine: str) -> Iterator[Finding]:
    commands = [one for sql in statements for one in _commands(sql, engine)]
    created: set[str] = set()
    for number, (command, following) in enumerate(pairwise([*commands, ()]), start=1):
        for rule, table in _hints(command):
            # A new table is empty, and no request uses it.
            if (table and _key(table) in created) or (engine == "sqlite" and rule not in ON_SQLITE):
                continue
            is_rebuilt = rule == "drop-table" and _is_rebuilt(table, following, created)
            name = "rebuilds-table" if is_rebuilt else rule
            message = MESSAGES[name].format(table=table or "the table")
            yield Finding(rule=name, message=message, statement_number=number, table=table)
        created |= _created(command, created)


def _commands(sql: str, engine: str) -> list[Command]:
    """Return the commands of one statement; for a text that is not parsed, one without tokens."""
    if len(sql) > LINT_CHARS_MAX or (";" not in sql and not _MAYBE_FOUND.search(sql)):
        return [()]  # many rows of data need no parsing
    found = sql_text.commands(sql)
    # SQLite accepts one command in a statement. More are the body of a trigger.
    return found if len(found) == 1 or (found and engine == "postgresql") else [()]


def _created(command: Command, created: AbstractSet[str]) -> AbstractSet[str]:
    """Return the key of the table that *command* creates, or of a created one that it renames."""
    match (*command[:1], *_without(command[1:], *_KINDS_OF_TABLE)):
        case ("create", "table" | "view", *rest) if rest[:2] != ["if", "not"]:
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
        case ("drop", "table", *rest):
            yield from (("drop-table", table) for table in _tables(rest))
        case ("truncate", "table", *rest) | ("truncate", *rest):
            yield from (("truncate", table) for table in _tables(rest))
        case ("lock", "table", *rest) | ("lock", *rest):
            yield from (("lock-table", table) for table in _tables(rest))
        case ("update" | "delete" as verb, *rest) if "where" not in _top(rest):
            table, _ = _table(_without(tuple(rest), ("from",), ("or", *rest[1:2])))
            yield from [(f"{verb}-without-where", table)] if table else []
        case _:
            yield from _of_maintenance(command)


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


def _of_index(rest: Command) -> Iterator[Hint]:
    at = rest.index("on") + 1 if "on" in rest else len(rest)
    table, _ = _table(rest[at:])
    # On the partitioned table alone, no index is built.
    if table and "concurrently" not in rest and rest[at] != "only":
        yield "index-without-concurrently", table


def _of_alter_table(rest: Command) -> Iterator[Hint]:
    table, actions = _table(rest)
    for action in _split(actions if table else ()):
        rule = _rule_of_action(action)
        if rule:
            yield rule, table


def _rule_of_action(action: Command) -> str | None:
    """Return the rule that one action of ``ALTER TABLE`` matches."""
    rest = _without(action[1:], ("column",), *_IF_EXISTS)
    is_constraint = rest[:1] == ("constraint",) or bool(_CONSTRAINTS.intersection(rest[:1]))
    match action[:1]:
        case ("add",) if is_constraint:
            return _rule_of_constraint(rest[2:] if rest[0] == "constraint" else rest)
        case ("add",):
            return _rule_of_column(rest[1:])
        case ("alter",) if not is_constraint:
            return _rule_of_change(rest[1:])
        case ("drop",) if not is_constraint:
            return "drop-column"
        case ("rename",) if not is_constraint:
            return "rename-table" if rest[:1] == ("to",) else "rename-column"
    return None


def _rule_of_constraint(constraint: Command) -> str | None:
    kind, top = constraint[:1], _top(constraint)
    if kind in {("check",), ("foreign",)}:
        is_checked = not _has(top, "not", "valid") and not _has(top, "not", "enforced")
        name = "check" if kind == ("check",) else "foreign-key"
        return f"{name}-without-not-valid" if is_checked else None
    is_index = kind in {("primary",), ("unique",)}
    # An index has been built; USING INDEX TABLESPACE after the columns is another clause.
    is_built = _without(constraint[1:], ("key",))[:2] == ("using", "index")
    return "constraint-without-using-index" if is_index and not is_built else None


def _rule_of_column(definition: Command) -> str | None:
    """Return the rule for a new column: its type, default and constraints."""
    top = _top(definition)
    is_computed = _has(top, "as", "identity") or "stored" in top[1:]
    if "default" in top and not is_computed:
        default = definition[definition.index("default") :]
        calls = {name for name, following in pairwise(default) if following == "("}
        return "column-rewrites-table" if calls & _VOLATILE else None
    if is_computed or _SERIALS.intersection(top[:1]):
        return "column-rewrites-table"
    is_required = _has(top, "not", "null") and "as" not in top
    return "not-null-without-default" if is_required else None


def _rule_of_change(change: Command) -> str | None:
    if change[:1] == ("type",) or change[:3] == ("set", "data", "type"):
        return "column-type"
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
