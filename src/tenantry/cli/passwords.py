"""New passwords: read from standard input or the terminal, or generated."""

import getpass
import secrets
import sys

from tenantry.access.passwords import PASSWORD_CHARS_MAX
from tenantry.cli.prompts import interruptible
from tenantry.kit.errors import Invalid

# UTF-8 needs at most four bytes for a character; one more byte detects a longer password.
PASSWORD_BYTES_MAX = 4 * PASSWORD_CHARS_MAX + 1
GENERATED_BYTES_MIN = 15
"""Bytes of randomness in a generated password: 20 characters in base64."""


class PasswordMissing(Invalid):
    """A password is required: use --password-stdin, or run the command at a terminal."""


class PasswordUnreadable(Invalid):
    """The first line of the input is not UTF-8 text."""


class PasswordsDiffer(Invalid):
    """The two passwords differ: try again."""


def read_password(*, from_stdin: bool) -> str:
    """Return a new password.

    Args:
        from_stdin: Whether to read it from the first line of standard input.

    Raises:
        PasswordMissing: There is no terminal, or the password is empty.
        PasswordUnreadable: The line is not UTF-8 text.
        PasswordsDiffer: The repeated password at the terminal is different.
    """
    if sys.stdin is None:
        raise PasswordMissing
    if not from_stdin and not sys.stdin.isatty():
        raise PasswordMissing
    with interruptible():
        return _first_line() if from_stdin else _ask()


def generate_password(*, chars_min: int) -> str:
    """Return a new random password of at least *chars_min* characters."""
    return secrets.token_urlsafe(max(GENERATED_BYTES_MIN, chars_min))


def _first_line() -> str:
    line = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX)
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise PasswordUnreadable from error
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise PasswordMissing
    return password


def _ask() -> str:
    try:
        password = getpass.getpass("Password: ")
        if not password:
            raise PasswordMissing
        if getpass.getpass("Repeat password: ") != password:
            raise PasswordsDiffer
    except EOFError as error:
        raise PasswordMissing from error
    return password
