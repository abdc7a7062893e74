"""The context of an operation: who asks, when, under which request id.

A Struct, because every request makes two: a frozen dataclass takes four times as long to make.
"""

from datetime import datetime

import msgspec


class OperationContext(msgspec.Struct, frozen=True, kw_only=True):
    """When something was asked, by whom, and under which request id. Operations take one first.

    Attributes:
        request_id: Names this operation in logs, in the audit log and in answers.
        now: The instant of the operation, in UTC. Operations never read the clock.
        actor: Who asks, as the audit log tells it.
        address: Where from: the client's address, or the name of the door.
        command: The command on the command line, without its arguments; else None.
    """

    request_id: str
    now: datetime
    actor: str
    address: str
    command: str | None = None
