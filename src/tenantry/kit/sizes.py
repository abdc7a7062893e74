"""Sizes in bytes as text, and the free space of a file system."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_BYTES_MAX = 10**15
# Of a tenant: an empty database has 8 MB on PostgreSQL.
LIMIT_BYTES_MIN = 16 * 10**6
# Without a mark in the settings.
MARK_BYTES_DEFAULT = 10**9
MARK_PERCENT_DEFAULT = 10
MARK_PERCENT_MAX = 90
_SIZE = re.compile(r"([0-9]{1,15}) ?([KMGT]?B)?", re.IGNORECASE)
_PERCENT = re.compile(r"([0-9]{1,2}) ?%")


def bytes_of(text: str) -> int:
    """Return the number of bytes of a size such as ``500MB`` or ``10 GB``, in powers of 1,000.

    Raises:
        ValueError: It is no size, or more than `SIZE_BYTES_MAX`.
    """
    found = _SIZE.fullmatch(text.strip())
    number = int(found[1]) * UNITS[(found[2] or "").upper()] if found else SIZE_BYTES_MAX + 1
    if number > SIZE_BYTES_MAX:
        raise ValueError("must be a size such as 500MB or 10GB, at most 1000TB")
    return number


def shown_size(number: int) -> str:
    """Return a number of bytes with a unit: ``10 GB``, ``1.5 MB``."""
    unit = next((unit for unit in ("TB", "GB", "MB", "kB") if number >= UNITS[unit.upper()]), "B")
    return f"{number / UNITS[unit.upper()]:.4g} {unit}"


@dataclass(frozen=True, slots=True)
class FreeSpaceMark:
    """The free space that content must leave on a file system.

    Attributes:
        size_bytes: The least of both is the mark.
        percent: Of the file system.
    """

    size_bytes: int
    percent: float

    @property
    def is_off(self) -> bool:
        """Whether nothing must be left."""
        return not (self.size_bytes and self.percent)

    @property
    def half(self) -> "FreeSpaceMark":
        """Half of the mark."""
        return FreeSpaceMark(self.size_bytes // 2, self.percent / 2)

    def bytes_in(self, total_bytes: int) -> int:
        """Return the mark of a file system of this size, in bytes."""
        return min(self.size_bytes, int(total_bytes * self.percent / 100))


NO_MARK = FreeSpaceMark(0, 0)


def mark_of(text: str) -> FreeSpaceMark:
    """Return the mark of a text such as ``2GB``, ``5%``, ``0`` for none, or empty for the default.

    Raises:
        ValueError: It is neither.
    """
    if not text.strip():
        return FreeSpaceMark(MARK_BYTES_DEFAULT, MARK_PERCENT_DEFAULT)
    percent = _PERCENT.fullmatch(text.strip())
    if percent is None:
        return FreeSpaceMark(bytes_of(text), MARK_PERCENT_MAX)
    if int(percent[1]) > MARK_PERCENT_MAX:
        raise ValueError(f"must be at most {MARK_PERCENT_MAX}%")
    return FreeSpaceMark(SIZE_BYTES_MAX, int(percent[1]))


def space_above(folder: Path, mark: FreeSpaceMark) -> int:
    """Return how many bytes may be written until only *mark* is free; negative if less is.

    It blocks: call it in a thread.

    Raises:
        OSError: *folder* cannot be read.
    """
    found = os.statvfs(folder)
    return found.f_frsize * found.f_bavail - mark.bytes_in(found.f_frsize * found.f_blocks)
