"""``make simulate``: play histories for some seconds; end with 1 if something did not hold."""

import argparse
import math
import multiprocessing
import os
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path

from harness.simulate.clock import install

install()  # before all others: they keep the functions that they import

from harness.simulate import image  # noqa: E402
from harness.simulate.batch import HISTORIES, Failure, Player, Report  # noqa: E402
from harness.simulate.engine import Engine  # noqa: E402
from harness.simulate.history import Event, events_of  # noqa: E402
from harness.simulate.planted import FAULTS  # noqa: E402
from tenantry.kit import log  # noqa: E402

HASH_SEED = "PYTHONHASHSEED"
SECONDS = 60.0
FAULT_SECONDS_MAX = 60.0
SEEDS = 20
"""With so many seeds, each planted fault is looked for."""
WARM = "warm"
PROCESSES = min(os.cpu_count() or 1, 8)


def main(arguments: Sequence[str]) -> int:
    """Play histories as *arguments* say; return the exit status."""
    options = _parser().parse_args(arguments)
    # Levels are those of the service: thousands of expected failures are no news.
    log.configure(log_format="json", level="critical")
    Engine.is_verified = options.verify
    made = image.make()
    # Once, for all processes: what is compiled at its first use.
    Player(made, None).play(WARM, events_of(WARM))
    if options.events and options.events.is_dir():
        return _replay_all(made, options.events, options.fault)
    if options.events:
        seed = options.seed or options.events.stem
        return _replay(made, seed, Event.load(options.events.read_text()), options.fault)
    if options.seed and "-" in options.seed:
        return _replay(made, options.seed, events_of(options.seed), options.fault)
    if options.faults:
        return _find_faults(made, options.seeds, options.fault)
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


def _find_faults(made: bytes, seeds: int, only: str | None) -> int:
    """Plant each fault, or one, and look for it with several seeds; return the exit status."""
    missed = 0
    print(
        "| fault | found | seconds: median, longest | histories: median, most |\n|---|---|---|---|"
    )
    for name in [only] if only else FAULTS:
        found = _seek(made, name, seeds)
        missed += seeds - len(found)
        about = (FAULTS[name].__doc__ or "").strip()
        print(f"| {about} | {len(found)} of {seeds} | {_figures(found)} |", flush=True)
    return 1 if missed else 0


def _seek(made: bytes, fault: str, seeds: int) -> list[tuple[float, int]]:
    """Return after how many seconds and histories a planted fault was found with each seed.

    Seconds are those of one processor that does nothing else. After `FAULT_SECONDS_MAX` of them,
    the search with a seed ends.
    """
    todo = [(number, 0.0, 0) for number in range(seeds)]
    waiting: list[tuple[int, float, int, AsyncResult[Report]]] = []
    found: list[tuple[float, int]] = []
    with _pool() as pool:
        while todo or waiting:
            while todo and len(waiting) < PROCESSES:
                number, seconds, histories = todo.pop(0)
                task = (made, f"{fault}{number}", histories, fault, math.inf)
                waiting.append((number, seconds, histories, pool.apply_async(_batch, task)))
            number, seconds, histories, result = waiting.pop(0)
            report = result.get()
            seconds, histories = seconds + report.seconds, histories + report.histories
            if seconds > FAULT_SECONDS_MAX:
                continue
            if report.failure is not None:
                found.append((seconds, histories))
            else:
                todo.insert(0, (number, seconds, histories))
    return found


def _figures(found: Sequence[tuple[float, int]]) -> str:
    if not found:
        return "never | "
    seconds, histories = [one[0] for one in found], [one[1] for one in found]
    return (
        f"{statistics.median(seconds):.1f}, {max(seconds):.1f} | "
        f"{statistics.median(histories):.0f}, {max(histories):,}"
    )


def _reports(made: bytes, base: str, fault: str | None, seconds: float) -> Iterator[Report]:
    """Yield the reports of batches, up to the first failure, for some seconds."""
    until = time.monotonic() + seconds
    waiting: list[AsyncResult[Report]] = []
    first = 0
    with _pool() as pool:
        while time.monotonic() < until or waiting:
            while len(waiting) < PROCESSES and time.monotonic() < until:
                waiting.append(pool.apply_async(_batch, (made, base, first, fault, until)))
                first += HISTORIES
            report = waiting.pop(0).get()
            yield report
            if report.failure is not None:
                return


def _pool() -> Pool:
    """Return a pool with a process for each batch: see `History`."""
    return multiprocessing.get_context("fork").Pool(PROCESSES, maxtasksperchild=1)


def _batch(made: bytes, base: str, first: int, fault: str | None, until: float) -> Report:
    """Play a batch; without a limit of time, a failure is not shortened: the fault is planted."""
    return Player(made, fault).batch(base, first, until, shortens=until < math.inf)


def _replay(made: bytes, seed: str, events: list[Event], fault: str | None) -> int:
    result = Player(made, fault).play(seed, events, print)
    print(f"seed {seed}: {result.steps} steps, {result.fault or 'no fault'}", flush=True)
    os._exit(1 if result.fault else 0)  # what the history has left must not run on


def _replay_all(made: bytes, folder: Path, fault: str | None) -> int:
    """Play the histories in the files of a folder, named after their seeds; return the status."""
    tasks = [(made, path.stem, path.read_text(), fault) for path in sorted(folder.glob("*.json"))]
    if not tasks:
        sys.exit(f"There is no history (*.json) in {folder}.")
    with _pool() as pool:
        found = pool.starmap(_fault_of, tasks, chunksize=1)
    for (_, seed, *_), text in zip(tasks, found, strict=True):
        print(f"seed {seed}: {text or 'no fault'}")
    return 1 if any(found) else 0


def _fault_of(made: bytes, seed: str, events: str, planted: str | None) -> str | None:
    return Player(made, planted).play(seed, Event.load(events)).fault


def _print(failure: Failure) -> None:
    print(f"seed {failure.seed}: {failure.fault}. These events are enough:")
    for event in failure.events:
        print(event)
    print(f"Show each step with: make simulate SEED={failure.seed}")
    print("Later versions choose other events by a seed. With these in a file of that name:")
    print(f"make simulate EVENTS={failure.seed}.json")
    print(Event.dump(failure.events))


def _say(text: str, end: str = "\n") -> None:
    if sys.stderr.isatty() or end == "\n":
        print(text, end=end, file=sys.stderr, flush=True)


def _path(text: str) -> Path:
    if not (path := Path(text)).exists():
        raise argparse.ArgumentTypeError(f"there is no {text}")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", help="of a search; or of one history, such as 1a2b3c4d-17")
    parser.add_argument(
        "--events",
        type=_path,
        help="SEED.json with those of a history, as a failure prints them; or a folder of them",
    )
    parser.add_argument("--fault", choices=FAULTS, help="plant this fault")
    parser.add_argument("--faults", action="store_true", help="plant each fault, and find it")
    parser.add_argument(
        "--verify", action="store_true", help="run also the statements whose result is known"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="with --faults: for each")
    return parser


if __name__ == "__main__":
    # The order of sets depends on it, and so what a seed plays.
    if os.environ.get(HASH_SEED) != "0":
        os.execve(  # noqa: S606 - itself
            sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, HASH_SEED: "0"}
        )
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # what the histories have left must not run on
