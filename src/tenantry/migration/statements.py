"""What is sent to a database, step by step, and how little of it is sent at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.streams import Revision


class SchemaMoved(Exception):
    """Another run has moved the database since its version was read, or is about to."""


class TransactionEnded(Unavailable):
    """A revision ended the transaction it ran in, so part of it may have stayed."""


@dataclass(frozen=True, slots=True)
class Command:
    """One statement to send.

    Attributes:
        sql: The statement, or several in one message.
        rows: The parameters; one row of them, unless it is for many.
        many: It is sent once for each row.
        guard: What to raise when it changes, or finds, anything but one row.
        revision: Whose it is; None when it is our own.
        is_last: Nothing may follow it in its message.
    """

    sql: str
    rows: Sequence[Sequence[object]] = ((),)
    many: bool = False
    guard: type[Exception] | None = None
    revision: str | None = None
    is_last: bool = False

    @property
    def has_parameters(self) -> bool:
        """Whether the driver has to bind anything."""
        return self.many or len(self.rows[0]) > 0


@dataclass(frozen=True, slots=True)
class LockTimeouts:
    """How long a script waits for a lock, in milliseconds.

    Attributes:
        swap_ms: At the version row: what is left of the tenant's deadline.
        lock_ms: At every lock after it, with the tenant's traffic behind.
    """

    swap_ms: int
    lock_ms: int


@dataclass(frozen=True, slots=True)
class Outside:
    """A revision that ends the transaction it begins in, to do something outside of one.

    Attributes:
        revision: It leaves a transaction of ours open.
        run_id: The run that it belongs to.
        limits: For its locks.
    """

    revision: Revision
    run_id: UUID | None
    limits: LockTimeouts


Step = Command | Revision | Outside
"""What is sent; or a revision that runs live, at this place."""


def messages(steps: Iterable[Step]) -> Iterator[Step]:
    """Return *steps* with neighbours in one message, where that means the same.

    PostgreSQL takes several commands in a message, if they have no parameters. It tells the
    count of rows of the last one alone, so a guard ends its message. A message holds the
    commands of one revision at most, so that an error is that revision's.
    """
    gathered: list[Command] = []
    for step in steps:
        if gathered and not (isinstance(step, Command) and _may_follow(step, gathered)):
            yield _joined(gathered)
            gathered = []
        if isinstance(step, Command) and not step.has_parameters:
            gathered.append(step)
        else:
            yield step
    if gathered:
        yield _joined(gathered)


def _may_follow(command: Command, gathered: Sequence[Command]) -> bool:
    before = gathered[-1]
    if command.has_parameters or before.guard or before.is_last:
        return False
    owners = {one.revision for one in (*gathered, command)} - {None}
    return len(owners) <= 1


def _joined(commands: Sequence[Command]) -> Command:
    if len(commands) == 1:
        return commands[0]
    owner = next((one.revision for one in commands if one.revision), None)
    sql = sql_text.joined(*(one.sql for one in commands))
    return Command(sql, guard=commands[-1].guard, revision=owner)


def is_last(sql: str) -> bool:
    """Tell whether a statement must end its message.

    The server takes a message apart before it runs the first command of it, so that a
    setting for how literals are read comes too late for what stands beside it.
    """
    text = sql_text.read(sql)
    return not text.is_whole or any(words[:1] == ("SET",) for words in text.commands)
