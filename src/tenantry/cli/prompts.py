"""Confirmation at the terminal, before something is deleted."""

import sys

from tenantry.fleet.lifecycle import NAME_CHARS_MAX
from tenantry.kit.errors import Invalid

# UTF-8 needs at most four bytes for a character, and the line its end.
NAME_BYTES_MAX = 4 * NAME_CHARS_MAX + 2


class NameMissing(Invalid):
    """What is to be deleted must be named exactly: say --name, or use a terminal to be asked."""


def ask_name(question: str) -> str:
    """Return what is answered to *question* at the terminal.

    Raises:
        NameMissing: There is nobody to ask, or nothing was said.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise NameMissing
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.buffer.readline(NAME_BYTES_MAX)
    name = line.decode(errors="replace").removesuffix("\n")
    if not name:
        raise NameMissing
    return name
