"""The output of commands: text of archives and databases does not control the terminal."""

import msgspec
import pytest

from tenantry.cli import commands, output

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
