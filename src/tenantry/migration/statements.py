"""The steps that are sent to a database, and their grouping into messages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from tenantry.kit.errors import Conflict
from tenantry.migration.lock_timeouts import LockTimeouts
from tenantry.migration.revisions import Revision

# The semicolon is on its own line, so that it is not part of a comment.
JOINT = "\n;\n"

TypeName = tuple[str, str | None, str]
"""A named type of PostgreSQL: its kind, such as ``pg_enum``, its schema, and its name."""


class SchemaMoved(Conflict):
    """Another process has changed the revision of the database, or is doing so now."""


class LockAwaited(TimeoutError):
    """The deadline has passed after a migration has asked for its lock, which another may have."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement to send.

    Attributes:
        sql: The statement, with its values as literals; or several in one message.
        guard: The error to raise unless it changes, or finds, exactly one row.
        revision: The name of the revision that sends it; None for Tenantry's own statements.
        is_last: Whether it must be the last one in its message.
        named_type: The type that it creates for a table, unless the upgrade has created it before.
    """

    sql: str
    guard: type[Exception] | None = None
    revision: str | None = None
    is_last: bool = False
    named_type: TypeName | None = None


@dataclass(frozen=True, slots=True)
class CreatedTypes:
    """What an upgrade would have created before these steps: the types of a copied template."""

    names: frozenset[TypeName]
    revision: None = None


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
    """A revision that commits the transaction that it begins in, and leaves another one open.

    Attributes:
        own_table: The version table that its script writes first.
    """

    run_id: UUID
    timeouts: LockTimeouts
    user_table: str
    own_table: str


@dataclass(frozen=True, slots=True)
class RecordedRevision:
    """The statements of a revision, and how to run it live if the upgrade so far requires it."""

    statements: tuple[Statement, ...]
    live: LiveRevision

    @property
    def revision(self) -> str:
        """The name of the revision."""
        return self.live.revision


Step = Statement | LiveRevision | RecordedRevision | CreatedTypes


def is_recorded(steps: Iterable[Step]) -> bool:
    """Return whether no step in *steps* runs live."""
    return not any(isinstance(step, LiveRevision) for step in steps)


def messages(steps: Iterable[Statement | LiveRevision]) -> Iterator[Statement | LiveRevision]:
    """Yield *steps* with adjacent statements joined into messages, with the same effect.

    The step after a live revision is read when that revision has run.

    PostgreSQL accepts several commands in a message, but returns only the row count of the last
    one. So a statement with a guard is the last one in its message. A message contains the
    commands of at most one revision, so that an error can be attributed to it.
    """
    last: Statement | None = None
    for step in steps:
        if last is not None and isinstance(step, Statement) and _may_join(last, step):
            sql, owner = f"{last.sql}{JOINT}{step.sql}", last.revision or step.revision
            last = Statement(sql, step.guard, owner, step.is_last)
            continue
        if last is not None:
            yield last
        last = step if isinstance(step, Statement) else None
        if not isinstance(step, Statement):
            yield step
    if last is not None:
        yield last


def _may_join(last: Statement, step: Statement) -> bool:
    if last.guard or last.is_last:
        return False
    return None in (last.revision, step.revision) or last.revision == step.revision
