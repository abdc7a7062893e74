"""The scripts of one run."""

import copy
import threading
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

import sqlalchemy as sa

from tenantry.migration.project_files import Signature, TooManyFiles
from tenantry.migration.recorder import (
    Recording,
    Unrecorded,
    examine,
    may_name_type,
    named_type_of,
)
from tenantry.migration.revisions import Revision
from tenantry.migration.schema_state import (
    Applied,
    SchemaRevision,
    SchemaState,
    Undo,
    closed_head,
)
from tenantry.migration.scripts import Script
from tenantry.migration.statements import TypeName
from tenantry.migration.streams import BadStream, Streams


class RunScripts:
    """The scripts of one run: each is created once for all tenants that need it.

    Reading and recording take time: call the methods in a thread.

    Args:
        streams: The streams when the run begins.
        is_of_template: Whether the databases are copies of the template, so that their upgrade has
            begun at the base.

    Attributes:
        undo: What the run undoes; None if it upgrades.
        expected: The engine and the revision of the database that was read last, and whether it
            had the log. The next one is assumed to be the same; the compare-and-swap verifies it.
    """

    def __init__(self, streams: Streams, *, is_of_template: bool = False) -> None:
        self.streams = streams
        self._is_of_template = is_of_template
        self.undo: Undo | None = None
        self.expected: tuple[sa.Dialect, SchemaRevision, bool] | None = None
        self._lock = threading.Lock()  # one thread reads and records, the others wait
        self._scripts: dict[
            tuple[sa.Dialect, SchemaRevision, tuple[Revision, ...] | None, bool, frozenset[str]],
            Script,
        ] = {}
        self._examined: dict[tuple[sa.Dialect, Revision], tuple[Recording, str | None]] = {}
        self._signature: Signature | None = None
        self._of_attached: RunScripts | None = None

    def of(self, *, is_attached: bool) -> "RunScripts":
        """Return the scripts of the run for attached databases, or for the others.

        Both have what was read and recorded, and the lock, in common.

        Raises:
            NothingToFollow: There is no stream that attached databases follow.
        """
        streams = self.streams.of(is_attached=is_attached)
        if streams is self.streams:
            return self
        if self._of_attached is None:
            self._of_attached = copy.copy(self)
            vars(self._of_attached).update(streams=streams, expected=None, _scripts={})
        return self._of_attached

    def head(self) -> SchemaRevision:
        """Return the revision at which every database should be.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        with self._lock:
            return self.streams.head

    def have(self, head: str) -> bool:
        """Return whether the streams contain *head*, a `SchemaRevision` as text."""
        with self._lock:
            try:
                return self.streams.have(head)
            except BadStream:
                return False

    def end_at(self, head: str) -> bool:
        """Return whether *head*, a `SchemaRevision` as text, is the revision that they lead to."""
        with self._lock:
            try:
                return str(self.streams.head) == head
            except BadStream:
                return False

    def hashes(self, *, only_revisions: bool = False) -> dict[str, str]:
        """Return a hash of each file of the streams; see `Streams.hashes`.

        Raises:
            BadStream, TooManyFiles: They cannot be read.
        """
        with self._lock:
            return self.streams.hashes(only_revisions=only_revisions)

    def has(self, planned: Mapping[str, str]) -> bool:
        """Return whether the files have these hashes; they are read again if one was replaced."""
        with self._lock:
            try:
                signature = self.streams.signature
                if signature == self._signature:
                    return True
                found = self.streams.hashes()
            except (BadStream, TooManyFiles):
                return False
            self._signature = signature if found == planned else None
            return found == planned

    def is_done(self, state: SchemaState) -> bool:
        """Return whether the run has nothing to do, or nothing more, in this state.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        return state.revision == self.head()

    def is_closed(self, state: SchemaState) -> bool:
        """Return whether the run is closed in a database, for a process with these revisions.

        One with later revisions continues a run that was closed at an earlier head.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        head = closed_head(self.head())
        return any(at in ("", head) or not self.have(at) for at in state.closed_at)

    def has_last(self, applied: Sequence[Applied]) -> bool:
        """Return whether *applied* has the last revision, if there is any.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        with self._lock:
            last = self.streams.revisions[-1:]
        return all(Applied(one.stream, one.name) in applied for one in last)

    def left(self, state: SchemaState) -> list[Applied]:
        """Return the revisions that the run executes in this state, in order.

        Raises:
            BadStream, UnknownRevision: They cannot be determined.
        """
        return self.pending(state.revision)

    def script(self, dialect: sa.Dialect, state: SchemaState) -> Script:
        """Return the script of the run in this state.

        Raises:
            BadStream, UnknownRevision: There is no script in this state, or none after it.
        """
        with self._lock:
            return self._get(
                dialect, state.revision, has_log=state.has_log, reopened=state.closed_at
            )

    def pending(self, start: SchemaRevision) -> list[Applied]:
        """Return the revisions from *start* to the head, in order.

        Raises:
            BadStream, UnknownRevision: They cannot be determined.
        """
        with self._lock:
            return [Applied(one.stream, one.name) for one in self.streams.pending(start)]

    def get(self, dialect: sa.Dialect, start: SchemaRevision, *, has_log: bool = True) -> Script:
        """Return the script from *start*, for a database that has a log, or has none.

        Raises:
            BadStream, UnknownRevision: There is no script from *start*, or none after it.
        """
        with self._lock:
            return self._get(dialect, start, has_log=has_log)

    def _get(
        self,
        dialect: sa.Dialect,
        start: SchemaRevision,
        rest: tuple[Revision, ...] | None = None,
        *,
        has_log: bool = True,
        reopened: frozenset[str] = frozenset(),
    ) -> Script:
        """Return the script of *rest*; without it, of the revisions from *start* to the head."""
        key = (dialect, start, rest, has_log, reopened)
        if key not in self._scripts:
            types = self._types_before(dialect, start) if self._is_of_template else frozenset()
            pending = self.streams.pending(start) if rest is None else rest
            script = Script(
                dialect,
                self.streams,
                start,
                pending,
                self._record,
                types=types,
                undo=self.undo,
                has_log=has_log,
                reopened=reopened,
            )
            if script.rest:  # now: or this one would be applied, and the next fail
                script.following = self._get(dialect, script.stop, script.rest, reopened=reopened)
            self._scripts[key] = script
        return self._scripts[key]

    def recorded(
        self, dialect: sa.Dialect, wanted: Collection[Applied], most: int
    ) -> list[tuple[Revision, Recording, str | None]]:
        """Return at most *most* revisions that are *wanted*, with their recordings, in order.

        Each has the reason for which it runs live, if it does.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        with self._lock:
            every = self.streams.revisions
            found = islice((one for one in every if Applied(one.stream, one.name) in wanted), most)
            return [(one, *self._examine(one, dialect)) for one in found]

    def _types_before(self, dialect: sa.Dialect, start: SchemaRevision) -> frozenset[TypeName]:
        """Return the types that the revisions before *start* have created for their tables."""
        if dialect.name != "postgresql":
            return frozenset()
        pending = set(self.streams.pending(start))
        before = [one for one in self.streams.revisions if one not in pending]
        recordings = [self._record(one, dialect) for one in before if may_name_type(one)]
        statements = [sql for one in recordings if not isinstance(one, Unrecorded) for sql in one]
        return frozenset(filter(None, map(named_type_of, statements)))

    def _record(self, revision: Revision, dialect: sa.Dialect) -> Recording:
        return self._examine(revision, dialect)[0]

    def _examine(self, revision: Revision, dialect: sa.Dialect) -> tuple[Recording, str | None]:
        """Return the recording of a revision, made once, and the reason if it runs live."""
        key = (dialect, revision)
        if key not in self._examined:
            self._examined[key] = examine(revision, dialect, self.streams.user_table)
        return self._examined[key]
