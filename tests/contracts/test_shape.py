"""Modules and functions are small, and have docstrings."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

from tests.contracts.each import for_each
from tests.contracts.sources import FILES, name_of

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MEDIAN_CODE_LINES_MAX = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef

every_module = for_each("path", FILES, name_of)


def functions_in(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def code_lines(function: Function, lines: list[str]) -> int:
    """Return how many lines of a function are neither blank, nor comment, nor docstring."""
    code = {
        at
        for at in range(function.lineno, (function.end_lineno or 0) + 1)
        if lines[at - 1].strip() and not lines[at - 1].strip().startswith("#")
    }
    if ast.get_docstring(function) is not None:
        first = function.body[0]
        code -= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(code)


class TestModule:
    @every_module
    def test_says_what_it_holds(self, path: Path):
        """It begins with a docstring, with a sentence as its first line."""
        docstring = ast.get_docstring(ast.parse(path.read_text()))

        assert docstring, f"{name_of(path)} has no docstring"
        assert docstring.splitlines()[0].endswith(".")

    @every_module
    def test_is_small(self, path: Path):
        """It has at most 400 lines."""
        assert len(path.read_text().splitlines()) <= MODULE_LINES_MAX


class TestFunction:
    @every_module
    def test_is_small(self, path: Path):
        """It has at most 60 lines, docstring included."""
        large = [
            f"{one.name}: {size} lines"
            for one in functions_in(path)
            if (size := (one.end_lineno or 0) - one.lineno + 1) > FUNCTION_LINES_MAX
        ]

        assert large == []

    def test_is_mostly_smaller_still(self):
        """Half of all functions have at most 8 lines of code."""
        sizes = [
            code_lines(function, path.read_text().splitlines())
            for path in FILES
            for function in functions_in(path)
        ]

        assert statistics.median(sizes) <= MEDIAN_CODE_LINES_MAX
