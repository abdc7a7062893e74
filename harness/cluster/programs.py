"""Processes below one folder: started, killed like a machine that fails, and never left behind.

Every process has its working folder below the scratch folder, so all of them are found, also the
servers that Patroni starts in sessions of their own.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.driver import say
from harness.processes import ROOT
from harness.waiting import comes_true
from testkit import postgres as launcher

END_SECONDS_MAX = 30
# The folder of a thousand tenants has more than ten gigabytes, perhaps on a slow disk.
REMOVED_SECONDS_MAX = 300
KILL_ROUNDS_MAX = 200
LOG_CHARS = 3000
POLL_SECONDS = 0.05


class NotReached(Exception):
    """A state was not reached in time; the message holds the end of a log."""


@dataclass(frozen=True)
class Program:
    """A process that was started here.

    Attributes:
        process: The process.
        log: The file with all its output.
    """

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def said(self) -> str:
        """The end of its output."""
        return self.log.read_text(errors="replace")[-LOG_CHARS:]

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal, and wait for the end; kill it if that takes too long."""
        self.process.send_signal(by)
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(END_SECONDS_MAX)


def start(
    folder: Path,
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    is_unprivileged: bool = False,
) -> Program:
    """Start a program in *folder*, which is created if it does not exist.

    Args:
        folder: Its working folder; its output is appended to the file ``log`` there.
        command: The program, and its arguments.
        environment: Its variables, besides the path.
        is_unprivileged: Whether it refuses to run as root.
    """
    folder.mkdir(exist_ok=True)
    run_as: dict[str, Any] = launcher.unprivileged(folder) if is_unprivileged else {"cwd": folder}
    run_as["env"] = {"PATH": f"{os.defpath}:/usr/sbin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    run_as["env"] |= environment or {}
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **run_as
        )
    return Program(process, log)


def wait_until(
    holds: Callable[[], bool], seconds: float, what: str, program: Program | None = None
) -> None:
    """Wait until *holds* returns true.

    Raises:
        NotReached: It does not within *seconds*, or *program* has ended.
    """

    def has_ended() -> bool:
        return program is not None and not program.is_running

    if not comes_true(lambda: has_ended() or holds(), seconds) or has_ended():
        said = f":\n{program.said}" if program else ""
        raise NotReached(f"{what}: not within {seconds:g} s{said}")


def kill_below(folder: Path) -> None:
    """Kill every process whose working folder is below *folder*: the machine has failed.

    They are stopped first, so that none of them notices the death of another one.
    """
    for _ in range(KILL_ROUNDS_MAX):
        found = _below(folder)
        if not found:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(POLL_SECONDS)
    raise NotReached(f"Processes below {folder} could not be killed.")


def stop_below(folder: Path) -> None:
    """Stop every process whose working folder is below *folder*: the machine hangs."""
    for pid in _below(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def continue_below(folder: Path) -> None:
    """Continue what `stop_below` has stopped."""
    for pid in _below(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def scratch(parent: Path | None) -> Iterator[Path]:
    """Yield a new folder; after the block, its processes and the folder are gone.

    Another process does the same if this one is killed.
    """
    folder = Path(tempfile.mkdtemp(prefix="tenantry-cluster-", dir=parent))
    folder.chmod(0o755)
    guard = subprocess.Popen(
        [sys.executable, "-m", "harness.cluster.programs", folder],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield folder
    finally:
        try:
            guard.communicate(timeout=REMOVED_SECONDS_MAX)
        except subprocess.TimeoutExpired:  # no reason to lose the result
            say(f"{folder} is still being removed")


def _below(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if (entry / "cwd").resolve(strict=True).is_relative_to(folder):
                    found.append(int(entry.name))
    return [pid for pid in found if not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


if __name__ == "__main__":
    sys.stdin.buffer.read()
    kill_below(Path(sys.argv[1]))
    shutil.rmtree(sys.argv[1], ignore_errors=True)
