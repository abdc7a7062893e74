"""The preloaded library that lets calls fail: how it is built, armed and read."""

import ctypes
import errno
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

KINDS = ("open", "write", "pwrite", "fsync", "fdatasync", "rename", "ftruncate", "send")
"""In the order of `shim.c`."""
SHORT = -1
"""Instead of an error: half of the bytes are written, and the call succeeds."""
UNANSWERED = -2
"""The message is sent, and then the connection breaks: its answer is lost."""
NAMES = {SHORT: "short", UNANSWERED: "unanswered"}
ERRORS = {
    "open": (errno.EMFILE, errno.EIO),
    "write": (errno.ENOSPC, errno.EIO, SHORT),
    "pwrite": (errno.ENOSPC, errno.EIO, SHORT),
    "fsync": (errno.EIO, errno.ENOSPC),
    "fdatasync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
    "ftruncate": (errno.EIO,),
    "send": (errno.ECONNRESET, UNANSWERED),
}
PATH_MAX = 4096
RECORD = struct.Struct(f"{len(KINDS)}qq{PATH_MAX}s")


@dataclass(frozen=True)
class Failing:
    """Which calls fail.

    Attributes:
        kind: One of `KINDS`.
        number: Which call of this kind, from 1.
        error: An `errno`, `SHORT` or `UNANSWERED`.
        lasts: Whether all later calls of this kind fail, too.
    """

    kind: str
    number: int
    error: int
    lasts: bool = False

    def __str__(self) -> str:
        """Return it for people."""
        name = NAMES.get(self.error) or errno.errorcode[self.error]
        return f"{self.kind} {self.number}{' and later' if self.lasts else ''}: {name}"


@dataclass(frozen=True)
class Record:
    """What the library has counted.

    Attributes:
        counts: Of the calls, by kind.
        failed: How many have failed.
        path: The file of the first of them.
    """

    counts: dict[str, int]
    failed: int
    path: str


def build(folder: Path) -> Path:
    """Build the library; return its path.

    Raises:
        FileNotFoundError: There is no gcc.
        subprocess.CalledProcessError: It cannot be compiled.
    """
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def clear(file: Path) -> None:
    """Make an empty record."""
    file.write_bytes(bytes(RECORD.size))


def read(file: Path) -> Record:
    """Return what was counted."""
    *counts, failed, path = RECORD.unpack(file.read_bytes())
    counted = dict(zip(KINDS, counts, strict=True))
    return Record(counted, failed, path.partition(b"\0")[0].decode())


def arm(folder: str, port: int, record: str, failing: Failing | None) -> None:
    """Count calls from now on, and let one fail. For the preloaded process.

    Args:
        folder: Calls on the files below it are counted.
        port: And messages to the server at this port of this machine; 0 if there is none.
        record: The file of the counts.
        failing: What fails.

    Raises:
        OSError: The record cannot be opened.
    """
    wanted = failing or Failing(KINDS[0], 0, 0)
    done = ctypes.CDLL(None).faults_arm(
        folder.encode(),
        port,
        record.encode(),
        KINDS.index(wanted.kind),
        ctypes.c_long(wanted.number),
        wanted.error,
        int(wanted.lasts),
    )
    if done != 0:
        raise OSError(f"{record} cannot be opened")
