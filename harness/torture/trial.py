"""What a check works with."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from harness.finding import Finding
from harness.fleet.fleets import ENGINES
from harness.torture.scale import Scale


@dataclass(frozen=True)
class Trial:
    """What a check works with.

    Attributes:
        folder: For its files.
        server_url: Of a superuser on PostgreSQL.
        scale: How much is done.
        chance: Chooses moments.
    """

    folder: Path
    server_url: str
    scale: Scale
    chance: random.Random

    def url_on(self, engine: str) -> str | None:
        """Return the URL of the tenant server: None is SQLite."""
        return self.server_url if engine == "postgresql" else None

    def on_both(self, check: Callable[["Trial", str], Finding]) -> list[Finding]:
        """Return what *check* finds on both engines, at the same time: they disturb each other."""
        # Each has its own chance, so that it does not matter which engine is the quicker.
        own = [self.with_chance(f"{self.chance.random()} {one}") for one in ENGINES]
        with ThreadPoolExecutor(len(ENGINES)) as threads:
            return list(threads.map(check, own, ENGINES))

    def with_chance(self, seed: str) -> "Trial":
        """Return the same with a chance of its own."""
        return replace(self, chance=random.Random(seed))  # noqa: S311 - it chooses moments
