"""The output of commands: text of archives and databases does not control the terminal."""

import re
import sys
from io import StringIO

import msgspec
import pytest

from tenantry.cli import commands
from tenantry.cli.printing import output

HOSTILE = "\x1b]0;owned\x07Shop\x1b[2J\u202e\x9b31m\U000e0001"


class TestOutput:
    @pytest.mark.parametrize("kind", ["table", "attributes", "line", "note", "error", "json"])
    def test_has_no_control_characters(self, capsys: pytest.CaptureFixture[str], kind: str):
        shown = {
            "table": lambda: output.show_table(["Tenant"], [(HOSTILE,)]),
            "attributes": lambda: output.show_attributes({"tenant": HOSTILE}),
            "line": lambda: output.show_line(HOSTILE),
            "json": lambda: output.show_json({"tenant": HOSTILE}),
            "note": lambda: output.note(HOSTILE),
            "error": lambda: commands.print_error(HOSTILE),
        }
        shown[kind]()

        written = "".join(capsys.readouterr())
        assert "Shop" in written
        assert all(char.isprintable() or char == "\n" for char in written)

    def test_as_json_is_the_same_data(self):
        data = {"tenant": HOSTILE, "other": "Grüße, \N{SNOWMAN}"}

        assert msgspec.json.decode(output.json_text(data)) == data
        assert "Grüße, \N{SNOWMAN}" in output.json_text(data)


COLUMNS = [output.unwrapped("Id"), output.number("Times"), "Who", "Changes"]
ROWS = [
    ("0190e3c4-1d2b-7c3e-9a55-3f6d2a1b4c5d", 1, "ada@example.com", "name: Acme -> " + "A" * 150),
    ("0190e3c4-1d2b-7c3e-9a55-3f6d2a1b4c5e", 12_000, "cli:ada@host", None),
]


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def _at_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")  # a dumb one has 80 columns
    output.show_table(COLUMNS, ROWS)
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())


class TestTable:
    def test_in_a_pipe_has_one_line_for_each_row(self, capsys: pytest.CaptureFixture[str]):
        output.show_table(COLUMNS, ROWS)

        head, *lines = capsys.readouterr().out.splitlines()
        assert head.split() == ["Id", "Times", "Who", "Changes"]
        assert [re.split(r"  +", line) for line in lines] == [
            [ROWS[0][0], "1", ROWS[0][2], ROWS[0][3]],
            [ROWS[1][0], "12000", ROWS[1][2], "-"],
        ]

    def test_on_a_wide_terminal_has_columns(self, monkeypatch: pytest.MonkeyPatch):
        lines = _at_a_terminal(100, monkeypatch).splitlines()

        assert lines[0].split() == ["Id", "Times", "Who", "Changes"]
        assert max(map(len, lines)) <= 100

    @pytest.mark.parametrize("columns", [20, 40, 70, 80, 100, 300])
    def test_shows_everything_on_a_terminal_of_any_width(
        self, columns: int, monkeypatch: pytest.MonkeyPatch
    ):
        """Columns that do not fit became empty, and ids were cut."""
        shown = _at_a_terminal(columns, monkeypatch)

        for row in ROWS:
            assert str(row[0]) in shown
            assert str(row[1]) in shown
        assert shown.count("A") == 150 + 1
        assert "…" not in shown
        assert all(str(getattr(one, "header", one)) in shown for one in COLUMNS)
