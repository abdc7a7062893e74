"""Streams of Alembic revisions, and how one revision is executed.

Alembic's usual ``from alembic import op`` is a process global: two upgrades that overlap
write into each other's database. Here each execution loads the revision's file as a
module of its own and gives that instance its own ``op``, so nothing is shared. The
global is never installed: a helper module that imports it gets an error, not another's
database.
"""

import importlib.util
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from itertools import takewhile
from pathlib import Path
from types import CodeType, ModuleType

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from tenantry.kit.errors import Unavailable
from tenantry.migration import folders
from tenantry.migration.project import BadProject, find_project
from tenantry.migration.schema_state import Applied, SchemaRevision

BASE = ""
"""What stands for the version of a database that has no revision yet."""


class BadStream(Unavailable):
    """The directory of revisions cannot be read."""


class OutsideTransaction(Unavailable):
    """The revision wants to run outside a transaction (autocommit_block)."""


class RevisionExited(Unavailable):
    """The revision ended the program (sys.exit)."""


class RevisionFailed(Exception):
    """A revision raised something, which is the cause.

    Args:
        name: Of the revision.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class NoRevisions(BadStream):
    """The folder is no Alembic directory, or has no revision; the message says which to name."""


class UnknownRevision(Unavailable):
    """The database is at a revision that this code does not know."""


@dataclass(frozen=True)
class Revision:
    """One step of a stream, as a file that is read once."""

    stream: str
    id: str
    path: Path

    @cached_property
    def name(self) -> str:
        """The name by which people know it: that of its file."""
        return self.path.stem

    def load(self) -> ModuleType:
        """Return a new, private instance of the revision's module."""
        module = importlib.util.module_from_spec(self._spec)
        exec(self._code, vars(module))  # noqa: S102 - as its loader does, for many instances
        return module

    @cached_property
    def _spec(self) -> ModuleSpec:
        spec = importlib.util.spec_from_file_location(f"revision_{self.id}", self.path)
        assert spec is not None
        return spec

    @cached_property
    def _code(self) -> CodeType:
        loader = self._spec.loader
        assert isinstance(loader, InspectLoader)
        code = loader.get_code(self._spec.name)
        assert code is not None
        return code


class Stream:
    """One history of a schema, as its folder was when it was first looked at.

    Args:
        name: Distinguishes the streams of one database.
        folder: Holds ``versions/``.

    Every member raises `BadStream` when the folder cannot be read.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._known: dict[str, Revision] = {}

    @cached_property
    def head(self) -> str:
        """The newest revision."""
        heads = self._script.get_heads()
        if len(heads) > 1:
            raise BadStream(f"There are {len(heads)} heads ({', '.join(heads)}): merge them.")
        return heads[0] if heads else BASE

    @cached_property
    def revisions(self) -> Sequence[Revision]:
        """Every revision, in order of application."""
        return self._between(self.head, "base") if self.head else []

    @cached_property
    def fingerprint(self) -> str:
        """What changes whenever a revision is added or edited, in hex."""
        content = sha256()
        for revision in self.revisions:
            content.update(revision.name.encode() + b"\0" + revision.path.read_bytes() + b"\0")
        return content.hexdigest()

    def check_not_empty(self) -> None:
        """Check that there is a revision: without one every database is at the head.

        Raises:
            NoRevisions: There is none.
        """
        if not self.revisions:
            folder = self._folder / folders.VERSIONS
            raise NoRevisions(f"The {self.name} revisions cannot be read: none is in {folder}.")

    def after(self, version: str) -> Sequence[Revision]:
        """Return what leads from *version* to the head, in order of application.

        Raises:
            UnknownRevision: *version* is none of this stream's.
        """
        if version == BASE:
            return self.revisions
        if version not in {revision.id for revision in self.revisions}:
            raise UnknownRevision(
                f"The database is at revision {version!r}, which is not among the {self.name} ones."
            )
        return self._between(self.head, version)

    def while_each(self, is_kept: Callable[[Revision], bool]) -> "Stream":
        """Return the stream as if it ended before the first revision that is not kept.

        It ends earlier when a version would not tell its end: between two branches.
        """
        shorter = Stream(self.name, self._folder)
        kept = list(takewhile(is_kept, self.revisions))
        while kept and self.after(kept[-1].id) != self.revisions[len(kept) :]:
            kept.pop()
        vars(shorter).update(revisions=kept, head=kept[-1].id if kept else BASE)
        return shorter

    @staticmethod
    def combine(fingerprints: Sequence[str]) -> str:
        """Return one fingerprint for several."""
        return sha256("".join(fingerprints).encode()).hexdigest()

    @cached_property
    def _script(self) -> ScriptDirectory:
        if not self._folder.is_dir():
            raise BadStream(f"The {self.name} revisions cannot be read: their folder is not there.")
        if mistake := folders.find_mistake(self._folder):
            raise NoRevisions(f"The {self.name} revisions cannot be read: {mistake}")
        try:
            project = find_project(self._folder)
        except BadProject as error:
            raise BadStream(f"The {self.name} revisions: {error.message}") from error
        project.add_import_paths()
        try:
            script = ScriptDirectory(
                str(self._folder),
                version_locations=[str(one) for one in project.version_locations],
                recursive_version_locations=project.is_recursive,
            )
            script.revision_map.heads  # noqa: B018 - reads every file, so that errors come here
        except (Exception, SystemExit) as error:  # a revision file can raise anything
            raise BadStream(
                f"The {self.name} revisions cannot be read: {type(error).__name__}."
            ) from error
        return script

    def _between(self, upper: str, lower: str) -> Sequence[Revision]:
        try:
            steps = list(self._script.iterate_revisions(upper, lower, implicit_base=True))
        except CommandError as error:
            raise BadStream(f"The {self.name} revisions are not one line: {error}") from error
        return [self._revision(step.revision, Path(step.path)) for step in reversed(steps)]

    def _revision(self, revision_id: str, path: Path) -> Revision:
        if revision_id not in self._known:
            self._known[revision_id] = Revision(self.name, revision_id, path)
        return self._known[revision_id]


@dataclass(frozen=True)
class Streams:
    """The history of one kind of database: our own stream, and perhaps the user's.

    Attributes:
        own: Our own.
        user: The user's Alembic directory.
        user_table: Its version table.
    """

    own: Stream
    user: Stream | None = None
    user_table: str = "alembic_version"

    @property
    def head(self) -> SchemaRevision:
        """Where every database should stand."""
        return SchemaRevision(self.own.head, self.user.head if self.user else None)

    def have(self, head: str) -> bool:
        """Tell whether *head*, as a `SchemaRevision` is written, is a place in these streams."""
        own, _, user = head.partition("/")
        known = {revision.id for revision in self.user.revisions} if self.user else set()
        return own in {revision.id for revision in self.own.revisions} and user in {BASE, *known}

    def display(self, applied: Applied) -> str:
        """Return the name of a revision, with its stream where both streams have the name."""
        if applied.revision in self._shared_names:
            return f"{applied.stream}:{applied.revision}"
        return applied.revision

    @cached_property
    def _shared_names(self) -> frozenset[str]:
        """The names that a revision of either stream has."""
        if self.user is None:
            return frozenset()
        own, user = ({one.name for one in stream.revisions} for stream in (self.own, self.user))
        return frozenset(own & user)

    def pending(self, start: SchemaRevision) -> list[Revision]:
        """Return what leads from *start* to the head: our own first, then the user's.

        Raises:
            UnknownRevision, BadStream: It cannot be told.
        """
        pending = list(self.own.after(start.own))
        if self.user is not None:
            pending += self.user.after(start.user or BASE)
        return pending

    def after(self, start: SchemaRevision, applied: Sequence[Revision]) -> SchemaRevision:
        """Return where a database stands that has *applied* what is pending first.

        Raises:
            BadStream: Between two branches, which no version can tell.
        """
        rest = self.pending(start)[len(applied) :]
        if not rest:
            return self.head
        ids = {revision.stream: revision.id for revision in applied}
        user = None if self.user is None else ids.get(self.user.name, start.user)
        position = SchemaRevision(ids.get(self.own.name, start.own), user)
        if self.pending(position) != rest:
            raise BadStream(
                f"{applied[-1].name} or {rest[0].name} runs outside a transaction between two "
                "branches of the revisions, where no version tells how far a database is."
            )
        return position


Block = Callable[[], AbstractContextManager[None]]
"""What ``autocommit_block`` does."""


class _Context(MigrationContext):
    """Runs inside a transaction that is not its own."""

    block: Block

    @contextmanager
    def autocommit_block(self) -> Iterator[None]:
        """Leave the transaction for as long as the block lasts, if there is a way."""
        with self.block():
            yield


@contextmanager
def _no_way_out() -> Iterator[None]:
    raise OutsideTransaction
    yield


def is_online(module: ModuleType) -> bool:
    """Tell whether a revision says that it looks at more than it is given."""
    return bool(getattr(module, "online", False))


def upgrade_live(revision: Revision, connection: sa.Connection, block: Block = _no_way_out) -> None:
    """Run a revision on the database itself, with an ``op`` of its own.

    Raises:
        RevisionFailed: It raised something.
    """
    try:
        upgrade(revision.load(), connection, block)
    except SystemExit:
        raise RevisionFailed(revision.name) from RevisionExited()
    except BaseException as error:
        # Nobody cancels or interrupts a thread: whatever it is, the revision has raised it.
        raise RevisionFailed(revision.name) from error


def upgrade(module: ModuleType, connection: sa.Connection, block: Block) -> None:
    """Run ``upgrade`` of a revision's module, with an ``op`` of its own."""
    context = _Context(connection.dialect, connection, {"transactional_ddl": True})
    context.block = block
    op = Operations(context)
    if inspect.signature(module.upgrade).parameters:
        module.upgrade(op)
    else:
        vars(module)["op"] = op
        module.upgrade()
