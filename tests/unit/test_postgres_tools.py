"""The command lines of pg_dump and pg_restore."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tenantry.db.postgres import tools as postgres_tools
from tenantry.db.postgres.tools import PostgresTools, ToolTooNew
from tenantry.kit.stopping import Stop

# Begins like a dump. Prints its arguments, the password that it was given, and a secret that it was
# not.
PROGRAM = """#!/bin/sh
printf "\\0\\070\\0\\0\\0SELECT pg_catalog.set_config('search_path', '', false);\\n"
echo "$@"
echo "password: $PGPASSWORD"
echo "secret: $TENANTRY_SECRET_KEY"
"""


def dumping(program: Path, url: str, search_path: str = "") -> Any:
    return postgres_tools.dumping(
        program, url, snapshot="1", search_path=search_path, chunk_bytes=8_192, stop=Stop()
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:hunter2@db.example.com:6432/acme",
        "postgresql://ada@db.example.com:6432/acme?password=hunter2",
        "postgresql:///acme?host=db.example.com&port=6432&user=ada&password=hunter2",
    ],
)
def test_password_is_not_on_the_command_line(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of a machine can read the command lines; our other secrets are not passed on."""
    monkeypatch.setenv("TENANTRY_SECRET_KEY", "a secret key")
    program = tmp_path / "pg_dump"
    program.write_text(PROGRAM)
    program.chmod(0o700)

    with dumping(program, url) as output:
        _start, arguments, password, secret = b"".join(output).decode().splitlines()

    assert "hunter2" not in arguments
    assert password == "password: hunter2"
    assert secret == "secret: "
    for part in ("host=db.example.com", "port=6432", "user=ada", "dbname=acme"):
        assert part in arguments


def test_passphrase_is_refused_because_it_would_be_on_the_command_line(tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(PROGRAM)
    program.chmod(0o700)
    url = "postgresql://ada@db.example.com/acme?sslkey=/ada.key&sslpassword=hunter2"

    with (
        pytest.raises(postgres_tools.SecretOnCommandLine),
        dumping(program, url),
    ):
        pass


@pytest.mark.parametrize(("server_major", "is_usable"), [(16, False), (17, True), (18, True)])
def test_pg_restore_is_refused_if_it_sets_what_the_server_does_not_know(
    tmp_path: Path, server_major: int, *, is_usable: bool
) -> None:
    program = tmp_path / postgres_tools.RESTORE
    program.write_text("#!/bin/sh\necho 'pg_restore (PostgreSQL) 18.4'")
    program.chmod(0o700)
    tools = PostgresTools(tmp_path)

    with (
        nullcontext()
        if is_usable
        else pytest.raises(ToolTooNew, match=r"has version 18, .* the server 16: ")
    ):
        assert tools.find(postgres_tools.RESTORE, server_major=server_major) == program


def test_dump_without_a_search_path_is_refused(tmp_path: Path) -> None:
    """A later pg_dump may write it in another way: a restore would have an empty path."""
    program = tmp_path / "pg_dump"
    program.write_text("#!/bin/sh\necho PGDMP")
    program.chmod(0o700)

    with (
        pytest.raises(postgres_tools.ToolFailed, match="its output has no search path"),
        dumping(program, "postgresql://ada@db.example.com/acme") as output,
    ):
        b"".join(output)
