"""The last requests that this process could not answer, for the health of the service."""

from collections import deque
from collections.abc import Sequence

from tenantry.kit.access_log import AccessEntry

ERRORS_KEPT_MAX = 20
SERVER_ERROR = 500


class RecentErrors:
    """Keeps the newest requests with a status of 500 and above, in memory."""

    def __init__(self) -> None:
        self._kept: deque[AccessEntry] = deque(maxlen=ERRORS_KEPT_MAX)

    def note(self, entry: AccessEntry) -> None:
        """Keep *entry* if its status is that of an error of the service."""
        if entry.status >= SERVER_ERROR:
            self._kept.appendleft(entry)

    def newest(self) -> Sequence[AccessEntry]:
        """Return them, the newest first."""
        return list(self._kept)
