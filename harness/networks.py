"""Machines on one machine: network namespaces on a bridge, each with a cable that can be pulled."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NAMESPACES = Path("/run/netns")
COMMAND_SECONDS_MAX = 20


@dataclass(frozen=True)
class Networks:
    """Namespaces that reach each other and this process.

    Attributes:
        address: Of this process, as they see it.
        subnet: Of all of them.
        files: Of the namespaces.
        cables: The ends of their cables on this side.
    """

    address: str
    subnet: str
    files: Sequence[Path]
    cables: Sequence[str]

    def cut(self, number: int) -> None:
        """Pull a cable: packets get lost, and neither side gets an error."""
        _ip("link", "set", self.cables[number], "down")

    def heal(self, number: int) -> None:
        """Put the cable back."""
        _ip("link", "set", self.cables[number], "up")


def can_make() -> bool:
    """Return whether this process may create namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


@contextmanager
def networks(count: int) -> Iterator[Networks]:
    """Yield *count* new namespaces, which are gone after the block; it needs root."""
    mark = secrets.token_hex(3)
    third = secrets.randbelow(250) + 1  # other programs may do the same
    prefix, bridge = f"10.99.{third}", f"tn{mark}b"
    names = [f"tn{mark}n{number}" for number in range(count)]
    cables = [f"tn{mark}c{number}" for number in range(count)]
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{prefix}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, (name, cable) in enumerate(zip(names, cables, strict=True)):
            _ip("netns", "add", name)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", cable, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{prefix}.{number + 2}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield Networks(f"{prefix}.1", f"{prefix}.0/24", [NAMESPACES / one for one in names], cables)
    finally:
        for name in names:
            _ip("netns", "del", name, checks=False)
        _ip("link", "del", bridge, checks=False)


def _ip(*arguments: str, checks: bool = True) -> None:
    subprocess.run(
        ["ip", *arguments],  # noqa: S607 - it is in different folders
        check=checks,
        capture_output=True,
        timeout=COMMAND_SECONDS_MAX,
    )
