"""The states of an HTTP/1.1 connection, and of a client that does not read."""

from enum import IntEnum, auto


class State(IntEnum):
    """What a connection waits for. Up to `HEAD` it reads a head, and up to `BODY` a body."""

    NEW = auto()  # the first request
    IDLE = auto()  # the next request
    HEAD = auto()  # the rest of a head
    DRAINING = auto()  # the rest of a body after the response was sent
    BODY = auto()  # the rest of a body, and the response
    ANSWERING = auto()  # the response to a complete request
    LINGERING = auto()  # the client reading the error of a refused connection
    CLOSING = auto()  # the client reading the last bytes


# Constants, because in Python 3.11 access to a member of an enumeration is slow.
NEW, IDLE, HEAD, DRAINING, BODY, ANSWERING, LINGERING, CLOSING = State


class Stall:
    """Measures for how long a client has read nothing of what is written."""

    def __init__(self) -> None:
        self._unread = 0
        self._since: float | None = None

    def seconds(self, unread: int, now: float) -> float:
        """Return for how many seconds the *unread* bytes have not become fewer."""
        if self._since is None or unread < self._unread:
            self._unread, self._since = unread, now
        return now - self._since
