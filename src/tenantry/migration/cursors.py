"""What becomes of a guest's statements on asyncpg: some wait for the next, some are not prepared.

A message to the server, and the way from thread to thread that each needs, cost more than most
DDL. DDL answers nothing, so it is held back until something else is sent. PostgreSQL does
nothing more in a transaction in which a statement has failed, so it makes no difference that a
failure is told later; but it would after a savepoint, to which one can go back, and so
nothing is held from there on.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import (
    AsyncAdapt_asyncpg_connection,
    AsyncAdapt_asyncpg_cursor,
    AsyncAdapt_asyncpg_ss_cursor,
)

from tenantry.migration import sql_text

HELD_MAX = 64

Answer = TypeVar("Answer")

_DDL = frozenset({"ALTER", "COMMENT", "CREATE", "DROP"})
_CHANGES = frozenset({"DELETE", "INSERT", "UPDATE"})
_RETURNING = "RETURNING"


class _Cursor(AsyncAdapt_asyncpg_cursor):
    __slots__ = ()
    _adapt_connection: "GuestConnection"

    def execute(self, operation: str, parameters: Any = None) -> Any:
        """Hold *operation* back, or send it after what was held."""
        if parameters or not self._adapt_connection.hold(operation):
            return super().execute(operation, parameters)  # type: ignore[no-untyped-call]
        self._description, self._rowcount = None, -1
        return None

    async def _prepare_and_execute(self, operation: str, parameters: Any) -> Any:
        held = self._adapt_connection.take_held()
        if parameters or not _answers_nothing(sql_text.read(operation), operation):
            if held:
                await self._send(sql_text.joined(*held))
            return await super()._prepare_and_execute(operation, parameters)  # type: ignore[no-untyped-call]
        status = await self._send(sql_text.joined(*held, operation))
        self._description = None
        count = status.rpartition(" ")[2]
        self._rowcount = int(count) if count.isdecimal() else -1
        return None

    async def _executemany(self, operation: str, rows: Any) -> Any:
        if held := self._adapt_connection.take_held():
            await self._send(sql_text.joined(*held))
        return await super()._executemany(operation, rows)  # type: ignore[no-untyped-call]

    async def _send(self, text: str) -> str:
        connection = self._adapt_connection
        async with connection._execute_mutex:  # noqa: SLF001 - as SQLAlchemy's own
            try:
                status: str = await connection.raw.execute(text)
            except Exception as error:  # noqa: BLE001 - a revision may catch it
                connection._handle_exception(error)  # noqa: SLF001
            return status


class _ServerSideCursor(_Cursor, AsyncAdapt_asyncpg_ss_cursor):
    __slots__ = ()


class GuestConnection(AsyncAdapt_asyncpg_connection):
    """asyncpg as SQLAlchemy wants it, which holds DDL back.

    Attributes:
        raw: The connection itself.
        holds: Whether DDL is held back at this moment.
    """

    __slots__ = ("_held", "holds", "raw")
    _cursor_cls = _Cursor
    _ss_cursor_cls = _ServerSideCursor

    def __init__(self, dbapi: Any, raw: "asyncpg.Connection[asyncpg.Record]") -> None:
        super().__init__(dbapi, raw)  # type: ignore[no-untyped-call]
        self.raw = raw
        self.autocommit = True  # it begins no transaction: it is in one
        self.holds = False
        self._held: list[str] = []

    def run_async(self, fn: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """Run what *fn* returns for the connection itself, after what was held."""

        async def run(raw: Any) -> Answer:
            if held := self.take_held():
                await raw.execute(sql_text.joined(*held))
            return await fn(raw)

        return super().run_async(run)

    def hold(self, operation: str) -> bool:
        """Hold *operation* back, and return True, if that means the same as sending it."""
        text = sql_text.read(operation)
        firsts = {words[0] for words in text.commands if words}
        if "SAVEPOINT" in firsts:
            self.holds = False
        is_held = self.holds and text.is_whole and firsts <= _DDL and len(self._held) < HELD_MAX
        if is_held:
            self._held.append(operation)
        return is_held

    def take_held(self) -> list[str]:
        """Return what is held; it is the caller's to send."""
        held, self._held = self._held, []
        return held


def _answers_nothing(text: sql_text.Text, operation: str) -> bool:
    """Tell whether nobody misses what only a prepared statement tells: rows and their columns.

    Other drivers take several commands in one text, and so revisions count on it. asyncpg takes
    them only when they are not prepared.
    """
    if len(text.commands) > 1:
        return True
    first = text.commands[0][:1] if text.commands else ()
    if not text.is_whole or not first:
        return False
    return first[0] in _DDL or (first[0] in _CHANGES and _RETURNING not in operation.upper())
