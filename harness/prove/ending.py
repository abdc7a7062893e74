"""Processes that are ended: P33."""

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from harness.api import LOGIN, MIGRATE_ALL, MODULES, PROFILE, as_admin, key_of, signed_in
from harness.fleet.fleets import ENGINES, Fleet, make_fleet
from harness.processes import Process
from harness.prove.calls import Line, percentile
from harness.prove.outages import is_zombie
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, World

EXIT_SECONDS_MAX = 20.0

# A request that was on its way for this long when the signal came has been read.
READ_SECONDS = 0.1

RESUMED_SECONDS_MAX = 15.0


def p33(stage: Stage) -> Figure:
    """End processes with SIGTERM under load, again and again."""
    signals = stage.size(200, 4)
    lanes = [_Terms(stage, engine, signals // len(ENGINES)) for engine in ENGINES]
    with ThreadPoolExecutor(len(lanes)) as threads:
        list(threads.map(_Terms.run, lanes))
    faults = [fault for lane in lanes for fault in lane.faults]
    exits = [seconds for lane in lanes for seconds in lane.exits]
    accepted = sum(lane.accepted for lane in lanes)
    return Figure(
        done=f"{len(exits)} SIGTERMs under load, with runs under way, on both engines",
        found=f"{accepted:,} requests under way, {len(faults)} without an answer or runs without "
        f"an end; exit within {max(exits):.1f} s, half within {percentile(exits, 0.5):.1f} s",
        faults=faults,
    )


@dataclass
class _Terms:
    """A lane of SIGTERMs over one fleet."""

    stage: Stage
    engine: str
    count: int
    faults: list[str] = field(default_factory=list)
    exits: list[float] = field(default_factory=list)
    accepted: int = 0

    def run(self) -> None:
        stage = self.stage
        url = stage.postgres.url if self.engine == "postgresql" else None
        fleet = make_fleet(stage.folder / f"terms-{self.engine}", 12, server_url=url)
        world = replace(fleet.ours.world, environment=dict(fleet.environment))
        for number in range(self.count):
            if number % 2:
                fleet.undo()
            with stage.serving(world) as process:
                asyncio.run(self._term(world, process, with_run=bool(number % 2)))
        with stage.serving(world) as process:
            self._check_runs(fleet)
            del process

    async def _term(self, world: World, process: Process, *, with_run: bool) -> None:
        tenant = world.tenants[0]
        login_body = {"email": tenant.users[0].email, "password": PASSWORD}
        calls: list[tuple[str, str, dict[str, str], object]] = [
            ("GET", PROFILE, signed_in(tenant), None),
            ("POST", LOGIN, key_of(tenant), login_body),
            ("GET", MODULES, signed_in(tenant), None),
        ]
        ended = asyncio.Event()
        sent_at = {"signal": float("inf")}
        asking = [
            asyncio.create_task(self._ask_until(process.port, calls[n % 3], ended, sent_at))
            for n in range(6)
        ]
        run = ("POST", MIGRATE_ALL, as_admin(world), None)
        if with_run:
            asking.append(
                asyncio.create_task(self._ask_until(process.port, run, ended, sent_at, once=True))
            )
        await asyncio.sleep(self.stage.chance.uniform(0.2, 0.8))
        sent_at["signal"] = began = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        while not is_zombie(process.pid):
            if time.monotonic() - began > EXIT_SECONDS_MAX:
                self.faults.append(f"still there {EXIT_SECONDS_MAX:g} s after SIGTERM")
                break
            await asyncio.sleep(0.01)
        self.exits.append(time.monotonic() - began)
        ended.set()
        await asyncio.gather(*asking)

    async def _ask_until(
        self,
        port: int,
        call: tuple[str, str, dict[str, str], object],
        ended: asyncio.Event,
        sent_at: dict[str, float],
        *,
        once: bool = False,
    ) -> None:
        method, path, headers, body = call
        while not ended.is_set():
            sent = time.monotonic()
            try:
                async with Line(port) as line:
                    answer = await line.ask(method, path, body, headers=headers, seconds=30)
            except (OSError, TimeoutError) as error:
                # What was sent about when the listener closed was not accepted by the service.
                if sent < sent_at["signal"] - READ_SECONDS:
                    self.faults.append(f"{path}: {error!r}")
                await asyncio.sleep(0.02)
                continue
            self.accepted += sent < sent_at["signal"]
            if answer.status not in {200, 429, 503}:
                self.faults.append(f"{path}: {answer}")
            if once:
                return

    def _check_runs(self, fleet: Fleet) -> None:
        until = time.monotonic() + RESUMED_SECONDS_MAX
        with fleet.catalog() as catalog:
            while left := [run for run in catalog.runs() if not run.is_finished]:
                if time.monotonic() > until:
                    self.faults.append(f"{len(left)} runs have no end")
                    return
                time.sleep(0.1)


PROMISES = (
    Promise(
        33,
        "SIGTERM ends what is under way, and loses nothing.",
        p33,
        "SIGTERM ends the process without draining",
        seconds_max=900,
    ),
)
