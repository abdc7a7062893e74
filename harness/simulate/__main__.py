"""``make simulate``: play histories for some seconds; end with 1 if something did not hold."""

import argparse
import multiprocessing
import os
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.pool import AsyncResult

from harness.simulate.clock import install

install()  # before all others: they keep the functions that they import

from harness.simulate import image  # noqa: E402
from harness.simulate.batch import HISTORIES, Failure, Player, Report  # noqa: E402
from harness.simulate.history import events_of  # noqa: E402
from harness.simulate.planted import FAULTS  # noqa: E402
from tenantry.kit import log  # noqa: E402

HASH_SEED = "PYTHONHASHSEED"
SECONDS = 60.0
FAULT_SECONDS_MAX = 60.0
SEEDS = 20
"""With so many seeds, each planted fault is looked for."""
PROCESSES = min(os.cpu_count() or 1, 8)


def main(arguments: Sequence[str]) -> int:
    """Play histories as *arguments* say; return the exit status."""
    options = _parser().parse_args(arguments)
    # Levels are those of the service: thousands of expected failures are no news.
    log.configure(log_format="json", level="critical")
    made = image.make()
    if options.seed and "-" in options.seed:
        return _replay(made, options.seed, options.fault)
    if options.faults:
        return _find_faults(made, short=options.short)
    return _search(made, options.seed or secrets.token_hex(4), options)


def _search(made: bytes, base: str, options: argparse.Namespace) -> int:
    began = time.monotonic()
    histories = steps = 0
    for report in _reports(made, base, options.fault, options.seconds):
        histories += report.histories
        steps += report.steps
        seconds = time.monotonic() - began
        _say(f"{seconds:4.0f} s, {histories} histories, {steps} steps", end="\r")
        if report.failure is not None:
            _say("")
            _print(report.failure)
            return 1
    print(f"seed {base}: {histories} histories, {steps} steps, 0 faults")
    return 0


def _find_faults(made: bytes, *, short: bool) -> int:
    """Plant each fault, and look for it with several seeds; return the exit status."""
    missed = 0
    for name in FAULTS:
        took: list[float] = []
        for number in range(2 if short else SEEDS):
            began = time.monotonic()
            reports = _reports(made, f"{name}{number}", name, FAULT_SECONDS_MAX)
            if any(one.failure is not None for one in reports):
                took.append(time.monotonic() - began)
            else:
                missed += 1
        slowest = f"{max(took):.1f} s at most" if took else "never"
        about = (FAULTS[name].__doc__ or "").strip()
        print(f"{name}: {about} Found {len(took)} times, in {slowest}.", flush=True)
    return 1 if missed else 0


def _reports(made: bytes, base: str, fault: str | None, seconds: float) -> Iterator[Report]:
    """Yield the reports of batches, up to the first failure, for some seconds."""
    until = time.monotonic() + seconds
    waiting: list[AsyncResult[Report]] = []
    first = 0
    # A process for each batch: see `History`.
    with multiprocessing.get_context("fork").Pool(PROCESSES, maxtasksperchild=1) as pool:
        while time.monotonic() < until or waiting:
            while len(waiting) < PROCESSES and time.monotonic() < until:
                waiting.append(pool.apply_async(_batch, (made, base, first, fault, until)))
                first += HISTORIES
            report = waiting.pop(0).get()
            yield report
            if report.failure is not None:
                return


def _batch(made: bytes, base: str, first: int, fault: str | None, until: float) -> Report:
    return Player(made, fault).batch(base, first, until)


def _replay(made: bytes, seed: str, fault: str | None) -> int:
    result = Player(made, fault).play(seed, events_of(seed), print)
    print(f"seed {seed}: {result.steps} steps, {result.fault or 'no fault'}", flush=True)
    os._exit(1 if result.fault else 0)  # what the history has left must not run on


def _print(failure: Failure) -> None:
    print(f"seed {failure.seed}: {failure.fault}. These events are enough:")
    for event in failure.events:
        print(event)
    print(f"Show each step with: make simulate SEED={failure.seed}")


def _say(text: str, end: str = "\n") -> None:
    if sys.stderr.isatty() or end == "\n":
        print(text, end=end, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", help="of a search; or of one history, such as 1a2b3c4d-17")
    parser.add_argument("--fault", choices=FAULTS, help="plant this fault")
    parser.add_argument("--faults", action="store_true", help="plant each fault, and find it")
    parser.add_argument("--short", action="store_true", help="with --faults: two seeds for each")
    return parser


if __name__ == "__main__":
    # The order of sets depends on it, and so what a seed plays.
    if os.environ.get(HASH_SEED) != "0":
        os.execve(  # noqa: S606 - itself
            sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, HASH_SEED: "0"}
        )
    sys.exit(main(sys.argv[1:]))
