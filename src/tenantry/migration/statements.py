"""The steps that are sent to a database, and their grouping into messages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload
from uuid import UUID

from tenantry.migration import sql_text
from tenantry.migration.revisions import Revision


class SchemaMoved(Exception):
    """Another run has migrated the database since its version was read, or is doing so now."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement to send.

    Attributes:
        sql: The statement, with its values as literals; or several in one message.
        guard: The error to raise unless it changes, or finds, exactly one row.
        revision: The name of the revision that sends it; None for Tenantry's own statements.
        is_last: Whether it must be the last one in its message.
    """

    sql: str
    guard: type[Exception] | None = None
    revision: str | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class LockTimeouts:
    """How long a script waits for a lock, in milliseconds.

    Attributes:
        swap_ms: For the version row, which another run may hold: the rest of the deadline.
        lock_ms: For every other lock; the tenant's requests queue behind it.
    """

    swap_ms: int
    lock_ms: int


@dataclass(frozen=True, slots=True)
class LiveRevision:
    """A revision that runs on the database itself, in the script's transaction.

    Attributes:
        heads: The heads of its stream before it, which ``get_current_heads`` returns.
    """

    revision: Revision
    heads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AutocommitRevision:
    """A revision that commits the transaction that it begins in (``autocommit_block``).

    Attributes:
        revision: The revision; it leaves another transaction open.
        heads: The heads of its stream before it.
        run_id: The run that it belongs to.
        timeouts: The lock timeouts.
    """

    revision: Revision
    heads: tuple[str, ...]
    run_id: UUID
    timeouts: LockTimeouts


Step = Statement | LiveRevision | AutocommitRevision


def is_recorded(steps: Iterable[Step]) -> bool:
    """Return whether no step in *steps* runs live."""
    return all(isinstance(step, Statement) for step in steps)


@overload
def messages(steps: Iterable[Statement]) -> Iterator[Statement]: ...
@overload
def messages(steps: Iterable[Step]) -> Iterator[Step]: ...
def messages(steps: Iterable[Step]) -> Iterator[Step]:
    """Return *steps* with adjacent statements joined into messages, with the same effect.

    PostgreSQL accepts several commands in a message, but returns only the row count of the last
    one. So a statement with a guard is the last one in its message. A message contains the
    commands of at most one revision, so that an error can be attributed to it.
    """
    gathered: list[Statement] = []
    for step in steps:
        if gathered and not (isinstance(step, Statement) and _may_follow(step, gathered)):
            yield _joined(gathered)
            gathered = []
        if isinstance(step, Statement):
            gathered.append(step)
        else:
            yield step
    if gathered:
        yield _joined(gathered)


def _may_follow(statement: Statement, gathered: Sequence[Statement]) -> bool:
    before = gathered[-1]
    if before.guard or before.is_last:
        return False
    owners = {one.revision for one in (*gathered, statement)} - {None}
    return len(owners) <= 1


def _joined(statements: Sequence[Statement]) -> Statement:
    if len(statements) == 1:
        return statements[0]
    owner = next((one.revision for one in statements if one.revision), None)
    sql = sql_text.joined(*(one.sql for one in statements))
    return Statement(sql, guard=statements[-1].guard, revision=owner)
