"""Limit the requests of one tenant that are processed concurrently.

Further requests wait in the order of arrival, before they use the tenant's database. So a tenant
that sends as many requests as it can delays the others by at most `IN_WORK_MAX` requests.
"""

from tenantry.access.rate_limits import TooManyRequests
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.turns import NoTurn, Turns

# The number of connections to a tenant's PostgreSQL database; a SQLite file has one.
IN_WORK_MAX = 4
WAITING_MAX = 1_000
WAIT_SECONDS_MAX = 5.0
# The places of so many tenants are kept; then those of tenants without a request are dropped.
TENANTS_MAX = 4_096
# After a longer wait, the caller is authenticated again before the work begins.
LONG_WAIT_SECONDS = 0.5


class TooManyAtOnce(TooManyRequests):
    """Too many requests of this tenant are being processed; try again later."""


class FairShare:
    """Limits how many requests of each tenant are processed concurrently.

    Args:
        in_work_max: How many of one tenant.
        wait_seconds_max: How long another one waits for its turn.
    """

    def __init__(
        self, *, in_work_max: int = IN_WORK_MAX, wait_seconds_max: float = WAIT_SECONDS_MAX
    ) -> None:
        self._in_work_max = in_work_max
        self._wait_seconds_max = wait_seconds_max
        self._turns: dict[int, Turns] = {}

    async def enter(self, key: int) -> float:
        """Wait for a place among the requests of the tenant *key*; return for how many seconds.

        `leave` gives the place to the next one.

        Raises:
            TooManyAtOnce: Too many requests are waiting, or this one waited too long.
        """
        turns = self._turns.get(key)
        if turns is None:
            if len(self._turns) >= TENANTS_MAX:
                kept, most = self._turns.items(), self._in_work_max
                self._turns = {one: places for one, places in kept if places.free < most}
            turns = self._turns[key] = Turns(self._in_work_max, waiting_max=WAITING_MAX)
        if turns.free:
            turns.free -= 1
            return 0.0
        began = monotonic_seconds()
        try:
            await turns.wait(seconds=self._wait_seconds_max)
        except NoTurn as error:
            raise TooManyAtOnce from error
        return monotonic_seconds() - began

    def leave(self, key: int) -> None:
        """Give the place to the request that has waited longest."""
        turns = self._turns[key]
        if turns.waiting:
            turns.give_back()
        else:
            turns.free += 1
