"""A promise, what its scenario has found, and what a scenario works with."""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from harness import postgres
from harness.processes import ROOT, SOURCE, Process, serving
from harness.world import Size, World, make_world
from testkit.postgres import Server, own_server

Value = TypeVar("Value")

FAULTS = "PROVE_FAULTS"
SITE = ROOT / "harness" / "prove" / "site"
FAULTS_SHOWN_MAX = 5
TEXT_CHARS_MAX = 200
# Scenarios are about other limits than these: thousands of requests come from one address.
GENEROUS: Mapping[str, str] = {
    "login_tries": "100",
    "login_account_hourly": "1000000",
    "login_address_minutely": "1000000",
    "requests_per_minute": "100000000",
}


class NotShown(Exception):
    """This machine cannot show it; the message says why."""


@dataclass(frozen=True)
class Figure:
    """What a scenario has found.

    Attributes:
        done: What was done, with its size.
        found: What was seen.
        faults: What did not hold; empty when the promise held.
    """

    done: str
    found: str
    faults: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The figure, and the first faults, on one line."""
        shown = [one.replace("\n", " ")[:TEXT_CHARS_MAX] for one in self.faults[:FAULTS_SHOWN_MAX]]
        more = len(self.faults) - len(shown)
        return "; ".join([self.found, *shown, *([f"and {more} more faults"] if more > 0 else [])])


@dataclass(frozen=True)
class Stage:
    """What a scenario works with.

    Attributes:
        folder: Its own, empty.
        chance: Chooses moments.
        short: Whether the small version is asked for.
        faults: Names of the faults that are planted into every process of the scenario.
    """

    folder: Path
    chance: random.Random
    short: bool
    faults: Sequence[str]
    _stack: ExitStack = field(default_factory=ExitStack)

    def size(self, whole: Value, short: Value) -> Value:
        """Return the size of this run."""
        return short if self.short else whole

    @functools.cached_property
    def postgres(self) -> Server:
        """A PostgreSQL server of this scenario, which may be stopped and started."""
        return self._stack.enter_context(own_server())

    def close(self) -> None:
        """End the PostgreSQL server, if one was started."""
        self._stack.close()

    def world(
        self, engine: str, tenants: int, users: int = 1, *, name: str = "world", **urls: str
    ) -> World:
        """Return a new world: tenants with users and their tokens, and an admin.

        Args:
            engine: One of `ENGINES`.
            tenants: How many.
            users: Of each tenant.
            name: Of its folder.
            urls: ``server_url`` and ``catalog_url`` of a PostgreSQL server, if not our own.
        """
        folder = self.folder / f"{engine}-{name}"
        if engine == "sqlite":
            return make_world(folder, Size(tenants, users))
        urls.setdefault("server_url", self.postgres.url)
        return make_world(folder, Size(tenants, users), **urls)

    def new_database(self) -> str:
        """Create an empty database on our PostgreSQL server, and return its URL."""
        return postgres.new_catalog(self.postgres.url)

    def serving(
        self, world: World, *instruments: str, **settings: str
    ) -> AbstractContextManager[Process]:
        """Run ``tenantry serve`` over *world* until the block ends.

        Args:
            world: That it serves.
            instruments: Named in `harness.prove.plants`, to observe the process.
            settings: That differ from the defaults; a name in capitals is a variable.
        """
        return serving(self.folder, self.environment(world, *instruments, **settings))

    def environment(self, world: World, *instruments: str, **settings: str) -> dict[str, str]:
        """Return the variables of a process over *world*, with the planted faults."""
        added = {
            name if name.isupper() else f"TENANTRY_{name.upper()}": value
            for name, value in {**GENEROUS, **settings}.items()
        }
        return {**world.environment, **added, **planting(*self.faults, *instruments)}


def planting(*names: str) -> dict[str, str]:
    """Return the variables that plant faults and instruments into a process."""
    if not names:
        return {}
    path = ":".join(map(str, (SITE, SOURCE, ROOT)))
    return {FAULTS: ",".join(names), "PYTHONPATH": path}


@dataclass(frozen=True)
class Promise:
    """A promise and its scenario.

    Attributes:
        number: As ``3`` in P3.
        sentence: What is promised.
        check: Its scenario.
        seconds_max: Of the whole scenario; one that takes longer does not hold.
        plant: What the planted fault is; its code is in `harness.prove.plants`.
    """

    number: int
    sentence: str
    check: Callable[[Stage], Figure]
    plant: str
    seconds_max: int = 300

    @property
    def name(self) -> str:
        """As ``P3``."""
        return f"P{self.number}"
