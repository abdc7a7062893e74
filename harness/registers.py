"""Histories of registers: what clients saw of one post each, and whether an order explains it.

A register holds one text, or nothing before it was created and after it was deleted. A history is
linearizable if its operations can be put into one order in which each has its effect at a moment
between its start and its end. An operation with an unknown result may take effect at any moment
after its start, or never. The algorithm is that of Wing and Gong (1993) with the memory of Lowe
(2017): depth first over the operations that may be next, without a state that was seen before.

    python -m harness.registers FILE      # checks a file that `make cluster` has kept
"""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

STATES_MAX = 200_000
"""Of one register that is checked; more are reported as undecided, which is a fault."""
CREATE, UPDATE, DELETE, READ = "create", "update", "delete", "read"


class Result(StrEnum):
    """What a client knows about its request.

    `ABSENT` is a response that the post does not exist. A request that is certain to have had no
    effect and that says nothing about the post is `FAILED`.
    """

    OK = "ok"
    ABSENT = "absent"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Operation:
    """A request of a client, and what it knows.

    Attributes:
        kind: `CREATE`, `UPDATE`, `DELETE` or `READ`.
        value: The text that was written, or was read; None for a deletion.
        began: When it was sent, in seconds of one monotonic clock.
        ended: When the response was there.
        about: The process that was asked, and the status, for people.
    """

    kind: str
    value: str | None
    began: float
    ended: float
    result: Result
    about: str = ""

    @property
    def returns_at(self) -> float:
        """Until when it took effect; never if its result is unknown."""
        return math.inf if self.result is Result.UNKNOWN else self.ended

    def __str__(self) -> str:
        """Return it as it is printed."""
        text = f"{self.began:10.3f} to {self.ended:10.3f} {self.kind} {self.value or ''}".rstrip()
        return f"{text}: {self.result} {self.about}".rstrip()


class Undecided(Exception):
    """The history has more states than `STATES_MAX`."""


def is_linearizable(operations: Iterable[Operation], states_max: int = STATES_MAX) -> bool:
    """Return whether one order explains all results.

    Raises:
        Undecided: There are more than *states_max* states.
    """
    todo = sorted(_relevant(operations), key=lambda one: one.began)
    known = sum(1 << at for at, one in enumerate(todo) if one.result is not Result.UNKNOWN)
    seen: set[tuple[int, str | None]] = set()
    stack: list[tuple[int, str | None]] = [(0, None)]
    while stack:
        done, text = stack.pop()
        if done & known == known:
            return True
        if (done, text) in seen:
            continue
        seen.add((done, text))
        if len(seen) > states_max:
            raise Undecided(f"more than {states_max} states of {len(todo)} operations")
        for at in reversed(_next(todo, done)):  # the earliest is tried first
            allowed, after = _apply(todo[at], text)
            if allowed:
                stack.append((done | 1 << at, after))
    return False


def counterexample(operations: Iterable[Operation]) -> list[Operation]:
    """Return a part of a history that is not linearizable, and of which nothing can be left out.

    What the rest must be explained by is never left out: a creation, a write that was read, a
    deletion if the post was absent later.

    Raises:
        Undecided: There are too many states.
    """
    found = sorted(operations, key=lambda one: one.began)
    for one in sorted(found, key=lambda one: one.began, reverse=True):
        rest = [other for other in found if other is not one]
        if not _explains(one, rest) and not is_linearizable(rest):
            found = rest
    return found


def _relevant(operations: Iterable[Operation]) -> list[Operation]:
    """Leave out what has no effect and no result, and writes that may be taken to be lost.

    A write with an unknown result that was read has taken effect before the first such read ended.
    """
    kept = [one for one in operations if one.result is not Result.FAILED]
    kept = [one for one in kept if one.kind != READ or one.result is not Result.UNKNOWN]
    read_by: dict[str | None, float] = {}
    for one in kept:
        if one.kind == READ and one.result is Result.OK:
            read_by[one.value] = min(one.ended, read_by.get(one.value, math.inf))
    relevant = []
    for one in kept:
        if one.result is not Result.UNKNOWN or one.kind == DELETE:
            relevant.append(one)
        elif one.value in read_by:
            relevant.append(replace(one, result=Result.OK, ended=read_by[one.value]))
        elif one.kind == CREATE:
            relevant.append(one)
    return relevant


def _next(todo: Sequence[Operation], done: int) -> list[int]:
    """Return the operations that may be next: those that began before any other one returned."""
    found: list[int] = []
    first = math.inf
    for at, one in enumerate(todo):
        if done >> at & 1:
            continue
        if one.began > first:
            break
        found.append(at)
        first = min(first, one.returns_at)
    return found


def _apply(one: Operation, text: str | None) -> tuple[bool, str | None]:
    """Return whether an operation can have its result now, and the text after it."""
    if one.result is Result.ABSENT:
        return text is None, text
    if one.kind == READ:
        return text == one.value, text
    if one.kind == CREATE:
        return text is None, one.value
    after = one.value if one.kind == UPDATE and text is not None else None
    return text is not None or one.result is Result.UNKNOWN, after


def _explains(one: Operation, rest: Sequence[Operation]) -> bool:
    """Return whether the results of *rest* need an operation, whatever the order."""
    if one.kind == CREATE:
        return True
    if one.kind == UPDATE and one.result is not Result.ABSENT:
        return any(other.kind == READ and other.value == one.value for other in rest)
    if one.kind == DELETE and one.result is not Result.ABSENT:
        return any(other.result is Result.ABSENT for other in rest)
    return False


class History:
    """The operations of all registers: by tenant and post."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        self._changed: set[tuple[str, str]] = set()

    def add(self, tenant: str, post: str, operation: Operation) -> None:
        """Add an operation that has ended."""
        self._operations[tenant, post].append(operation)
        self._changed.add((tenant, post))

    @property
    def registers(self) -> Mapping[tuple[str, str], Sequence[Operation]]:
        """The operations of each register, as they have ended."""
        return self._operations

    @property
    def changed(self) -> Sequence[tuple[str, str]]:
        """The tenants and posts of the registers with operations since the last check."""
        return sorted(self._changed)

    def check(self) -> list[str]:
        """Check the registers with operations since the last check; return what does not hold."""
        changed, self._changed = self.changed, set()
        return [text for key in changed if (text := _fault(key, self._operations[key]))]

    def save(self, path: Path) -> None:
        """Write all operations to a file: one line of JSON for each."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            json.dumps({"tenant": tenant, "post": post} | asdict(one))
            for (tenant, post), many in self._operations.items()
            for one in many
        )
        path.write_text("".join(f"{line}\n" for line in lines))


def load(path: Path) -> History:
    """Return the history of a file."""
    history = History()
    for line in path.read_text().splitlines():
        values = json.loads(line)
        key = values.pop("tenant"), values.pop("post")
        history.add(*key, Operation(**values | {"result": Result(values["result"])}))
    return history


def _fault(key: tuple[str, str], operations: Sequence[Operation]) -> str | None:
    tenant, post = key
    try:
        if is_linearizable(operations):
            return None
        lines = [f"  {one}" for one in counterexample(operations)]
    except Undecided as error:
        return f"post {post} of tenant {tenant} is not decided: {error}"
    return "\n".join([f"post {post} of tenant {tenant} is not linearizable:", *lines])


def main(arguments: Sequence[str]) -> int:
    """Check a file; return the exit status."""
    history = load(Path(arguments[0]))
    faults = history.check()
    for one in faults:
        print(one)
    count = sum(map(len, history.registers.values()))
    print(f"{len(history.registers)} registers, {count} operations, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
