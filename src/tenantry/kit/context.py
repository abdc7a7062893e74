"""The context of an operation: the actor, the time and the request id.

A Struct, because every request creates two, and a frozen dataclass takes four times as long.
"""

from datetime import datetime
from typing import Self

import msgspec

from tenantry.kit.clock import utc_now
from tenantry.kit.ids import new_id

HOUSEKEEPING = "housekeeping"
"""Who does the background work, in the audit log."""


class OperationContext(msgspec.Struct, frozen=True, kw_only=True):
    """The first argument of every operation: its time, its actor and its request id.

    Attributes:
        request_id: The id of the request in logs, in the audit log and in responses.
        now: The instant of the operation, in UTC. Operations never read the clock.
        actor: The caller, as in the audit log.
        address: The client's address, short and printable, or the name of the door.
        command: The command on the command line, without its arguments; else None.
    """

    request_id: str
    now: datetime
    actor: str
    address: str
    command: str | None = None

    def at(self, now: datetime) -> Self:
        """Return the same context at a later time: a job takes minutes."""
        return msgspec.structs.replace(self, now=now)


def system_context(actor: str) -> OperationContext:
    """Return the context of background work, or of a command."""
    return OperationContext(request_id=str(new_id()), now=utc_now(), actor=actor, address="local")
