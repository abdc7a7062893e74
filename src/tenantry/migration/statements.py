"""The steps that are sent to a database, and their grouping into messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

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
        code: The revision.
        heads: The heads of its stream before it, which ``get_current_heads`` returns.
    """

    code: Revision
    heads: tuple[str, ...]

    @property
    def revision(self) -> str:
        """The name of the revision."""
        return self.code.name


@dataclass(frozen=True, slots=True)
class AutocommitRevision(LiveRevision):
    """A revision that commits the transaction that it begins in, and leaves another one open."""

    run_id: UUID
    timeouts: LockTimeouts
    user_table: str


Step = Statement | LiveRevision


def is_recorded(steps: Iterable[Step]) -> bool:
    """Return whether no step in *steps* runs live."""
    return all(isinstance(step, Statement) for step in steps)


def messages(steps: Iterable[Step]) -> list[Step]:
    """Return *steps* with adjacent statements joined into messages, with the same effect.

    PostgreSQL accepts several commands in a message, but returns only the row count of the last
    one. So a statement with a guard is the last one in its message. A message contains the
    commands of at most one revision, so that an error can be attributed to it.
    """
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        if isinstance(step, Statement) and isinstance(last, Statement) and _may_join(last, step):
            # The semicolon is on its own line, so that it is not part of a comment.
            sql, owner = f"{last.sql}\n;\n{step.sql}", last.revision or step.revision
            joined[-1] = Statement(sql, step.guard, owner, step.is_last)
        else:
            joined.append(step)
    return joined


def _may_join(last: Statement, step: Statement) -> bool:
    if last.guard or last.is_last:
        return False
    return None in (last.revision, step.revision) or last.revision == step.revision
