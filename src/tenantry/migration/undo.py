"""Undo what a run has applied to a database: the ``downgrade()`` of its revisions, newest first.

The log of the database says which these are. A database that has moved on is left as it is: after
the run, another run or a person has applied a revision, or taken one of the run's revisions back.
"""

import ast
from collections.abc import Collection, Sequence
from uuid import UUID

import sqlalchemy as sa

from tenantry.kit.errors import Conflict, Unavailable
from tenantry.migration import dialects
from tenantry.migration.recorder import Recording
from tenantry.migration.revisions import Revision, parse
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied, SchemaRevision, SchemaState, Undo
from tenantry.migration.scripts import Script
from tenantry.migration.sql_files import SqlRevision
from tenantry.migration.streams import Streams, UnknownRevision

USER = "user"
"""The stream that is undone; the revisions of Tenantry itself never are."""


ENGINES = dialects.SQLITE, dialects.postgresql((18,))
"""For revisions that are checked without a database."""


class NoDowngrade(Conflict):
    """A revision of the run cannot be undone: its `downgrade()` is missing, or does nothing."""


class RevisionLost(Conflict):
    """A revision that the run has applied is not among the revisions here: put its file back."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The run has applied {name}, which is not among the revisions here. Put its file "
            "back, or undo it where that file is."
        )


class MovedOn(Unavailable):
    """The database was migrated after the run, so the run is not undone there."""


class UndoScripts(RunScripts):
    """The scripts of a run that undoes another one, *run_id*."""

    undo: Undo

    def __init__(self, streams: Streams, run_id: UUID) -> None:
        super().__init__(streams)
        self.undo = Undo(run_id, USER)
        self._undone: dict[tuple[SchemaRevision, tuple[str, ...]], list[Revision]] = {}

    def is_done(self, state: SchemaState) -> bool:
        """Return whether nothing is left to undo."""
        return not state.undoable

    def left(self, state: SchemaState) -> list[Applied]:
        """Return the revisions that are undone in this state, in order.

        Raises:
            BadStream, UnknownRevision, MovedOn, NoDowngrade, RevisionLost: They cannot be undone.
        """
        with self._lock:
            return [Applied(one.stream, one.name) for one in self._of(state)]

    def script(self, dialect: sa.Dialect, state: SchemaState) -> Script:
        """Return the script of the run in this state: an empty one if nothing is left to undo.

        Raises:
            BadStream, UnknownRevision, MovedOn, NoDowngrade, RevisionLost: There is none.
        """
        with self._lock:
            if self.is_done(state):
                return self._get(dialect, state.revision, (), has_log=state.has_log)
            undone, every = self._of(state), {one.id: one for one in self._user_revisions()}
            for one in undone:
                self._check_effect(every[one.id], one, [dialect])
            return self._get(dialect, state.revision, tuple(undone))

    def recorded(
        self, dialect: sa.Dialect, wanted: Collection[Applied], most: int
    ) -> list[tuple[Revision, Recording, str | None]]:
        """Return at most *most* *wanted* revisions with their recordings, newest first."""
        with self._lock:
            known = {one.id: one for some in self._undone.values() for one in some}
            order = [one.id for one in self._user_revisions() if one.id in known]
            each = [known[one] for one in order[::-1]]
            found = [one for one in each if Applied(one.stream, one.name) in wanted][:most]
            return [(one, *self._examine(one, dialect)) for one in found]

    def check(self, names: Collection[str]) -> bool:
        """Check that the user's revisions with these displayed names can be undone.

        Return whether one of them is the user's; those of Tenantry itself are ignored.

        Raises:
            BadStream, NoDowngrade, RevisionLost: They cannot.
        """
        with self._lock:
            streams = self.streams
            user = {streams.display(Applied(USER, one.name)): one for one in self._user_revisions()}
            own = streams.own.name
            others = {streams.display(Applied(own, one.name)) for one in streams.own.revisions}
            for name in names:
                if name in user:
                    check_has_downgrade(user[name])
                    undone = user[name].undone(self.undo.logged_as, tuple(sorted(user[name].down)))
                    self._check_effect(user[name], undone, ENGINES)
                elif name not in others:
                    raise RevisionLost(name)
            return not user.keys().isdisjoint(names)

    def _check_effect(
        self, revision: Revision, undone: Revision, dialects: Sequence[sa.Dialect]
    ) -> None:
        """Check that a ``downgrade()`` sends a statement where the ``upgrade()`` does.

        What is not recorded, and runs live, is taken to send some.

        Raises:
            NoDowngrade: It sends none on all of *dialects*; the message has the file and the line.
        """
        changed = [one for one in dialects if self._record(revision, one)]
        if changed and all(self._record(undone, one) == () for one in changed):
            raise _no_downgrade(revision, "runs no statement")

    def _user_revisions(self) -> list[Revision]:
        return list(self.streams.user.revisions) if self.streams.user else []

    def _of(self, state: SchemaState) -> list[Revision]:
        """Return the revisions that are undone in *state*, newest first, as made once."""
        if not state.is_newest:
            raise MovedOn
        key = state.revision, state.undoable
        if key not in self._undone:
            self._undone[key] = self._find(state)
        return self._undone[key]

    def _find(self, state: SchemaState) -> list[Revision]:
        every = {one.id: one for one in self._user_revisions()}
        by_name = {one.name: one for one in every.values()}
        heads = set(state.revision.heads)
        if unknown := heads - every.keys():
            raise UnknownRevision(min(unknown), USER)
        applied = _with_ancestors(heads, every)
        undone = list[Revision]()
        for name in reversed(state.undoable):
            if name not in by_name:
                raise RevisionLost(name)
            revision = by_name[name]
            check_has_downgrade(revision)
            applied.discard(revision.id)
            if revision.id not in heads:
                raise MovedOn
            followed = {down for one in applied for down in every[one].down}
            revealed = tuple(sorted(revision.down - followed))
            heads = (heads - {revision.id}) | set(revealed)
            undone.append(revision.undone(self.undo.logged_as, revealed))
        return undone


def check_has_downgrade(revision: Revision) -> None:
    """Check that a revision has a ``downgrade()`` that does something, or SQL that undoes it.

    Raises:
        NoDowngrade: It is missing, or consists of ``pass``, ``...``, text, ``return`` or
            ``raise NotImplementedError``, or the SQL has no statement; the message has the file
            and the line.
    """
    if isinstance(revision, SqlRevision):
        if revision.back.statements:
            return
        raise NoDowngrade(
            f"{revision.path.name}: what undoes it (`{revision.name}.down.sql`, or "
            "`-- migrate:down`) is missing or has no statement. Write it, or migrate forward with "
            "a new revision."
        )
    found = _functions_of(revision).get("downgrade")
    if found is not None and not all(map(_is_nothing, found.body)):
        return
    raise _no_downgrade(revision, "is empty" if found else "is missing")


def _no_downgrade(revision: Revision, why: str) -> NoDowngrade:
    functions = _functions_of(revision)
    found = functions.get("downgrade", functions.get("upgrade"))
    line = found.lineno if found else 1
    return NoDowngrade(
        f"{revision.path.name}, line {line}: `downgrade()` {why}, so the run cannot be undone. "
        "Write it, or migrate forward with a new revision."
    )


def _functions_of(revision: Revision) -> dict[str, ast.FunctionDef]:
    body = parse(revision.content).body
    return {one.name: one for one in body if isinstance(one, ast.FunctionDef)}


def _is_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Return(value=None | ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name == "NotImplementedError"
    return False


def _with_ancestors(heads: Collection[str], every: dict[str, Revision]) -> set[str]:
    todo, found = list(heads), set[str]()
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += every[one].down
    return found
