"""How posts are searched: for a part of their title or content, in any case.

The databases fold letters each in a way of its own, and one of them only those of ASCII. So
what is searched is kept in one form, computed here, and what is searched for is brought to it.
"""

import asyncio
import re
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tenantry.kit.errors import Invalid
from tenantry.kit.text import BadText, checked_text, compatible

SEARCH_CHARS_MAX = 200
# Twice the longest content. Text in any living language grows by a few percent; a text of
# nothing but U+FDFA grows to eighteen times its length, and each search would read all of it.
SEARCHABLE_CHARS_MAX = 2_000_000

# A piece that grows to more is refused before the next is folded.
GROWN_PIECE_CHARS_MAX = 8_192

# One character can become eighteen, and while one call folds a text nothing else in this
# process runs, in whichever thread. So a long text is folded in pieces, cut before blanks.
PIECE_CHARS = 2_048
_PIECE = re.compile(rf".{{1,{PIECE_CHARS}}}(?=\s|\Z)|.{{1,{PIECE_CHARS}}}", re.DOTALL)


class BadSearch(Invalid):
    """`search` must not be blank."""


class Position(FunctionElement[int]):
    """The position of the second argument in the first, from 1; 0 if it does not occur.

    LIKE takes text times pattern where both repeat one letter (44 s for a text of
    1,000,000 letters in SQLite); these compare as memory is compared.
    """

    type = sa.Integer()
    inherit_cache = True


@compiles(Position, "sqlite")
def _instr(element: Position, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(Position, "postgresql")
def _strpos(element: Position, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


class Folded(msgspec.Struct, frozen=True):
    """The title and the content of a post as they are searched; None for what is not changed."""

    title: str | None
    content: str | None


async def fold(title: str | None, content: str | None) -> Folded:
    """Return what is kept of a title and a content to be searched.

    It takes up to a second of a thread, so it is called before a transaction begins.

    Raises:
        BadText: The result is longer than `SEARCHABLE_CHARS_MAX`, or has too many marks in a row.
    """
    return await asyncio.to_thread(_fold, title, content)


def _fold(title: str | None, content: str | None) -> Folded:
    return Folded(
        None if title is None else _folded(title), None if content is None else _folded(content)
    )


def searchable(title: str, content: str) -> str:
    """Return what is stored of a post to be searched: no match runs from title to content.

    Raises:
        BadText: As for `fold`.
    """
    return f"{_folded(title)}\n{_folded(content)}"


def searched_for(search: str) -> str:
    """Return what a searchable text holds if it matches *search*.

    Raises:
        BadText: It is longer than `SEARCH_CHARS_MAX`, or no text.
        BadSearch: It is blank.
    """
    folded = _folded(checked_text("search", search, chars_max=SEARCH_CHARS_MAX))
    if not folded:
        raise BadSearch
    return folded


def _folded(text: str) -> str:
    """Return *text* without regard to case, width, ligatures and line breaks.

    Raises:
        BadText: It grows too much, or has too many combining marks in a row.

    Source: https://www.unicode.org/reports/tr15/ (NFKC), and the Unicode Standard,
    section 3.13, "Default Caseless Matching".
    """
    folded: list[str] = []
    is_parted = True
    for piece in _PIECE.findall(text):
        plain = compatible(compatible(piece).casefold())
        if len(plain) > GROWN_PIECE_CHARS_MAX:
            raise _too_many_ligatures()
        words = " ".join(plain.split())
        if not words:
            is_parted = True
            continue
        folded.append(" " + words if folded and (is_parted or plain[0].isspace()) else words)
        is_parted = plain[-1].isspace()
    joined = "".join(folded)
    if len(joined) > SEARCHABLE_CHARS_MAX:
        raise _too_many_ligatures()
    return joined


def _too_many_ligatures() -> BadText:
    return BadText("The text has too many characters that expand to several, such as ligatures.")
