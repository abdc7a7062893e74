"""Confirmation at the terminal, before a deletion."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tenantry.access.emails import EMAIL_CHARS_MAX
from tenantry.catalog.tenants import NAME_CHARS_MAX
from tenantry.kit.errors import Invalid

# UTF-8 needs at most four bytes for a character, and the line its end.
ANSWER_BYTES_MAX = 4 * max(NAME_CHARS_MAX, EMAIL_CHARS_MAX) + 2


class ConfirmationMissing(Invalid):
    """Deletion requires a confirmation; the message names the option for it."""


def confirmation(given: str | None, question: str, *, option: str) -> str:
    """Return the value *given* of *option*; without one, the answer to *question* at the terminal.

    Raises:
        ConfirmationMissing: There is no terminal, or the answer is empty.
    """
    if given is not None:
        return given
    missing = ConfirmationMissing(f"Confirm with {option}, or run this at a terminal.")
    if sys.stdin is None or not sys.stdin.isatty():
        raise missing
    with interruptible():
        sys.stderr.write(question)
        sys.stderr.flush()
        line = sys.stdin.buffer.readline(ANSWER_BYTES_MAX)
    answer = line.decode(errors="replace").removesuffix("\n")
    if not answer:
        raise missing
    return answer


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the command while it waits for input in the block.

    The handler of `asyncio.run` only cancels the task, which would wait for the end of the line.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
