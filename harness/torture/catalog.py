"""The catalog's server restarted in the middle of a run."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import httpx

from harness.api import MIGRATE_ALL, admin_client
from harness.driver import say
from harness.finding import Finding
from harness.fleet.fleets import Fleet, make_fleet
from harness.processes import Process, serving
from harness.torture.trial import Trial
from harness.waiting import comes_true
from testkit import raw_sql
from testkit.postgres import Server as PostgresServer
from testkit.postgres import own_server

END_SECONDS_MAX = 30
AWAY_SECONDS_MAX = 3.0
BEGIN_SECONDS_MAX = 10.0
# Restarts that come when the run has ended already are not counted.
TRIES_MAX = 6
# The servers of tests forget the last commits when they are stopped without a warning.
DURABLE = ("ALTER SYSTEM SET synchronous_commit = on", "SELECT pg_reload_conf()")


def check(trial: Trial) -> list[Finding]:
    """Restart it, at random moments; the tenants are on a server of their own."""
    scale = trial.scale
    with own_server() as server:
        raw_sql.run(server.url, *DURABLE)
        fleet = make_fleet(
            trial.folder / "fleet",
            scale.kill_tenants,
            server_url=trial.server_url,
            catalog_on=server.url,
        )
        with serving(trial.folder, fleet.environment) as serving_:
            restarts = _Restarts(fleet, serving_, server, trial.chance)
            asyncio.run(restarts.measure())
            while restarts.hits < scale.restarts and restarts.tries < TRIES_MAX * scale.restarts:
                fleet.undo()
                asyncio.run(restarts.restart_once())
                say(f"catalog: {restarts.hits} restarts hit a run, {len(restarts.faults)} faults")
    if restarts.hits < scale.restarts:
        restarts.faults.append(f"only {restarts.hits} of {scale.restarts} restarts hit a run")
    return [
        Finding(
            name="catalog",
            check=f"PostgreSQL: the catalog restarted {restarts.hits} times in the middle of a run "
            f"of {scale.kill_tenants} tenants, politely and not, away for up to "
            f"{AWAY_SECONDS_MAX:g} s",
            must=f"the run ends within {END_SECONDS_MAX} s, with every tenant a success and at "
            "the head",
            found=f"{len(restarts.faults)} faults; it ended {restarts.longest:.1f} s after the "
            "catalog was back at the latest",
            faults=restarts.faults,
        )
    ]


@dataclass
class _Restarts:
    """The check at work.

    Attributes:
        length: How long an undisturbed run takes, in seconds.
        tries: How often the catalog was restarted.
        hits: How often a run was under way then.
        longest: How long a run took to end when the catalog was back.
        faults: What did not hold.
    """

    fleet: Fleet
    serving: Process
    catalog: PostgresServer
    chance: random.Random
    length: float = 1.0
    tries: int = 0
    hits: int = 0
    longest: float = 0.0
    faults: list[str] = field(default_factory=list)

    async def measure(self) -> None:
        """Learn how long a run takes."""
        began = time.monotonic()
        async with self._admin() as client:
            (await client.post(MIGRATE_ALL)).raise_for_status()
        self.length = time.monotonic() - began

    async def restart_once(self) -> None:
        """Begin a run, restart the catalog in the middle of it, and wait for the run's end."""
        self.tries += 1
        async with self._admin() as client:
            calling = asyncio.create_task(_call(client))
            run = await asyncio.to_thread(self._under_way)
            await asyncio.sleep(self.chance.uniform(0, self.length))
            hit = await asyncio.to_thread(self._is_unfinished, run)
            await asyncio.to_thread(self.catalog.stop, self.chance.choice(["fast", "immediate"]))
            await asyncio.sleep(self.chance.uniform(0.1, AWAY_SECONDS_MAX))
            await asyncio.to_thread(self.catalog.start)
            began = time.monotonic()
            if (status := await calling) not in {200, 503, None}:
                self._fault(f"the caller got {status}")
        self.hits += hit
        self.length *= 1 if hit else 0.8
        ended = partial(comes_true, lambda: not self._is_unfinished(run), END_SECONDS_MAX)
        if not await asyncio.to_thread(ended):
            self._fault(f"the run has not ended {END_SECONDS_MAX} s after the catalog was back")
            return
        self.longest = max(self.longest, time.monotonic() - began)
        await asyncio.to_thread(self._check, run)

    def _admin(self) -> httpx.AsyncClient:
        return admin_client(self.serving, self.fleet.ours.world)

    def _under_way(self) -> UUID:
        """Return the run that has just begun."""
        with self.fleet.catalog() as catalog:
            known = {run.id for run in catalog.runs() if run.is_finished}
            new: list[UUID] = []

            def has_begun() -> bool:
                new.extend(run.id for run in catalog.runs() if run.id not in known)
                return bool(new)

            if not comes_true(has_begun, BEGIN_SECONDS_MAX, poll_seconds=0):
                raise TimeoutError("no run has begun")
            return new[0]

    def _is_unfinished(self, run_id: UUID) -> bool:
        with self.fleet.catalog() as catalog:
            return not catalog.run(run_id).is_finished

    def _check(self, run_id: UUID) -> None:
        with self.fleet.catalog() as catalog:
            run = catalog.run(run_id)
        if (run.success, run.failed) != (len(self.fleet.urls), 0):
            self._fault(f"{run}")
        for tenant_id, state in self.fleet.read_states().items():
            if state.content != self.fleet.after:
                self._fault(f"the tenant {tenant_id} is not at the head")

    def _fault(self, text: str) -> None:
        self.faults.append(f"restart {self.tries}: {text}")


async def _call(client: httpx.AsyncClient) -> int | None:
    """Return the status; None when there was no answer."""
    try:
        return (await client.post(MIGRATE_ALL)).status_code
    except httpx.TransportError:
        return None
