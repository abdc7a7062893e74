"""Clocks that jump: P35."""

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.api import HISTORY, MIGRATE_ALL, MODULES, TENANTS, as_admin, bearer, key_of
from harness.fleet.fleets import ENGINES, Fleet, make_fleet
from harness.processes import Process
from harness.prove.calls import Answer, Line, login
from harness.prove.login import WRONG
from harness.prove.promise import Figure, NotShown, Promise, Stage
from harness.world import PASSWORD, Tenant, World
from tenantry.kit.clock import utc_now

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")

HOUR = 3_600

LOGIN_AGAIN_SECONDS_MAX = 30.0


def p35(stage: Stage) -> Figure:
    """Move the clock of the process by an hour, forwards and back, between steps and in a run."""
    if not FAKETIME.exists():
        raise NotShown("libfaketime is not installed (Debian: libfaketime)")
    rounds = stage.size(5, 1)
    faults: list[str] = []
    waits: list[float] = []
    for engine in ENGINES:
        url = stage.postgres.url if engine == "postgresql" else None
        fleet = make_fleet(stage.folder / f"clock-{engine}", 20, server_url=url)
        world = replace(fleet.ours.world, environment=dict(fleet.environment))
        clock = _Clock(stage.folder / f"clock-{engine}.rc")
        with stage.serving(world, **clock.variables, login_tries="5") as process:
            for _ in range(rounds):
                jumps = _Jumps(world, process, clock, fleet, faults)
                waits.append(asyncio.run(jumps.run()))
    return Figure(
        done=f"{rounds} times on each engine: the clock +1 h and -1 h between login and use, while "
        "guesses are counted, before and after the end of McpTokens, in the middle of a run",
        found=f"{len(faults)} tokens past their end, runs that end before they begin, or users "
        f"kept out; logins again within {max(waits):.0f} s",
        faults=faults,
    )


class _Clock:
    """The clock of a process, moved from outside (libfaketime)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.variables = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.set(0)

    def set(self, seconds: int) -> None:
        """Let the clock be *seconds* ahead of the real one."""
        following = self._path.with_suffix(".new")
        following.write_text(f"{seconds:+d}s\n")
        following.replace(self._path)


@dataclass
class _Jumps:
    """One round of jumps."""

    world: World
    process: Process
    clock: _Clock
    fleet: Fleet
    faults: list[str]

    async def run(self) -> float:
        tenant = self.world.tenants[0]
        async with Line(self.process.port) as line:
            await self._check_token(line, tenant)
            await self._check_mcp_token(line, tenant)
            waited = await self._check_guesses(line, tenant)
            for seconds in (-HOUR, HOUR):
                await self._check_run(line, seconds)
        return waited

    async def _expect(
        self, line: Line, headers: dict[str, str], statuses: set[int], when: str
    ) -> None:
        answer = await line.get(MODULES, headers=headers)
        if answer.status not in statuses:
            self.faults.append(f"{when}: {answer}")

    async def _check_token(self, line: Line, tenant: Tenant) -> None:
        entered = await login(line, tenant, tenant.users[0].email, PASSWORD)
        own = key_of(tenant) | bearer(entered.data["token"])
        await self._expect(line, own, {200}, "a token at once")
        self.clock.set(HOUR - 60)
        await self._expect(line, own, {200}, "a token a minute before its end")
        self.clock.set(HOUR + 31)
        await self._expect(line, own, {401}, "a token past its end")
        late = await login(line, tenant, tenant.users[0].email, PASSWORD)
        self.clock.set(0)
        await self._expect(line, own, {200}, "the token when the clock is right again")
        # One from an hour ahead may be refused until then; it must not break anything.
        await self._expect(
            line, key_of(tenant) | bearer(late.data["token"]), {200, 401}, "a token of the future"
        )

    async def _check_mcp_token(self, line: Line, tenant: Tenant) -> None:
        ends = utc_now() + timedelta(minutes=10)
        path = f"{TENANTS}/{tenant.id}/mcp-tokens"
        body = {"name": "clock", "expiresAt": ends.isoformat()}
        issued = await line.post(path, body, headers=as_admin(self.world))
        own = {"x-mcp-token": issued.data["token"]}
        for seconds, statuses in ((590, {200}), (602, {401}), (HOUR, {401}), (0, {200})):
            self.clock.set(seconds)
            await self._expect(line, own, statuses, f"an McpToken of 10 minutes at +{seconds} s")

    async def _check_guesses(self, line: Line, tenant: Tenant) -> float:
        self.clock.set(HOUR)
        for _ in range(3):
            await login(line, tenant, tenant.users[0].email, WRONG)
        self.clock.set(0)
        began = time.monotonic()
        while True:
            answer = await login(line, tenant, tenant.users[0].email, PASSWORD)
            waited = time.monotonic() - began
            if answer.ok:
                return waited
            pause = int(answer.said.get("retry-after", "1"))
            if waited + pause > LOGIN_AGAIN_SECONDS_MAX:
                self.faults.append(f"a user is kept out for {pause} s: {answer}")
                return waited + pause
            await asyncio.sleep(pause)

    async def _check_run(self, line: Line, seconds: int) -> None:
        await asyncio.to_thread(self.fleet.undo)
        calling = asyncio.create_task(line.post(MIGRATE_ALL, headers=as_admin(self.world)))
        await asyncio.sleep(0.05)
        self.clock.set(seconds)
        answer: Answer = await calling
        self.clock.set(0)
        if not answer.ok or answer.data["failed"]:
            self.faults.append(f"a run while the clock moved by {seconds} s: {answer}")
        listed = await line.get(f"{HISTORY}?pageSize=1", headers=as_admin(self.world))
        run: dict[str, Any] = listed.data["items"][0]
        pairs = [(run["startedAt"], run["finishedAt"])]
        pairs += [(one.get("startedAt"), one.get("finishedAt")) for one in run["details"]]
        for began, ended in pairs:
            if began and ended and began > ended:
                self.faults.append(f"moved by {seconds} s: began {began}, ended {ended}")


PROMISES = (
    Promise(
        35, "A wrong clock breaks neither order nor access.", p35, "every token lasts another hour"
    ),
)
