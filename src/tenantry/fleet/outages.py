"""The tenant servers that this process cannot reach.

An outage is not a failure of a tenant. If an error can mean that the server is away, the server is
probed. If it does not answer, its tenants wait in the catalog, and the server is probed until it
answers. Its tenants fail only if it is away for longer than `patience_seconds`, with the cause of
the last probe.
"""

import asyncio
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import structlog

from tenantry.catalog.runs import RunTenant
from tenantry.db import outage_errors
from tenantry.db.outage_errors import ServerAway
from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.clock import monotonic_seconds
from tenantry.migration import errors
from tenantry.tenant.databases import TenantDatabases

# The pause before a server is probed again, doubled each time. With `PROBE_SECONDS_MAX` its
# return is noticed within 4 s.
PROBE_PAUSE_SECONDS = 0.2
PROBE_PAUSE_SECONDS_MAX = 2.0
# How often one tenant may lose its server: a revision that crashes the server does so each time.
LOSSES_MAX = 5
LOSS_PAUSE_SECONDS = 0.2
LOSS_PAUSE_SECONDS_MAX = 1.0
TENANTS_REMEMBERED_MAX = 10_000

_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """How to handle an error of a tenant."""

    AWAY = auto()
    """Its server is away: the tenant goes back to the queue."""
    RETRY = auto()
    """Its server answers now, and may have been away: retry the tenant."""
    FAILED = auto()
    """The tenant has failed."""


@dataclass(slots=True)
class _Losses:
    first_at: float
    tries: int = 0
    count: int = 0


class Announce(Protocol):
    """Makes it known that a server is away, or is back."""

    async def __call__(self, server_name: str, *, is_away: bool) -> None:
        """Do so."""


class Outages:
    """The tenant servers that are away.

    Args:
        patience_seconds: How long the tenants of a server that is away wait.
        returned: Called when a server answers again.
        announce: Called in the background with a server, and whether that is away, or is back.
    """

    def __init__(
        self,
        databases: TenantDatabases,
        *,
        patience_seconds: float,
        returned: Callable[[], None],
        announce: Announce,
    ) -> None:
        self._databases = databases
        self._patience = patience_seconds
        self._returned = returned
        self._announce = announce
        self._since: dict[str, float] = {}
        self._causes: dict[str, str] = {}
        self._found = asyncio.Event()
        self._probing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._losses: OrderedDict[tuple[object, object], _Losses] = OrderedDict()

    @property
    def seconds_away(self) -> Mapping[str, float]:
        """The servers that are away, and for how long."""
        now = monotonic_seconds()
        return {name: now - since for name, since in self._since.items()}

    @property
    def causes(self) -> Mapping[str, str]:
        """Why the servers that are away have not answered the last probe."""
        return {name: self._causes[name] for name in self._since}

    def is_away(self, server_name: str) -> bool:
        """Return whether a server is away."""
        return server_name in self._since

    def is_given_up(self, server_name: str) -> bool:
        """Return whether a server has been away for longer than its tenants wait."""
        since = self._since.get(server_name)
        return since is not None and monotonic_seconds() - since >= self._patience

    def error(self, server_name: str) -> ServerAway:
        """Return the error of the tenants of a server that was given up."""
        for_long = f"The server '{server_name}' has been away for more than {self._patience:g} s."
        return ServerAway(f"{for_long} {self._causes[server_name]}.")

    async def has_returned(self, server_name: str) -> bool:
        """Probe a server that is away, and return whether it answers now."""
        async with self._probing[server_name]:
            if self.is_away(server_name) and await self._answers(server_name):
                self._mark_returned(server_name)
        return not self.is_away(server_name)

    async def judge(self, item: RunTenant, error: Exception) -> Verdict:
        """Return how to handle an error of a tenant. Before a `RETRY` it pauses."""
        if errors.is_outage(error):
            return await self._judge_outage(item, errors.cause_of(error))
        # A timeout is a failure of the tenant, unless its server is away.
        is_over = isinstance(errors.cause_of(error), TimeoutError)
        return Verdict.AWAY if is_over and await self._is_found_away(item) else Verdict.FAILED

    async def _judge_outage(self, item: RunTenant, cause: BaseException) -> Verdict:
        losses = self._losses_of(item)
        losses.tries = min(losses.tries + 1, LOSSES_MAX)
        if outage_errors.is_full(cause) and monotonic_seconds() - losses.first_at < self._patience:
            # No loss: the server runs. Requests that need their connections again open others.
            await self._databases.server(item.server_name).budget.close_idle()
        else:
            losses.count += 1
            if losses.count >= LOSSES_MAX:
                return Verdict.FAILED
        if await self._is_found_away(item):
            return Verdict.AWAY
        if not self._databases.server(item.server_name).can_restart:
            return Verdict.FAILED
        pause = backoff_seconds(LOSS_PAUSE_SECONDS, losses.tries, longest=LOSS_PAUSE_SECONDS_MAX)
        await asyncio.sleep(pause)
        return Verdict.RETRY

    async def work(self) -> None:
        """Probe the servers that are away until they return, until cancelled."""
        watched: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._found.clear()
                watched = {name: task for name, task in watched.items() if not task.done()}
                for name in self._since.keys() - watched.keys():
                    watched[name] = group.create_task(self._await_return(name))
                await self._found.wait()

    async def _is_found_away(self, item: RunTenant) -> bool:
        name = item.server_name
        async with self._probing[name]:  # one probe for all tenants of the server
            if not self.is_away(name) and not await self._answers(name):
                self._mark_away(name)
        return self.is_away(name)

    async def _await_return(self, name: str) -> None:
        await self._announce(name, is_away=True)
        for tries in itertools.count(1):
            await asyncio.sleep(
                backoff_seconds(PROBE_PAUSE_SECONDS, tries, longest=PROBE_PAUSE_SECONDS_MAX)
            )
            if await self.has_returned(name):
                await self._announce(name, is_away=False)
                return

    async def _answers(self, name: str) -> bool:
        """Probe a server; return whether it answers, and remember why not."""
        try:
            await self._databases.server(name).probe()
        except ServerAway as error:
            self._causes[name] = errors.explain(error).removesuffix(".")
            return False
        return True

    def _mark_away(self, name: str) -> None:
        self._since[name] = monotonic_seconds()
        cause = self._causes[name]
        _log.warning("server is away, its tenants wait", server=name, cause=cause)
        self._found.set()

    def _mark_returned(self, name: str) -> None:
        since = self._since.pop(name)
        _log.warning("server is back", server=name, seconds=round(monotonic_seconds() - since, 1))
        self._returned()

    def _losses_of(self, item: RunTenant) -> _Losses:
        key = (item.run_id, item.tenant_id)
        losses = self._losses.setdefault(key, _Losses(monotonic_seconds()))
        self._losses.move_to_end(key)
        if len(self._losses) > TENANTS_REMEMBERED_MAX:
            self._losses.popitem(last=False)
        return losses
