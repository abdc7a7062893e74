"""Types of settings that are written as text, and the file of settings: lines of ``NAME=value``."""

import ipaddress
import json
import re
import shlex
from collections.abc import Collection, Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from tenantry.kit.hook_settings import check_url
from tenantry.kit.sizes import LIMIT_BYTES_MIN, bytes_of, mark_of, shown_size

PREFIX = "TENANTRY_"
# Variables of the test suite; processes that it starts inherit them.
TEST_PREFIX = "TENANTRY_TEST_"
QUOTATION_MARKS = ('"', "'")
NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""A target, a tenant server, or a member of one."""


def _proxy_addresses(text: str) -> str:
    networks = [one.strip() for one in text.split(",")] if text.strip() else []
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise ValueError(f"{network!r} is not an address or a network ({error})") from None
    return ",".join(networks)


def _size_limit(size: str | int) -> int:
    number = bytes_of(str(size) or "0")
    if 0 < number < LIMIT_BYTES_MIN:
        raise ValueError(f"must be 0, or at least {shown_size(LIMIT_BYTES_MIN)}")
    return number


def _mark_text(text: str) -> str:
    mark_of(text)
    return text


def _command(command: SecretStr) -> SecretStr:
    text = command.get_secret_value()
    if text.startswith(("http://", "https://")):
        check_url(text, allow_http=True)
        return command
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"is no command ({error})") from None
    return command


def _json(value: Any) -> Any:
    try:
        return json.loads(value or "{}") if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be JSON, such as {}") from None


# Only addresses and networks: a host name, or `*`, would let clients choose their address.
ProxyAddresses = Annotated[str, AfterValidator(_proxy_addresses)]
SizeLimit = Annotated[int, BeforeValidator(_size_limit)]
Command = Annotated[SecretStr, AfterValidator(_command)]
IfMatch = Annotated[
    Literal["", "1"],
    Field(
        description="`1`: a change of a post, a tenant, a user or a profile needs `If-Match`, or "
        "gets 428. Over MCP, a change of a post needs `expected_version` or "
        "`expected_updated_at`, and a profile is not changed. Empty: not needed."
    ),
]
PostVersions = Annotated[
    int,
    Field(
        ge=1,
        le=1_000,
        description="The latest versions of a post that are kept, and besides them as many of the "
        "latest published ones.",
    ),
]
MarkText = Annotated[str, AfterValidator(_mark_text)]
NamingConvention = Annotated[
    dict[Literal["ix", "uq", "ck", "fk", "pk"], str], NoDecode, BeforeValidator(_json)
]


class BadEnvFile(ValueError):
    """The file cannot be read; the message says which line, or why."""


def read_env_file(path: Path) -> dict[str, str | None]:
    """Return the settings in the file *path*; empty if there is no file.

    Raises:
        BadEnvFile: It or a line cannot be read: otherwise it would silently have no effect.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if path.is_symlink():
            raise BadEnvFile(f"{path} is a link to a file that does not exist.") from error
        return {}
    except OSError as error:
        raise BadEnvFile(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise BadEnvFile(f"{path} must be UTF-8 text.") from error
    for line in parse_stream(StringIO(text)):
        if line.error:
            raise BadEnvFile(
                f"Line {line.original.line} of {path} cannot be read: "
                "write NAME=value, and close every quotation mark."
            )
    return dotenv_values(stream=StringIO(text))


def fault_of_environment(
    environment: Mapping[str, str | None], known: Collection[str]
) -> str | None:
    """Return what is wrong with the variables of Tenantry, of which some are *known*; or None."""
    for name in sorted(environment):
        upper = name.upper()
        if upper.startswith(PREFIX) and not upper.startswith(TEST_PREFIX) and upper not in known:
            return f"{name} is not a setting of Tenantry (see docs/reference/settings.md)."
        value = environment[name] or ""
        if upper in known and value[:1] in QUOTATION_MARKS and value[-1:] == value[:1]:
            return (
                f"{name} is in quotation marks, which would be part of it: remove them "
                "(`docker run --env-file` and Kubernetes keep them; a shell and .env do not)."
            )
    return None
