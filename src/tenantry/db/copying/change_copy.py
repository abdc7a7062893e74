"""Copy the changes of a live PostgreSQL database to a copy of it, from a logical replication slot.

The slot is read with SQL, so no server connects to another one, and no password is stored. The
copy is dropped if anything fails, so the slot may advance before a change is durable there. These
functions block: call them in a thread.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tenantry.db.copying.change_writer import ChangeDiffers, ChangeWriter, Raw
from tenantry.db.copying.pgoutput import PROTOCOL, Change, Marker, Relation, decode
from tenantry.db.postgres.session_settings import COPY_IN_SESSION
from tenantry.db.postgres.visibility import is_visible
from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.stopping import Stop

APPLICATION = "tenantry-move"
MARKER = "tenantry"
READ_CHANGES = 10_000
"""Changes after which one reading of the slot ends, with the transaction that it is in."""
READ_SECONDS_MAX = 600
HELD_BYTES_MAX = 64 * 2**20
"""The changes of some milliseconds."""

# The source rejects writes at the end, and its COMMIT may not be flushed: the marker's is.
_SOURCE = f"""
{COPY_IN_SESSION}; SET statement_timeout = '{READ_SECONDS_MAX}s';
SET default_transaction_read_only = off; SET synchronous_commit = local;
"""
# Triggers, rules and foreign keys had their effect where the change was made. The session is idle
# while the rows are compared.
_TARGET = f"""
{COPY_IN_SESSION};
SET session_replication_role = replica; SET row_security = off; SET synchronous_commit = on;
"""
_MARK = "SELECT pg_logical_emit_message(true, $1, $2)"
# Whether the copy contains a change, and whether it is to be held back.
_READ = f"""
SELECT {is_visible("xid", "$5")}, {is_visible("xid", "$6")} IS FALSE, data
FROM pg_logical_slot_get_binary_changes($1, NULL, $2,
    'proto_version', $3, 'publication_names', $4, 'messages', 'true')
"""  # noqa: S608 - constants


class TooManyChanges(Unavailable):
    """Too many rows were changed while the copy was compared: try again at a quieter time."""


class ChangeCopy:
    """Copies changes, in the order of their transactions.

    Args:
        source: The URL of the live database.
        target: The URL of its copy, which no other process uses.
        slot: The name of the slot, and of the publication.
        snapshot: The transactions that the copy contains, of `visibility.CURRENT`.
        connect_seconds: How long to wait for a connection.
        count: Called with the bytes of a change.
        held_bytes_max: Changes in memory that are later than a snapshot.
    """

    def __init__(
        self,
        source: str,
        target: str,
        slot: str,
        snapshot: str,
        *,
        connect_seconds: float,
        count: Callable[[int], None],
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        self._source = source
        self.slot = slot
        self._snapshot = snapshot
        self._connect_seconds = connect_seconds
        self._held_bytes_max = held_bytes_max
        self._raw = _connect(target, connect_seconds, _TARGET)
        self._writer = ChangeWriter(self._raw, count)
        self._held: list[tuple[Change, int]] = []
        self._held_bytes = 0

    def close(self) -> None:
        """Close the connection to the copy."""
        self._raw.close()

    def copy_until_now(self, stop: Stop, *, within: str | None = None) -> None:
        """Copy all transactions that were committed before this call; make the copy durable.

        Args:
            stop: Ends it early; the copy is then not usable.
            within: Holds back the transactions that are not in this snapshot, for the next call.

        Raises:
            ChangeDiffers: A change has another result in the copy.
            TooManyChanges: More than `held_bytes_max` would be held back.
            Stopped: *stop* was set.
            Exception: Any error of the driver, or a message that is not understood.
        """
        token = new_id().bytes
        held, self._held, self._held_bytes = self._held, [], 0
        try:
            with (
                stop.disconnecting(self._raw.fileno()),
                contextlib.closing(_connect(self._source, self._connect_seconds, _SOURCE)) as raw,
                stop.disconnecting(raw.fileno()),
            ):
                raw.autocommit = True
                for change, size in held:
                    self._writer.write(change, size)
                raw.execute(_MARK, [MARKER, token])
                while not self._read(raw, token, within, stop):
                    stop.check()
                self._writer.flush()
                self._raw.commit()
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # Without its message, which can contain values of the row.
            where = error.diag.constraint_name or error.diag.table_name
            raise ChangeDiffers(
                f"A change cannot be made in the copy: {type(error).__name__}"
                f"{f' in {where}' if where else ''}."
            ) from error

    def _read(self, raw: Raw, token: bytes, within: str | None, stop: Stop) -> bool:
        """Copy some transactions; return whether the marker *token* was among the messages."""
        is_done, is_empty = False, True
        rows = raw.cursor().stream(
            _READ,
            [self.slot, READ_CHANGES, PROTOCOL, self.slot, self._snapshot, within],
            binary=True,
        )
        for is_copied, is_later, data in rows:
            stop.check()
            is_empty = False
            message = decode(data)
            if isinstance(message, Marker):
                is_done |= message.content == token
            elif isinstance(message, Relation):  # also for later transactions
                self._writer.describe(message)
            elif message is None or is_copied:
                continue
            elif is_later:
                self._hold(message, len(data))
            else:
                self._writer.write(message, len(data))
        if is_empty:
            raise psycopg.DatabaseError("The replication slot does not return what was written.")
        return is_done

    def _hold(self, change: Change, size: int) -> None:
        self._held.append((change, size))
        self._held_bytes += size
        if self._held_bytes > self._held_bytes_max:
            raise TooManyChanges


def _connect(url: str, seconds: float, settings: str) -> Raw:
    parameters: dict[str, Any] = {"application_name": APPLICATION}
    parameters |= postgres_urls.parse(url).for_libpq()
    raw = psycopg.connect(
        make_conninfo("", **parameters),
        connect_timeout=math.ceil(seconds),
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
    )
    raw.execute(settings.encode())
    raw.autocommit = False
    return raw
