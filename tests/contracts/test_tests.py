"""Tests use our code as it is: they replace nothing, and use no private name."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests", "testkit", "harness")
# `Faults` wraps a function, which still does its work; and what is in `sys` is Python's own.
PATCHED = re.compile(r"\.(?:set|del)(?:attr|item)\((?!sys\b)")
MOCK = re.compile(r"^\s*(?:import|from)\b.*\bmock\b", re.MULTILINE)
HIDDEN = re.compile(r"""\bfaults\.(?:before|after)\([^"]*"_""")
UNCHECKED = re.compile("noqa: .*SLF" + "001")


def files_with(pattern: "re.Pattern[str]") -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if pattern.search(path.read_text())
    ]


class TestTests:
    def test_replace_no_function_and_no_constant(self):
        assert files_with(PATCHED) == []

    def test_have_no_mocks(self):
        assert files_with(MOCK) == []

    def test_use_no_private_name(self):
        """Ruff finds them, unless a comment keeps it from that."""
        assert files_with(UNCHECKED) == []
        assert files_with(HIDDEN) == []
