"""``make writers``: many writers of the same posts; end with 1 if a text is lost or shown early."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from harness.driver import begin, say, seed_of
from harness.fleet.fleets import ENGINE_NAMES
from harness.world import Size, make_world
from harness.writers.rounds import FAR, Found, Rounds
from testkit.postgres import find_binaries, own_server

ROUNDS = 1_000


def main(arguments: Sequence[str]) -> int:
    """Play on both engines as *arguments* say; return the exit status."""
    options = _parser().parse_args(arguments)
    begin()
    seed = seed_of(options)
    faults = 0
    with ExitStack() as stack:
        urls = {"sqlite": "", "postgresql": stack.enter_context(own_server()).url}
        for engine, url in urls.items():
            began = time.monotonic()
            found = play(url, seed, rounds=options.rounds)
            faults += len(found.faults)
            say(f"{ENGINE_NAMES[engine]} ({time.monotonic() - began:.0f} s): {told(found)}")
    return 1 if faults else 0


def play(server_url: str, seed: str, *, rounds: int) -> Found:
    """Play so many rounds on one engine; return what they have found.

    Args:
        server_url: Of a superuser of PostgreSQL; empty for SQLite.
        seed: Of every choice; moments depend on the machine.
        rounds: How many.
    """
    with tempfile.TemporaryDirectory(prefix="tenantry-writers-") as name:
        folder = Path(name)
        world = make_world(folder / "world", Size(1, 3), server_url=server_url or None)
        environment = {
            **world.environment,
            "TENANTRY_TENANT_SERVERS": json.dumps({FAR: server_url or f"sqlite:///{folder}/far"}),
        }
        if server_url:
            environment["TENANTRY_PG_TOOLS"] = str(find_binaries())
        played = Rounds(replace(world, environment=environment), folder, seed)
        return asyncio.run(played.play(rounds))


def told(found: Found) -> str:
    """Return what the rounds have found, for people."""
    lines = [
        f"{found.changes.total():,} changes, {found.sights:,} sights of readers, "
        + ", ".join(f"{count} {what}" for what, count in sorted(found.events.items())),
        *(f"  {count:,} {what}" for what, count in sorted(found.changes.items())),
        *(f"FAULT: {one}" for one in found.faults),
        f"faults: {len(found.faults)}",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make writers", description=__doc__)
    parser.add_argument("--seed", help="of the choices, as it was printed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
