"""The command line around its commands: help, release, completion, usage errors, output."""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from tenantry.cli.main import COMMANDS
from testkit.forked import running
from testkit.programs import START_SECONDS_MAX, environment_of, free_port, only_line
from tests.acceptance.commands import Commands, every_command
from tests.acceptance.fleets import Fleet
from tests.integration.engines import on_sqlite

# Importing any of them takes longer than all that help needs.
SLOW = {
    *("sqlalchemy", "alembic", "uvicorn", "starlette", "mcp", "asyncpg", "aiosqlite", "psycopg"),
    *("rich", "msgspec", "structlog", "cryptography", "argon2", "pydantic"),
}
TENANTRY = Path(sys.executable).with_name("tenantry")


class TestHelp:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("--help",),
            ("-h",),
            ("--version",),
            ("nonsense",),
            ("migrate",),
            ("tenant", "--help"),
            ("tenant", "list", "-h"),
            ("serve", "--help"),
        ],
    )
    def test_imports_nothing_that_only_a_command_needs(
        self, tmp_path: Path, arguments: tuple[str, ...]
    ):
        imported = _imported(tmp_path, *arguments)

        assert "typer" in imported
        assert imported & SLOW == set()

    @pytest.mark.slow
    def test_has_a_short_form_everywhere(self, alone: Commands):
        for path, _ in every_command():
            long, short = alone(*path, "--help"), alone(*path, "-h")

            assert (short.status, short.stdout) == (0, long.stdout), path

    @pytest.mark.slow
    def test_is_that_of_the_command_itself_everywhere(self, alone: Commands):
        """What is recorded for it is not older than the command: otherwise run `make docs`."""
        for path, command in every_command():
            name = " ".join(("tenantry", *path))
            settings = {"help_option_names": ["-h", "--help"]}
            context = typer.Context(command, info_name=name, terminal_width=80, **settings)
            own = command.get_help(context)

            assert alone(*path, "--help").stdout == f"{own}\n", path

    def test_as_the_last_value_of_an_option_is_refused(self, alone: Commands):
        ended = alone("tenant", "list", "--search", "--help")

        assert (ended.status, ended.stdout) == (2, "")
        assert "the value of an option" in ended.stderr

    def test_gives_the_summary_of_each_command_as_the_command_itself(self):
        for deferred in COMMANDS:
            assert str(deferred.load().help).splitlines()[0] == deferred.help, deferred.name

    @pytest.mark.parametrize("path", [(), ("tenant",), ("migrate",)])
    def test_is_printed_when_the_command_is_missing(self, alone: Commands, path: tuple[str, ...]):
        ended = alone(*path)

        assert (ended.status, ended.stdout) == (2, "")
        assert "Commands:" in ended.stderr


class TestVersion:
    def test_is_that_of_the_installed_package(self, alone: Commands):
        ended = alone("--version")

        assert (ended.status, ended.stdout) == (0, f"tenantry {version('tenantry')}\n")


class TestUsageError:
    """One line, with the command that prints the help."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("nonsense",), ("No such command 'nonsense'", "`tenantry --help`")),
            (("tenant", "crate"), ("'create'", "`tenantry tenant --help`")),
            (("serve", "--port", "65536"), ("'--port'", "65535", "`tenantry serve --help`")),
            (("tenant", "list", "--page", "0"), ("'--page'", "`tenantry tenant list --help`")),
            (("--nonsense",), ("--nonsense", "`tenantry --help`")),
        ],
    )
    def test_is_one_line(self, arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path):
        ended = _run(tmp_path, str(TENANTRY), *arguments)

        assert (ended.returncode, ended.stdout) == (2, "")
        line = only_line(ended.stderr)
        assert all(one in line for one in words), line

    def test_names_everything_that_is_missing(self, alone: Commands):
        ended = alone("token", "issue")

        line = only_line(ended.stderr)
        assert ended.status == 2
        assert "'tenant'" in line
        assert "'--name'" in line


@pytest.mark.slow
class TestOutput:
    @pytest.mark.parametrize(
        ("command", "to", "status"),
        [
            ("key create acme", ">/dev/full", 3),
            ("key create acme --json", ">/dev/full", 3),
            ("key create acme", "| true", 1),
            ("token issue acme --name x", ">/dev/full", 3),
            ("user invite acme grace@example.com", ">/dev/full", 3),
            ("tenant create globex --owner-email grace@example.com", ">/dev/full", 3),
            ("tenant clone acme --as Copy", ">/dev/full", 3),
            ("backup restore $(tenantry backup create --tenant acme) --as Copy", ">/dev/full", 3),
        ],
    )
    def test_with_a_secret_that_cannot_be_printed_names_what_revokes_it(
        self, alone: Commands, command: str, to: str, status: int
    ):
        alone.create_tenant("acme")

        ended = _in_shell(alone, f"{TENANTRY} {command} {to}")

        assert not re.search(r"tn[kmi]_\w{8}", ended.stderr)
        assert alone(*_remedy(ended.stderr)).status == 0
        assert (ended.returncode, ended.stdout) == (status, "")

    @on_sqlite
    def test_with_a_password_of_a_fleet_that_cannot_be_printed_names_what_replaces_it(
        self, fleet: Fleet
    ):
        fleet.add("acme")
        admin = f"--email grace@example.com --port {free_port()}"
        place = "--urls databases.txt --state 'my fleet.db'"

        command = f"{TENANTRY} fleet serve {place} {admin} >/dev/full"
        ended = _run(fleet.project.folder, "bash", "-c", command)

        with running(fleet.project.folder, *_remedy(ended.stderr)) as program:
            program.wait_for("^Sign in as grace@example.com with the password ")
        assert (ended.returncode, ended.stdout) == (3, "")

    @pytest.mark.parametrize(
        ("closed", "name", "instead"),
        [(">&-", "output", ">/dev/null"), ("2>&-", "error", "2>/dev/null")],
    )
    def test_that_is_closed_stops_a_command_before_it_begins(
        self, alone: Commands, closed: str, name: str, instead: str
    ):
        """The result would be lost; also what is printed elsewhere could be in the next file."""
        alone.create_tenant("acme")

        ended = _in_shell(alone, f"{TENANTRY} key create acme {closed}")

        assert ended.returncode == 2
        line = only_line(ended.stdout + ended.stderr)
        assert f"Standard {name} is closed. If you do not need it, use `{instead}`." in line
        assert len(alone("key", "list", "acme", "--json").data["items"]) == 1

    @pytest.mark.parametrize("arguments", ["nonsense", "tenant", "key create"])
    def test_that_is_closed_changes_no_status_of_a_usage_error(
        self, alone: Commands, arguments: str
    ):
        for closed in ("2>&-", ">&- 2>&-"):
            ended = _in_shell(alone, f"{TENANTRY} {arguments} {closed}")

            assert ended.returncode == 2, closed
            assert ended.stderr == ""
            assert bool(ended.stdout) is (closed == "2>&-")

    def test_of_help_that_cannot_be_printed_is_one_error(self, alone: Commands):
        ended = _in_shell(alone, f"{TENANTRY} --help >/dev/full")

        assert ended.returncode != 0
        assert "tenantry: error: No space left on device" in ended.stderr
        assert "Traceback" not in ended.stderr


class TestCompletion:
    @pytest.mark.slow
    def test_completes_commands_and_options_in_bash(self, tmp_path: Path):
        script = 'eval "$(_TENANTRY_COMPLETE=source_bash tenantry)"\n'

        assert _complete(tmp_path, script, "tenantry", "mig") == ["migrate"]
        found = _complete(tmp_path, script, "tenantry", "migrate", "pl")
        assert sorted(found) == ["plan", "plans"]
        assert _complete(tmp_path, script, "tenantry", "tenant", "create", "--owner-e") == [
            "--owner-email"
        ]

    @pytest.mark.slow
    def test_is_installed_for_the_shell_that_is_used(self, tmp_path: Path):
        installed = _run(tmp_path, "bash", "-c", "tenantry --install-completion; true")
        script = f"source {tmp_path}/.bash_completions/tenantry.sh\n"

        assert installed.returncode == 0, installed.stderr
        assert ".bash_completions/tenantry.sh" in (tmp_path / ".bashrc").read_text()
        assert _complete(tmp_path, script, "tenantry", "doc") == ["doctor"]

    @pytest.mark.parametrize(
        "words", ["tenantry t", "tenantry tenant l", "tenantry tenant export --f"]
    )
    def test_imports_nothing_slow(self, tmp_path: Path, words: str):
        at = str(len(words.split()) - 1)
        given = {"_TENANTRY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": at}

        assert _imported(tmp_path, **given) & SLOW == set()

    def test_of_a_tenant_imports_no_more_than_the_settings_need(self, tmp_path: Path):
        words = {"_TENANTRY_COMPLETE": "complete_bash", "COMP_WORDS": "tenantry tenant show A"}

        assert _imported(tmp_path, **words, COMP_CWORD="3") & SLOW <= {"pydantic"}

    @pytest.mark.slow
    def test_offers_tenants_and_runs(self, tenantry: Commands):
        """The id of a tenant with a name that a shell would split."""
        acme, both = tenantry.create_tenant("Acme"), tenantry.create_tenant("Acme & Sons")
        tenantry.create_admin()
        run = tenantry("migrate", "all", "--json").data["runId"]

        def offered(words: str, shell: str = "complete_bash") -> list[str]:
            given = {"COMP_WORDS": words, "_TYPER_COMPLETE_ARGS": words}
            given |= {"COMP_CWORD": str(len(words.split()) - 1), "_TENANTRY_COMPLETE": shell}
            given |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", **tenantry.environment}
            return _run(tenantry.folder, str(TENANTRY), **given).stdout.split("\n")[:-1]

        assert offered("tenantry tenant show ac") == [acme["name"], both["id"]]
        assert offered("tenantry migrate plan --tenant acme") == [acme["name"], both["id"]]
        assert offered(f"tenantry migrate show {run[:9]}") == [run]
        assert offered("tenantry user list x") == [""]
        assert f"{both['id']}\tAcme ? Sons" in offered("tenantry tenant show ac", "complete_fish")
        assert any("Acme" in one for one in offered("tenantry tenant show ac", "complete_zsh"))

    @pytest.mark.slow
    @pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
    def test_offers_nothing_that_a_shell_would_run(self, tenantry: Commands, shell: str):
        """Zsh evaluates the description of an offer twice."""
        evil = tenantry.create_tenant("evil \\$(touch /tmp/x) `id` \"' [bold]x[/nope]")
        given = {"COMP_WORDS": "tenantry tenant show ev", "COMP_CWORD": "3"}
        given |= {"_TYPER_COMPLETE_ARGS": given["COMP_WORDS"], **tenantry.environment}
        given |= {"_TENANTRY_COMPLETE": f"complete_{shell}"}
        given |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}

        ended = _run(tenantry.folder, str(TENANTRY), **given)

        assert evil["id"] in ended.stdout
        assert not {"$", "`", "\\", "["} & set(ended.stdout)


def _imported(folder: Path, *arguments: str, **environment: str) -> set[str]:
    """Return the top-level packages that ``tenantry`` imports."""
    ended = _run(
        folder, sys.executable, "-X", "importtime", str(TENANTRY), *arguments, **environment
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def _complete(folder: Path, script: str, *words: str) -> list[str]:
    """Return what bash offers for the last of *words*."""
    quoted = " ".join(f"'{one}'" for one in words)
    ended = _run(
        folder,
        "bash",
        "-c",
        f"{script}COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
        '_tenantry_completion tenantry; printf "%s\\n" "${COMPREPLY[@]}"',
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def _remedy(stderr: str) -> list[str]:
    """Return the arguments of the command that a message about a lost secret names."""
    found = re.search(r" valid, and could not be printed\. `tenantry (.+?)`", stderr)
    assert found is not None, stderr
    return shlex.split(found[1])


def _in_shell(tenantry: Commands, command: str) -> subprocess.CompletedProcess[str]:
    return _run(tenantry.folder, "bash", "-o", "pipefail", "-c", command, **tenantry.environment)


def _run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{TENANTRY.parent}{os.pathsep}{os.environ['PATH']}"  # noqa: TID251 - for a program
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment_of(), "PATH": path, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=START_SECONDS_MAX,
        check=False,
    )
