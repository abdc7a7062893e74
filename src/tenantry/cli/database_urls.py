"""URLs of databases in arguments: no password on a command line."""

import getpass
import sys

from pydantic import TypeAdapter, ValidationError

from tenantry.cli.prompts import interruptible
from tenantry.db.urls import sqlite_path
from tenantry.kit import postgres_urls
from tenantry.kit.errors import Invalid
from tenantry.kit.server_settings import DatabaseUrl

STANDARD_INPUT = "-"
URL_BYTES_MAX = 4_096

_URL: TypeAdapter[DatabaseUrl] = TypeAdapter(DatabaseUrl)


class BadDatabaseUrl(Invalid):
    """The URL of a database must begin with sqlite:/// or postgresql://."""


class PasswordInArgument(Invalid):
    """Other users can see a password in an argument: use `-` or `?passfile=PATH`."""


def read_url(option: str, given: str) -> str:
    """Return the URL *given* for *option*; `-` reads it from standard input.

    Raises:
        BadDatabaseUrl: It is no URL of a database.
        PasswordInArgument: It has a password, and other users of the machine could read it.
    """
    url = _read_line() if given == STANDARD_INPUT else given
    bad = f"{option} must be a URL that begins with sqlite:/// or postgresql://."
    try:
        checked = _URL.validate_python(url).get_secret_value()
    except ValidationError as error:
        raise BadDatabaseUrl(bad) from error
    if not checked:
        raise BadDatabaseUrl(bad)
    if given != STANDARD_INPUT and _has_password(checked):
        raise PasswordInArgument(
            f"Other users can see a password in an argument: use `{option} -` or `?passfile=PATH`."
        )
    return checked


def check_argument(option: str, url: str) -> None:
    """Check that the URL of *option* has no password, which other users of the machine could read.

    Raises:
        PasswordInArgument: It has one.
    """
    if "://" in url and _has_password(url):
        raise PasswordInArgument(
            f"Other users can see a password in an argument: use `{option} …?passfile=PATH`."
        )


def _read_line() -> str:
    if sys.stdin is None:
        return ""
    with interruptible():
        if sys.stdin.isatty():
            return getpass.getpass("URL: ").strip()
        return sys.stdin.buffer.readline(URL_BYTES_MAX).decode(errors="replace").strip()


def _has_password(url: str) -> bool:
    if sqlite_path(url) is not None:
        return False
    parsed = postgres_urls.parse(url)
    return parsed.password is not None or "sslpassword" in parsed.parameters
