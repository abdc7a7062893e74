"""Streams of revisions, of Alembic or in plain SQL: which exist, and which are pending."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.script import Script, ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util import CommandError

from tenantry.kit.errors import Conflict, Unavailable
from tenantry.migration import alembic_modules, sql_files
from tenantry.migration.loading import LOAD_SECONDS_MAX, LoadingEndless, drop_caches, load
from tenantry.migration.project import BadProject, find_mistake, find_project
from tenantry.migration.project_files import Signature, find_files, hash_of, signature_of
from tenantry.migration.revisions import Revision, describe
from tenantry.migration.schema_state import AND, BASE, Applied, SchemaRevision, SeveralVersions
from tenantry.migration.sql_files import SqlRevision

# They determine the SQL of a revision, and are not among the files of a project.
_PACKAGES = ("tenantry", "alembic", "sqlalchemy")


class BadStream(Unavailable):
    """The directory of revisions cannot be read."""


class NoRevisions(BadStream):
    """The folder is not an Alembic directory, or has no revisions; the message has the remedy."""


class RevisionUnreadable(BadStream):
    """A file of the revisions cannot be read, or cannot be imported."""


class NothingToFollow(Conflict):
    """Set TENANTRY_TENANT_MIGRATIONS for attached databases, or use `tenantry fleet migrate`."""


class UnknownRevision(Unavailable):
    """The database is at a revision that this code does not know.

    Attributes:
        cause: What the messages of all databases have in common.
    """

    def __init__(self, version: str, stream: str, found: "Revision | None" = None) -> None:
        said = "The database is at revision", f"which is not among the {stream} ones."
        if found is not None:
            said = (
                said[0],
                (
                    f"and a file was added or removed before {found.name}: give a new file a later "
                    "number, and put a removed one back."
                ),
            )
        super().__init__(f"{said[0]} {version!r}, {said[1]}")
        self.cause = f"{said[0]} …, {said[1]}"


class _Directory(ScriptDirectory):
    """A folder of revisions; of two with the same id, Alembic would read one."""

    def _load_revisions(self) -> Iterator[Script]:
        names: dict[str, str] = {}
        for script in super()._load_revisions():
            name = os.path.relpath(script.path, self.dir)
            other = names.setdefault(script.revision, name)
            if other != name:
                raise RevisionUnreadable(
                    f"{other} and {name} are both the revision {script.revision!r}: change one"
                )
            yield script


class Stream:
    """One history of a schema: a snapshot of its folder at the first access.

    Args:
        name: Distinguishes the streams of one database.
        folder: Contains ``versions/``, or files of plain SQL (`sql_files`).
        naming: The naming convention of the ``target_metadata`` in ``env.py``.
        load_seconds: How long all files may take to be imported.

    Every member raises `BadStream` if the folder cannot be read.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        naming: Mapping[Any, str] | None = None,
        *,
        load_seconds: float = LOAD_SECONDS_MAX,
    ) -> None:
        self.name = name
        self._folder = folder
        self._load_seconds = load_seconds
        self._naming = repr(sorted(naming.items())).encode() if naming else b""
        self._metadata = sa.MetaData(naming_convention=naming) if naming else None
        self._known: dict[str, Revision] = {}

    @cached_property
    def head(self) -> str:
        """The newest revision.

        Raises:
            NoRevisions: There are none. Without this error, every database would be at the head.
        """
        heads = self._script.get_heads()
        if not heads:
            raise NoRevisions(
                f"The {self.name} revisions cannot be read: their folder holds none. "
                "Put the first one into its `versions/`, or choose another folder: "
                "TENANTRY_TENANT_MIGRATIONS, or --migrations of a fleet."
            )
        if len(heads) > 1:
            raise BadStream(f"There are {len(heads)} heads ({', '.join(heads)}): merge them.")
        return heads[0]

    @cached_property
    def revisions(self) -> Sequence[Revision]:
        """Every revision, in order of application."""
        return self._between(self.head, "base")

    @cached_property
    def fingerprint(self) -> str:
        """A hash in hex that changes with each revision, and with the naming convention."""
        content = sha256(self._naming)
        for revision in self.revisions:
            content.update(revision.name.encode() + b"\0" + revision.content + b"\0")
        return content.hexdigest()

    def hashes(self, *, only_revisions: bool = False) -> dict[str, str]:
        """Return a hash of each file that this stream consists of, by name; see `project_files`.

        The content of a revision is read once, so its hash is that of what is executed.

        Raises:
            TooManyFiles: There are more than `FILES_MAX`.
        """
        try:
            hashes = (
                {}
                if only_revisions
                else {name: hash_of(one) for name, one in self._find_others().items()}
            )
            for one in self.revisions:
                place = repr((one.id, sorted(one.down))).encode() + self._naming
                hashes[f"{self.name}:{one.name}"] = sha256(place + one.content).hexdigest()
        except OSError as error:
            file = Path(error.filename or "a file").name
            raise BadStream(f"The {self.name} revisions cannot be read: {file}.") from error
        return hashes

    @cached_property
    def watched(self) -> set[Path]:
        """The files that are no revisions, when they were first read, and their folders."""
        return {place for one in self._find_others().values() for place in (one, one.parent)}

    def _find_others(self) -> dict[str, Path]:
        """Return the files that are no revisions, and that revisions may depend on, by name."""
        revisions = {one.path.resolve(): one.content for one in self.revisions}
        files = find_files(self._folder, revisions.values())
        return {name: one for name, one in files.items() if one.resolve() not in revisions}

    @property
    def places(self) -> set[Path]:
        """The files of the revisions and their folders."""
        return {place for one in self.revisions for place in (one.path, one.path.parent)}

    def after(self, version: str, until: str | None = None) -> Sequence[Revision]:
        """Return the revisions from *version* to *until*, in Alembic's order of application.

        Without *until*, they end at the head.

        Raises:
            UnknownRevision: *version* is not in this stream.
            SeveralVersions: It has several revisions, and one of them includes another.
        """
        if version == BASE and until is None:
            return self.revisions
        if not self.has(version):
            raise UnknownRevision(version, self.name, self.find(version.partition(".")[0]))
        return self._between(until or self.head, version or "base")

    def find(self, name: str) -> Revision | None:
        """Return the revision with this id, or with this number of its SQL file."""
        return next((one for one in self.revisions if name in {one.id, one.number}), None)

    def has(self, version: str) -> bool:
        """Return whether *version* is the base, or has revisions of this stream only."""
        ids = {revision.id for revision in self.revisions}
        return version == BASE or ids.issuperset(version.split(AND))

    def while_each(self, is_kept: Callable[[Revision], bool]) -> "Stream":
        """Return the stream up to, but without, the first revision that is not kept.

        It ends earlier if that point is between two branches, where no version identifies it.
        """
        shorter = Stream(self.name, self._folder)
        kept = list(takewhile(is_kept, self.revisions))
        while kept and self.after(kept[-1].id) != self.revisions[len(kept) :]:
            kept.pop()
        vars(shorter).update(revisions=kept, head=kept[-1].id if kept else BASE)
        return shorter

    @cached_property
    def _script(self) -> ScriptDirectory:
        if not self._folder.is_dir():
            raise BadStream(f"The {self.name} revisions cannot be read: the folder does not exist.")
        is_sql = sql_files.is_sql_folder(self._folder)
        if not is_sql and (mistake := find_mistake(self._folder)):
            raise NoRevisions(f"The {self.name} revisions cannot be read: {mistake}")
        try:
            project = find_project(self._folder)
        except BadProject as error:
            raise BadStream(f"The {self.name} revisions: {error.message}") from error
        project.add_import_paths()
        alembic_modules.install()

        def read() -> ScriptDirectory:
            script = (
                sql_files.read_directory(self._folder, self.name)
                if is_sql
                else _Directory(
                    str(self._folder),
                    version_locations=[str(one) for one in project.version_locations],
                    recursive_version_locations=project.is_recursive,
                )
            )
            script.revision_map.heads  # noqa: B018 - reads every file, so errors are raised here
            return script

        def read_anew() -> ScriptDirectory:
            try:
                return read()
            except EOFError:
                drop_caches(project.version_locations)
                return read()

        try:
            return load(read_anew, self._folder, seconds=self._load_seconds)
        except LoadingEndless as error:
            message = f"The {self.name} revisions cannot be read: {error}."
            raise RevisionUnreadable(message) from error
        except (Exception, SystemExit) as error:  # a revision file can raise anything
            reason = describe(error, self._is_below, has_text=True)
            message = f"The {self.name} revisions cannot be read: {reason.removesuffix('.')}."
            raise RevisionUnreadable(message) from error

    def _is_below(self, file: Path) -> bool:
        return file.resolve().is_relative_to(self._folder.resolve())

    def _between(self, upper: str, lower: str) -> Sequence[Revision]:
        try:
            lowest = tuple(lower.split(AND))
            steps = list(self._script.iterate_revisions(upper, lowest, implicit_base=True))
        except (CommandError, RevisionError) as error:
            if AND in lower:
                raise SeveralVersions from error
            raise BadStream(f"The {self.name} revisions are not one line: {error}") from error
        return [self._revision(step) for step in reversed(steps)]

    def _revision(self, script: Script) -> Revision:
        if isinstance(script.module, SqlRevision):
            return script.module
        down = frozenset(script._all_down_revisions)  # noqa: SLF001 - with what it depends on
        revision = Revision(self.name, script.revision, down, Path(script.path), self._metadata)
        return self._known.setdefault(revision.id, revision)


def _no_stream() -> Stream:
    stream = Stream("tenantry", Path())
    vars(stream).update(revisions=(), head=BASE)
    return stream


NO_STREAM = _no_stream()
"""In place of Tenantry's own stream: attached databases have no revision of it."""


@dataclass(frozen=True)
class Streams:
    """The history of one kind of database: Tenantry's own stream, and perhaps the user's.

    Attributes:
        own: Tenantry's own stream.
        user: The stream of the user's Alembic directory.
        user_table: The version table of the user's stream.
        has_log: Whether what is applied is logged in the database; always, unless it is attached.
        is_attached: Whether the databases are attached: nothing of Tenantry's own stream is applied
            to them, and they count as being at its head.
    """

    own: Stream
    user: Stream | None = None
    user_table: str = alembic_modules.VERSION_TABLE
    has_log: bool = True
    is_attached: bool = False

    def of(self, *, is_attached: bool) -> "Streams":
        """Return the same streams for attached databases, or for the others.

        Raises:
            NothingToFollow: There is no stream of the user, which attached ones could follow.
        """
        if not is_attached or self.is_attached:
            return self
        if self.user is None:
            raise NothingToFollow
        return replace(self, is_attached=True)

    def parse(self, text: str) -> SchemaRevision:
        """Return the revision of a database of these streams that is displayed as *text*."""
        return SchemaRevision.parse(text, is_alone=self.own is NO_STREAM)

    @property
    def _all(self) -> Sequence[Stream]:
        return (self.own, self.user) if self.user else (self.own,)

    @cached_property
    def head(self) -> SchemaRevision:
        """The revision at which every database should be."""
        return SchemaRevision(self.own.head, self.user.head if self.user else None)

    @property
    def revisions(self) -> list[Revision]:
        """Every revision: Tenantry's own first, then the user's."""
        return [revision for stream in self._all for revision in stream.revisions]

    @property
    def fingerprint(self) -> str:
        """A hash in hex of all revisions, and of the name of the user's version table."""
        parts = [*(one.fingerprint for one in self._all), self.user_table]
        return sha256("".join(parts).encode()).hexdigest()

    def hashes(self, *, only_revisions: bool = False) -> dict[str, str]:
        """Return a hash of each file of both streams, by name, and what else determines the SQL.

        That is the name of the version table, and the versions of Tenantry and of the libraries.
        With *only_revisions*, it returns the hashes of the revisions alone.

        Raises:
            BadStream, TooManyFiles: They cannot be read.
        """
        user = self.user.hashes(only_revisions=only_revisions) if self.user else {}
        found = user | self.own.hashes(only_revisions=True)
        if only_revisions:
            return found
        packages = {f"package {name}": version(name) for name in _PACKAGES}
        return found | packages | {"version table": self.user_table}

    @property
    def signature(self) -> Signature:
        """What changes if a file is added or replaced that is not read once, as revisions are."""
        return signature_of(self.user.watched if self.user else ())

    @property
    def places(self) -> set[Path]:
        """What changes if the head of the user's stream does; see `Stream.places`."""
        return self.user.places if self.user else set()

    def have(self, revision: str) -> bool:
        """Return whether these streams contain *revision*, a `SchemaRevision` as text."""
        of = self.parse(revision)
        user = of.user or BASE
        return self.own.has(of.own) and (user == BASE or bool(self.user and self.user.has(user)))

    def display(self, applied: Applied) -> str:
        """Return the name of a revision, with its stream if both streams have that name."""
        if applied.revision in self._shared_names:
            is_own = applied.stream == self.own.name
            stream = self.own if is_own else self.user or self.own
            return f"{stream.name}:{applied.revision}"
        return applied.revision

    @cached_property
    def _shared_names(self) -> set[str]:
        """The names that revisions of both streams have."""
        user = {one.name for one in self.user.revisions} if self.user else set()
        return user & {one.name for one in self.own.revisions}

    def pending(self, start: SchemaRevision) -> list[Revision]:
        """Return the revisions from *start* to the head: Tenantry's own first, then the user's.

        Raises:
            UnknownRevision, BadStream: They cannot be determined.
        """
        own = self.own.after(start.own)
        return [*own, *(self.user.after(start.user or BASE) if self.user else ())]
