"""The messages that the page "It does not work" quotes are those of the product."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tools.doc_blocks import blocks

from tests.contracts.each import for_each

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "it-does-not-work.md"
# Where the product joins texts, and what SQLite, PostgreSQL and Python say.
JOINED = (
    "TENANTRY_SECRET_KEY must",
    "SQLite: ",
    " (SQLSTATE 3D000).",
    " (SQLSTATE 42501).",
    " (SQLSTATE ",
    " (Permission denied).",
    " (Permission denied (",
    "reached (",
    "--glob 'data/*.db'",
    "--port",
    "data is",
    "pg_dump",
    "' has been away",
    "`versions`.",
    "No module named '",
    "database or disk is full.",
    "already exists.",
    "permission denied to create database",
)


def messages() -> list[str]:
    """Return the quoted messages: the blocks that are neither commands nor files."""
    return [one.text for one in blocks(PAGE) if one.kind == "text"]


@cache
def strings() -> str:
    """Return the constant texts of the source, and of what is generated from it."""
    found = [
        node.value
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(found)


def parts(message: str) -> list[str]:
    """Return the parts of a message that are in the source: no values, and only our texts."""
    for one in JOINED:
        message = message.replace(one, "…")
    return [one for one in message.replace("\n", "…").split("…") if len(one.strip()) > 1]


def unknown(message: str) -> list[str]:
    """Return the parts that no text of the source has."""
    return [one for one in parts(message) if one not in strings()]


@for_each("message", messages, lambda message: message[:40])
def test_each_quoted_message_is_in_the_source(message: str):
    assert unknown(message) == []


def test_ten_mistakes_at_least_are_answered():
    assert len(messages()) >= 10


@pytest.mark.parametrize(
    "message",
    [
        "There are … heads (…): join them.",
        "Port … of … is in use: kill that process.",
    ],
)
def test_a_message_that_is_no_more_is_found(message: str):
    assert unknown(message)
