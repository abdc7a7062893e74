"""What is sent to a database, step by step, and which steps share a message."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload
from uuid import UUID

from tenantry.migration import sql_text
from tenantry.migration.revisions import Revision


class SchemaMoved(Exception):
    """Another run has moved the database since its version was read, or is about to."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement to send.

    Attributes:
        sql: The statement, with its values as literals; or several in one message.
        guard: What to raise when it changes, or finds, anything but one row.
        revision: The name of the revision that it is from; None when it is our own.
        is_last: Nothing may follow it in its message.
    """

    sql: str
    guard: type[Exception] | None = None
    revision: str | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class LockTimeouts:
    """How long a script waits for a lock, in milliseconds.

    Attributes:
        swap_ms: At the version row, for another run: what is left of the tenant's deadline.
        lock_ms: At every other lock, with the tenant's traffic behind.
    """

    swap_ms: int
    lock_ms: int


@dataclass(frozen=True, slots=True)
class LiveRevision:
    """A revision that runs on the database itself, in the script's transaction.

    Attributes:
        heads: Of its stream before it, as ``get_current_heads`` returns them.
    """

    revision: Revision
    heads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AutocommitRevision:
    """A revision that commits the transaction it begins in (``autocommit_block``).

    Attributes:
        revision: It leaves another transaction open.
        heads: Of its stream before it.
        run_id: The run that it belongs to.
        timeouts: For its locks.
    """

    revision: Revision
    heads: tuple[str, ...]
    run_id: UUID
    timeouts: LockTimeouts


Step = Statement | LiveRevision | AutocommitRevision


def is_recorded(steps: Iterable[Step]) -> bool:
    """Return whether nothing in *steps* runs live."""
    return all(isinstance(step, Statement) for step in steps)


@overload
def messages(steps: Iterable[Statement]) -> Iterator[Statement]: ...
@overload
def messages(steps: Iterable[Step]) -> Iterator[Step]: ...
def messages(steps: Iterable[Step]) -> Iterator[Step]:
    """Return *steps* with neighbouring statements in one message, where that means the same.

    PostgreSQL takes several commands in a message. It returns the row count of the last one
    alone, so a guard ends its message. A message holds the commands of one revision at most,
    so that an error is that revision's.
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
