"""Runs programs in processes whose calls can fail."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
        process: The one that forks them.
        folder: For what they write.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(
        self,
        arguments: tuple[str, ...],
        variables: Mapping[str, str],
        watched: Path,
        failing: Failing | None = None,
    ) -> Outcome:
        """Run a program to its end.

        Args:
            arguments: Of `tenantry`, or of another program; see `Request`.
            variables: Its settings.
            watched: The folder of the files whose calls fail, and where it runs.
            failing: What fails.
        """
        record, output, errors = (self._folder / name for name in ("record", "output", "errors"))
        shim.clear(record)
        request = Request(
            arguments=list(arguments),
            environment=dict(variables),
            folder=str(watched),
            watched=str(watched),
            record=str(record),
            output=str(output),
            errors=str(errors),
            failing=failing,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        texts = (path.read_text(errors="replace") for path in (output, errors))
        return Outcome(status, *texts, shim.read(record))


@contextmanager
def preloaded(folder: Path) -> Iterator[Programs]:
    """Yield what runs programs, with the library built and preloaded, until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    library = shim.build(folder)
    command = [sys.executable, "-m", "harness.faults.preloaded"]
    variables = environment() | {"LD_PRELOAD": str(library)}
    with subprocess.Popen(
        command, cwd=folder, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Programs(process, folder)
        finally:
            process.kill()
