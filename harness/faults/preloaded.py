"""``python -m harness.faults.preloaded``: forks a process for each program that it is asked for.

It has imported what the programs need, and compiled their statements, so that one takes a tenth of
a second. Its arguments are pairs of descriptors, for what is asked at the same time: each line
read from the first is a `Request`; each line written to the second is an exit status.
"""

import gc
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path

import msgspec

from harness.faults import shim
from harness.faults.shim import Failing
from testkit.forking import end_with

IMPORTED = (
    "harness.faults.posting",
    "tenantry.cli.backups",
    "tenantry.cli.catalog_moving",
    "tenantry.cli.errors",
    "tenantry.cli.migrations",
    "tenantry.cli.printing.output",
    "tenantry.cli.tenants",
    "tenantry.services",
)


class Request(msgspec.Struct):
    """A program to run.

    Attributes:
        arguments: Of `tenantry`; or, after `POSTING`, of `harness.faults.posting`.
        environment: Its settings.
        folder: Where it runs.
        watched: The folder whose files are counted.
        port: Of the server whose messages are counted; 0 if there is none.
        record: What is counted is there.
        output: Where its standard output goes.
        errors: Where its standard error goes.
        failing: What fails, if anything.
    """

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    watched: str
    port: int
    record: str
    output: str
    errors: str
    failing: Failing | None = None


POSTING = "posting"


def main(pairs: Sequence[str]) -> None:
    """Serve requests from each pair of descriptors until they end."""
    for name in IMPORTED:
        import_module(name)
    _warm_up()
    for number, pair in enumerate(pairs):
        if os.fork() == 0:
            for other in pairs[number + 1 :]:
                os.close(int(other.partition(",")[2]))
            _serve(*map(int, pair.split(",")))
            return
        os.close(int(pair.partition(",")[2]))
    for _ in pairs:
        os.wait()


def _serve(requests: int, statuses: int) -> None:
    decoder = msgspec.json.Decoder(Request)
    with os.fdopen(requests, "rb") as source, os.fdopen(statuses, "w") as sink:
        for line in source:
            pid = os.fork()
            if pid == 0:
                end_with(partial(_run, decoder.decode(line)))
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            sink.write(f"{status}\n")
            sink.flush()


def _warm_up() -> None:
    """Do once what every program does first."""
    from harness.world import Size, make_world  # noqa: PLC0415 - after the imports
    from tenantry.cli.main import cli  # noqa: PLC0415

    before, out = dict(os.environ), StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(out), redirect_stderr(out):
        world = make_world(Path(folder) / "warm", Size(1, 1))
        os.environ.update(world.environment)
        for words in (["backup", "create", "--all"], ["migrate", "all"]):
            with suppress(SystemExit):
                cli(words)
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    assert threading.active_count() == 1, threading.enumerate()  # a fork has one thread
    gc.freeze()


def _run(request: Request) -> None:
    from tenantry.cli.main import main as tenantry  # noqa: PLC0415 - in the fork

    for name, path in ((0, os.devnull), (1, request.output), (2, request.errors)):
        flags = os.O_RDONLY if name == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = os.open(path, flags)
        os.dup2(handle, name)
        os.close(handle)
    os.environ.update(request.environment)
    os.chdir(request.folder)
    arming = (request.watched, request.port, request.record, request.failing)
    if request.arguments[0] == POSTING:
        from harness.faults import posting  # noqa: PLC0415 - in the fork

        posting.main(request.arguments[1], lambda: shim.arm(*arming))
        return
    sys.argv = ["tenantry", *request.arguments]
    shim.arm(*arming)
    tenantry()


if __name__ == "__main__":
    main(sys.argv[1:])
