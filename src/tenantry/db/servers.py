"""What every server does: make, copy, open and drop databases.

A server is a PostgreSQL server, or a folder of SQLite files. Names of databases that are
made here are generated (`checked_name`); one that was adopted keeps its own, so every name
is quoted.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

from tenantry.db.database import Budget, Database
from tenantry.db.sessions import Session

PROBE_SECONDS_MAX = 2.0
# PostgreSQL cuts a longer name, with a mere notice.
NAME_BYTES_MAX = 63
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def checked_name(name: str) -> str:
    """Return *name*, which must be one that was generated."""
    assert _NAME.fullmatch(name), f"no name of ours: {name!r}"
    return name


def quoted(name: str) -> str:
    """Return *name* as an identifier in SQL. PostgreSQL allows any character but NUL in it."""
    assert 0 < len(name.encode()) <= NAME_BYTES_MAX, f"no name at all: {name!r}"
    assert "\0" not in name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


class Server(ABC):
    """Holds databases by name, and the connections of this process to them.

    Attributes:
        budget: Of those connections.
        timeout_seconds: How long to wait for a connection.
        can_restart: Whether it can be away for a moment, and be back when it is probed.
    """

    budget: Budget
    timeout_seconds: float
    can_restart: bool

    @abstractmethod
    def url(self, name: str) -> str:
        """Return where the database *name* is."""

    @abstractmethod
    async def probe(self) -> None:
        """Check that the server answers and accepts writes, whatever its databases do.

        Raises:
            ServerAway: It does not, or not within `PROBE_SECONDS_MAX`.
        """

    @abstractmethod
    def open(self, name: str) -> Database[Any]:
        """Return the database *name*, to be closed by the caller. Nothing is connected yet."""

    @abstractmethod
    async def create(self, name: str) -> None:
        """Make the empty database *name*.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or refuses.
        """

    @abstractmethod
    async def copy(self, template: str, name: str) -> bool:
        """Make the database *name* as a copy of *template*; return False if there is none.

        It is durable when it was filled.
        """

    @abstractmethod
    def filling(self, name: str) -> AbstractAsyncContextManager[Session[Any]]:
        """Open a session on the database *name*, that was just made and that nobody else has.

        What it has written is durable when the block has ended.
        """

    @abstractmethod
    async def publish(self, draft: str, template: str) -> None:
        """Make the database *draft* the *template* that `copy` takes; nobody may use it else.

        If somebody was quicker, *draft* is dropped.
        """

    @abstractmethod
    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""

    @abstractmethod
    async def public_names(self) -> list[str]:
        """Return the names of the databases to which every role of the server may connect."""

    @abstractmethod
    async def missing(self, names: Collection[str]) -> set[str]:
        """Return those of *names* of which there is no database."""

    @abstractmethod
    async def connections_allowed(self) -> int:
        """Return how many connections the server allows to ordinary roles."""

    @abstractmethod
    async def drop(self, name: str) -> None:
        """Drop the database *name*, whoever is connected; it need not be there."""

    @abstractmethod
    async def check_listed(self, database: str) -> None:
        """Check what the server says of a database that was made elsewhere.

        Args:
            database: Its name; or the path of its file.

        Raises:
            DatabaseMissing, DatabaseReserved, NotUtf8, NotOwner: It cannot be adopted.
            DatabaseUnavailable: The server cannot be reached.
        """

    @abstractmethod
    def foreign_url(self, database: str) -> str:
        """Return the URL of a database that was made elsewhere."""

    @abstractmethod
    def adopted_name(self, database: str, generated: str) -> str:
        """Return the name that *database* has here once it is adopted: its own, or *generated*."""

    @abstractmethod
    async def adopt_database(self, database: str, name: str) -> None:
        """Make *database*, which was created elsewhere, available here as *name*.

        Raises:
            Exception: Whatever the driver raises.
        """
