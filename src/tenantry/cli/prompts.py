"""Confirmation at the terminal, before a deletion."""

import sys

from tenantry.access.emails import EMAIL_CHARS_MAX
from tenantry.fleet.lifecycle import NAME_CHARS_MAX
from tenantry.kit.errors import Invalid

# UTF-8 needs at most four bytes for a character, and the line its end.
ANSWER_BYTES_MAX = 4 * max(NAME_CHARS_MAX, EMAIL_CHARS_MAX) + 2


class ConfirmationMissing(Invalid):
    """Deletion requires a confirmation; the message names the option for it."""


def ask_to_confirm(question: str, *, option: str) -> str:
    """Return the answer to *question* at the terminal.

    Args:
        question: Printed to stderr.
        option: The option with the answer, for use without a terminal.

    Raises:
        ConfirmationMissing: There is no terminal, or the answer is empty.
    """
    missing = ConfirmationMissing(f"Confirm with {option}, or run this at a terminal.")
    if sys.stdin is None or not sys.stdin.isatty():
        raise missing
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.buffer.readline(ANSWER_BYTES_MAX)
    answer = line.decode(errors="replace").removesuffix("\n")
    if not answer:
        raise missing
    return answer
