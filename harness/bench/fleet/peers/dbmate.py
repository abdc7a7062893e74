"""The program dbmate, which comes inside an npm package."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from harness.bench.fleet.peers.programs import in_turn, run
from harness.fleet.history import write_dbmate
from harness.processes import ROOT

PACKAGES = ROOT / ".node" / "node_modules"


class DbmateMissing(Exception):
    """The program is not there."""


class Project:
    """A directory of dbmate's with the whole history.

    Args:
        folder: Where it is made.
    """

    def __init__(self, folder: Path) -> None:
        self._migrations = write_dbmate(folder / "dbmate")

    def migrate(self, urls: Sequence[str], *, at_once: int) -> float:
        """Return the seconds that *urls* take with ``dbmate migrate`` for each."""
        fixed = ["--migrations-dir", str(self._migrations), "--no-dump-schema", "migrate"]

        def one(url: str) -> None:
            run([str(program()), "--url", f"{url}?sslmode=disable", *fixed])

        return in_turn(one, urls, at_once=at_once)


@functools.cache
def program() -> Path:
    """Return the program itself: its wrapper in JavaScript would only make it slower.

    Raises:
        DbmateMissing: It is not installed.
    """
    found = sorted(PACKAGES.glob("@dbmate/*/bin/dbmate"))
    if not found:
        raise DbmateMissing(f"There is no dbmate in {PACKAGES}: `make bench-fleet` brings it.")
    return found[0]


def version() -> str:
    """Return the version of the package."""
    return str(json.loads((PACKAGES / "dbmate" / "package.json").read_text())["version"])
