"""Read a password: from the input, or from whoever sits at the terminal."""

import getpass
import sys

from tenantry.access.passwords import PASSWORD_CHARS_MAX
from tenantry.kit.errors import Invalid

# UTF-8 needs at most four bytes for a character; one more shows that there is more.
PASSWORD_BYTES_MAX = 4 * PASSWORD_CHARS_MAX + 1


class PasswordMissing(Invalid):
    """A password is needed: pipe it in with --password-stdin, or use a terminal to be asked."""


class PasswordUnreadable(Invalid):
    """The first line of the input is no UTF-8 text."""


class PasswordsDiffer(Invalid):
    """The two passwords are not the same: try again."""


def read_password(*, from_stdin: bool) -> str:
    """Return a new password.

    Args:
        from_stdin: Whether it is the first line of the input.

    Raises:
        PasswordMissing: There is nobody to ask, or nothing was said.
        PasswordUnreadable: It is no text.
        PasswordsDiffer: It was not repeated.
    """
    if sys.stdin is None:
        raise PasswordMissing
    if from_stdin:
        return _first_line()
    if not sys.stdin.isatty():
        raise PasswordMissing
    return _ask()


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
        if getpass.getpass("Once more: ") != password:
            raise PasswordsDiffer
    except EOFError as error:
        raise PasswordMissing from error
    return password
