"""Runs a target of `make`: chooses by name, bounds the time, keeps the seed, prints, records."""

import argparse
import faulthandler
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.finding import Finding
from harness.report import page, put_into
from tenantry.kit.clock import utc_now

WRONG_USE = 2
TRACE_LINES = 8


@dataclass(frozen=True)
class Target:
    """A target of `make`.

    Attributes:
        name: Such as ``torture``.
        document: Where its table is recorded.
        variables: The variables of `make`, by the options that they set.
        rest: The variable of `make` that holds the other options.
        records_parts: Whether a part of it may be recorded.
    """

    name: str
    document: Path
    variables: Mapping[str, str]
    rest: str
    records_parts: bool = False

    def parser(self, description: str | None, names: Iterable[str]) -> argparse.ArgumentParser:
        """Return a parser of the options that every target has."""
        parser = argparse.ArgumentParser(prog=f"make {self.name}", description=description)
        parser.add_argument(
            "--only", default="", help=f"beginnings, with commas between: {', '.join(names)}"
        )
        parser.add_argument("--short", action="store_true", help="a small version of everything")
        parser.add_argument("--record", action="store_true", help="write it into the document")
        return parser

    def choose(self, options: argparse.Namespace, names: Sequence[str]) -> list[str]:
        """Return the *names* that the options choose; nothing, with a message, if wrong."""
        prefixes = tuple(options.only.split(","))
        chosen = [one for one in names if one.startswith(prefixes)]
        if not chosen:
            say(f"Nothing begins with {options.only}; there are {', '.join(names)}.")
        if not options.record or self.records_parts:
            return chosen
        if len(chosen) == len(names) and not options.short:
            return chosen
        say("Only a whole run is recorded: all of it, and not the short version.")
        return []

    def command(self, options: argparse.Namespace) -> str:
        """Return what was typed, as `make` takes it."""
        given = {name: value for name, value in vars(options).items() if value}
        words = [f"{v}={_text(given[name])}" for name, v in self.variables.items() if name in given]
        more = " ".join(
            f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            for name, value in given.items()
            if name not in self.variables
        )
        return shlex.join(["make", self.name, *words, *([f"{self.rest}={more}"] if more else [])])

    def about(self, options: argparse.Namespace, *more: str) -> str:
        """Return the first line of the record: when, and what was typed."""
        date = f"{utc_now():%Y-%m-%d %H:%M} UTC"
        return ", ".join([date, f"`{self.command(options)}`", *more])

    def conclude(
        self,
        options: argparse.Namespace,
        about: Sequence[str],
        columns: Sequence[str],
        found: Sequence[Finding],
    ) -> int:
        """Print what was found, record it if that is wanted, and return the exit status."""
        lines = [line for one in found for line in one.lines]
        text = page(about, columns, [one.cells for one in found], lines)
        print(text)
        if options.record:
            put_into(self.document, self.name, text)
        return 1 if any(one.faults for one in found) else 0


def say(text: str) -> None:
    """Print a line about the progress."""
    print(text, file=sys.stderr, flush=True)


def begin(seconds_max: int | None = None) -> None:
    """End on SIGTERM with everything that was begun; and by force after *seconds_max*."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if seconds_max is not None:
        faulthandler.dump_traceback_later(seconds_max, exit=True)


def seed_of(options: argparse.Namespace) -> str:
    """Return the seed of what is left to chance, and print it."""
    seed: str = options.seed or secrets.token_hex(4)
    say(f"seed {seed}")
    return seed


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block when *seconds* are over: what hangs is a fault."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def find(name: str, check: Callable[[], list[Finding]], seconds_max: int) -> list[Finding]:
    """Return what *check* finds; a fault if it raises, so that the others are still tried."""
    began = time.monotonic()
    try:
        with at_most(seconds_max):
            found = check()
    except Exception:  # noqa: BLE001 - whatever it is
        trace = traceback.format_exc().splitlines()[-TRACE_LINES:]
        found = [
            Finding(name=name, check=name, must="", found="it could not be done", faults=trace)
        ]
    for one in found:
        say(f"{one.name} ({time.monotonic() - began:.0f} s): {one.found}: {one.mark}")
        for line in one.lines:
            say(f"  {line}")
    return found


@contextmanager
def scratch(name: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, which is gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"tenantry-{name}-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _text(value: object) -> str:
    return "1" if value is True else str(value)
