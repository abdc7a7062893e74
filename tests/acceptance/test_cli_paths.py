"""Paths that cannot be used: one line that names them, and never a traceback."""

import pytest

from tests.acceptance.commands import Commands

NO_FOLDERS = ("/proc/nowhere", "/proc/nowhere/below", "/dev/null", "/dev/null/below")


class TestWrittenTo:
    @pytest.mark.parametrize("folder", [*NO_FOLDERS, "file", "file/below"])
    def test_is_one_line(self, alone: Commands, folder: str):
        alone.create_tenant("Acme")
        (alone.folder / "file").touch()
        ended = alone("backup", "create", "--tenant", "Acme", "--to", folder)

        assert (ended.status, ended.stdout) == (3, "")
        [line] = [one for one in ended.stderr.splitlines() if one.startswith("tenantry: error")]
        assert folder.partition("/below")[0] in line


class TestReadFrom:
    @pytest.mark.parametrize(
        "command",
        [
            ("backup", "list"),
            ("backup", "prune", "--keep-days", "1", "--keep-last", "1"),
            ("backup", "verify", "acme.tar"),
        ],
    )
    def test_that_does_not_exist_is_no_empty_list(self, alone: Commands, command: tuple[str, ...]):
        (alone.folder / "file").touch()
        for folder in (*NO_FOLDERS, "file", "backsup"):
            ended = alone(*command, "--from", folder)

            assert (ended.status, ended.stdout) == (2, "")
            assert ended.stderr == f"tenantry: error: There is no folder {folder}. Check --from.\n"

    def test_is_empty_without_archives(self, alone: Commands):
        """The folder of the settings is created by the first backup."""
        ended = alone("backup", "list")

        assert (ended.status, ended.stderr) == (0, "No archives.\n")
