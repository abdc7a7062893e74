"""Runs programs in processes whose calls can fail."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from harness.faults import shim
from harness.faults.preloaded import Request
from harness.faults.shim import Failing, Record
from harness.processes import environment


@dataclass(frozen=True)
class Outcome:
    """What a program has done.

    Attributes:
        status: Its exit status; negative if a signal has ended it.
        output: Its standard output.
        errors: Its standard error.
        record: The calls.
    """

    status: int
    output: str
    errors: str
    record: Record


class Programs:
    """Runs programs, one at a time.

    Args:
        requests: Where each `Request` is written.
        statuses: Where the exit statuses are read.
        folder: For what the programs write.
    """

    def __init__(self, requests: IO[bytes], statuses: IO[bytes], folder: Path) -> None:
        self._requests, self._statuses = requests, statuses
        self._folder = folder

    def run(
        self,
        arguments: tuple[str, ...],
        variables: Mapping[str, str],
        watched: Path,
        port: int,
        failing: Failing | None = None,
    ) -> Outcome:
        """Run a program to its end.

        Args:
            arguments: Of `tenantry`, or of another program; see `Request`.
            variables: Its settings.
            watched: The folder of the files whose calls fail, and where it runs.
            port: Of the server whose connections break; 0 if there is none.
            failing: What fails.
        """
        record, output, errors = (self._folder / name for name in ("record", "output", "errors"))
        shim.clear(record)
        request = Request(
            arguments=list(arguments),
            environment=dict(variables),
            folder=str(watched),
            watched=str(watched),
            port=port,
            record=str(record),
            output=str(output),
            errors=str(errors),
            failing=failing,
        )
        self._requests.write(msgspec.json.encode(request) + b"\n")
        self._requests.flush()
        status = int(self._statuses.readline())
        texts = (path.read_text(errors="replace") for path in (output, errors))
        return Outcome(status, *texts, shim.read(record))


@contextmanager
def preloaded(folder: Path, count: int) -> Iterator[list[Programs]]:
    """Yield what runs programs, *count* at the same time, until the block ends.

    The library is built, and loaded before the C library.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = shim.build(folder)
    variables = environment() | {"LD_PRELOAD": str(library)}
    with ExitStack() as stack:
        made: list[Programs] = []
        pairs: list[tuple[int, int]] = []
        for number in range(count):
            source, requests = os.pipe()
            statuses, sink = os.pipe()
            own = folder / str(number)
            own.mkdir()
            files = (os.fdopen(requests, "wb"), os.fdopen(statuses, "rb"))
            made.append(Programs(*map(stack.enter_context, files), own))
            pairs.append((source, sink))
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.faults.preloaded", *(f"{a},{b}" for a, b in pairs)],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            pass_fds=[one for pair in pairs for one in pair],
        )
        for one in (one for pair in pairs for one in pair):
            os.close(one)
        try:
            yield made
        finally:
            stack.close()  # then it ends
            process.wait()
