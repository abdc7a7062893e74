"""The interface of a server: create, copy, open and drop databases.

A server is a PostgreSQL server, or a folder of SQLite files. The names of databases that are
created here are generated (`checked_name`). An adopted database keeps its name, so every name
is quoted.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tenantry.db.database import Budget, Database
from tenantry.db.sessions import Session

PROBE_SECONDS_MAX = 2.0
# How long a write fence waits for transactions that have begun before.
FENCE_SECONDS_MAX = 30.0
# PostgreSQL truncates a longer name, with only a notice.
NAME_BYTES_MAX = 63
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
PREFIX = "tenantry_"
# Of tenants, scratch databases, drafts of templates, and probes of the doctor; of templates.
_GENERATED = re.compile(
    rf"{PREFIX}(?:(?:draft|doctor)_)?[0-9a-f]{{32}}|{PREFIX}template_[0-9a-f]{{12}}_[0-9a-f]{{16}}"
)


def checked_name(name: str) -> str:
    """Return *name*, which must be a generated name."""
    assert _NAME.fullmatch(name), f"not a generated name: {name!r}"
    return name


def is_generated(name: str) -> bool:
    """Return whether Tenantry can have made up the name of a database."""
    return _GENERATED.fullmatch(name) is not None


def quoted(name: str) -> str:
    """Return *name* as an identifier in SQL. PostgreSQL allows any character except NUL."""
    assert 0 < len(name.encode()) <= NAME_BYTES_MAX, f"empty or too long: {name!r}"
    assert "\0" not in name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


class Server(ABC):
    """Databases by name.

    Attributes:
        budget: The limit of connections from this process to all databases.
        timeout_seconds: How long to wait for a connection.
        can_restart: Whether an outage can be a restart, which is over when it is probed.
        folder: The folder of the files, on SQLite; None if the free space cannot be measured.
    """

    budget: Budget
    timeout_seconds: float
    can_restart: bool
    folder: Path | None = None

    @abstractmethod
    def url(self, name: str) -> str:
        """Return the URL of the database *name*."""

    @abstractmethod
    def url_before(self, name: str) -> str:
        """Return a URL for questions to the server, before the database *name* exists."""

    @abstractmethod
    async def probe(self) -> None:
        """Check that the server itself answers and accepts writes.

        Raises:
            ServerAway: It does not, or not within `PROBE_SECONDS_MAX`.
        """

    @abstractmethod
    def open(self, name: str) -> Database[Any]:
        """Return the database *name*, without connecting yet. The caller closes it."""

    @abstractmethod
    async def create(self, name: str) -> None:
        """Create the empty database *name*.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or returns an error.
        """

    @abstractmethod
    async def copy(self, template: str, name: str) -> bool:
        """Create the database *name* as a copy of *template*; return False if that is missing.

        The copy is durable after the block of `filling` has ended.
        """

    @abstractmethod
    def filling(self, name: str) -> AbstractAsyncContextManager[Session[Any]]:
        """Open a session on the database *name*, which is new and not used elsewhere.

        Its writes are durable when the block has ended.
        """

    @abstractmethod
    async def publish(self, draft: str, template: str) -> None:
        """Rename the database *draft* to *template*, for `copy`; it must not be in use.

        If another process has published *template* first, one of the two is dropped.
        """

    @abstractmethod
    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""

    @abstractmethod
    async def own_names(self) -> set[str]:
        """Return the generated names of the databases that Tenantry's role owns.

        In a folder, also the names of files that SQLite has left.

        Raises:
            DatabaseUnavailable: The server cannot be reached.
        """

    @abstractmethod
    def removal(self, name: str) -> str:
        """Return what an operator executes to remove the database *name*, unless it is in use."""

    @abstractmethod
    async def public_names(self) -> list[str]:
        """Return the names of the databases to which every role of the server may connect."""

    @abstractmethod
    async def missing(self, names: Collection[str]) -> set[str]:
        """Return the *names* that have no database."""

    @abstractmethod
    async def sizes(self, names: Collection[str]) -> dict[str, int]:
        """Return the sizes of databases in bytes; those that cannot be read are left out."""

    @abstractmethod
    async def connections_allowed(self) -> int:
        """Return how many connections the server allows to Tenantry's role."""

    @abstractmethod
    async def limited(self) -> dict[str, int]:
        """Return the databases that limit their connections themselves, each with its limit."""

    @abstractmethod
    async def close_unused(self) -> None:
        """Close connections that were not used for long: other processes may need them."""

    @abstractmethod
    async def drop(self, name: str) -> None:
        """Drop the database *name* if it exists, even if there are connections to it.

        A process that was killed can have left a server that still creates it: that is stopped.

        Raises:
            DatabaseUnavailable: It cannot be dropped: another role uses it, for example.
        """

    @abstractmethod
    async def reject_writes(self, name: str, *, wait_seconds: float = FENCE_SECONDS_MAX) -> None:
        """Make the database *name* reject every write, by any process, until `accept_writes`.

        When this returns, no transaction that could write is left: it waits for those that have
        begun. Reads continue.

        Raises:
            DatabaseBusy, FenceIneffective: A transaction did not end in time, or the fence has no
                effect; `accept_writes` must be called.
            DatabaseUnavailable: The server cannot be reached, or returns an error.
        """

    @abstractmethod
    async def accept_writes(self, name: str) -> None:
        """Undo `reject_writes`, if the database exists.

        Raises:
            DatabaseBusy, DatabaseUnavailable: As for `reject_writes`.
        """

    @abstractmethod
    async def stop_following(self, name: str, slot: str) -> None:
        """Drop the replication slot and the publication *slot* of the database *name*, if any.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or returns an error.
        """

    @abstractmethod
    async def check_listed(self, database: str) -> None:
        """Check the properties of a database that Tenantry did not create: by name, or by path.

        Raises:
            DatabaseMissing, DatabaseReserved, NotUtf8, NotOwner: It cannot be adopted.
            DatabaseUnavailable: The server cannot be reached.
        """

    @abstractmethod
    def foreign_url(self, database: str) -> str:
        """Return the URL of a database that Tenantry did not create."""

    @abstractmethod
    def adopted_name(self, database: str, generated: str) -> str:
        """Return the name that *database* has here once it is adopted: its own, or *generated*."""

    @abstractmethod
    async def adopt_database(self, database: str, name: str) -> None:
        """Make *database*, which was created elsewhere, available here as *name*.

        Raises:
            Exception: Any error of the driver.
        """
