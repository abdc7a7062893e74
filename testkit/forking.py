"""``python -m testkit.forking HANDLE``: forks a process for each program that is requested.

It has imported what the programs need, so that one starts in a tenth of the time. Each message of
the socket HANDLE is a `Request`, with the descriptors of the program's standard streams and of a
socket, to which the program's id and then its exit status are sent.
"""

import gc
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn

import msgspec

IMPORTED = (
    "alembic.command",
    "alembic.config",
    "asyncpg",
    "psycopg",
    "tenantry.app",
    "tenantry.cli.backups",
    "tenantry.cli.errors",
    "tenantry.cli.fleet",
    "tenantry.cli.main",
    "tenantry.cli.migrations",
    "tenantry.cli.printing.output",
    "tenantry.cli.serving.server",
    "tenantry.cli.tenants",
    "tenantry.services",
)
MESSAGE_BYTES_MAX = 2**17
STREAMS = 3


class Request(msgspec.Struct):
    """A program to run.

    Attributes:
        module: As after ``python -m``.
        arguments: Its other arguments.
        environment: All of its variables.
        folder: Where it runs.
    """

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str


def main(handle: int) -> None:
    """Serve requests until the other side is closed."""
    for name in IMPORTED:
        import_module(name)
    assert threading.active_count() == 1, threading.enumerate()  # a fork has one thread
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then nothing is left of a process that ends
    with socket.socket(fileno=handle) as source:
        while True:
            message, handles, _, _ = socket.recv_fds(source, MESSAGE_BYTES_MAX, STREAMS + 1)
            if not message:
                return
            if os.fork() == 0:
                source.close()
                _watch(msgspec.json.decode(message, type=Request), handles)
            _close(handles)


def _watch(request: Request, handles: Sequence[int]) -> NoReturn:
    """Start a program, and send its id and its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers = socket.socket(fileno=handles[STREAMS])
    pid = os.fork()
    if pid == 0:
        answers.close()
        _become(request, handles[:STREAMS])
    _close(handles[:STREAMS])
    answers.send(str(pid).encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    answers.send(str(status).encode())
    os._exit(0)


def _become(request: Request, streams: Sequence[int]) -> NoReturn:
    """Run the program in this process, as its end."""
    for name, handle in enumerate(streams):
        os.dup2(handle, name)
    _close(streams)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()  # noqa: TID251 - they are those of the program
    os.environ.update(request.environment)  # noqa: TID251
    os.chdir(request.folder)
    sys.path[0] = request.folder
    sys.argv = ["", *request.arguments]
    program = partial(runpy.run_module, request.module, run_name="__main__", alter_sys=True)
    end_with(program)


def end_with(program: Callable[[], object]) -> NoReturn:
    """Run a program, and end this process without what Python does last.

    Python clears all modules, which costs as much as the program.
    """
    status: object = 0
    try:
        program()
    except SystemExit as error:
        status = error.code
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


def _close(handles: Sequence[int]) -> None:
    for one in handles:
        os.close(one)


if __name__ == "__main__":
    main(int(sys.argv[1]))
