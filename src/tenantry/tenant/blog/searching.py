"""Search posts for a part of their title or content, ignoring case.

The databases fold case differently, and SQLite folds only ASCII. So the searchable text is stored
in a folded form that is computed here, and the search text is folded in the same way.
"""

import re
from collections.abc import Generator
from typing import TypeVar

import msgspec
import sqlalchemy as sa

from tenantry.db.types import sql_function
from tenantry.kit.errors import Invalid
from tenantry.kit.text import BadText, checked_text, compatible

SEARCH_CHARS_MAX = 200
# Twice the longest content. Text in any language grows by a few percent when it is folded; a text
# of only U+FDFA grows to eighteen times its length, and each search would read all of it.
SEARCHABLE_CHARS_MAX = 2_000_000

# A part that grows to more is rejected before the next one is folded.
GROWN_PART_CHARS_MAX = 8_192

# Folding holds the interpreter lock, so a long text would block all threads of this process. So it
# is folded in parts, which are split before spaces.
PART_CHARS = 2_048
_PART = re.compile(rf".{{1,{PART_CHARS}}}(?=\s|\Z)|.{{1,{PART_CHARS}}}", re.DOTALL)


class BadSearch(Invalid):
    """`search` must not be blank."""


position = sql_function(sa.Integer(), sqlite="instr({}, {})", postgresql="strpos({}, {})")
"""The position of the second argument in the first, from 1; 0 if it does not occur.

LIKE needs quadratic time if text and pattern repeat one letter (44 s for a text of 1,000,000
letters in SQLite); these functions compare memory.
"""


Result = TypeVar("Result")
Steps = Generator[None, None, Result]


class Folded(msgspec.Struct, frozen=True):
    """The folded title and content of a post; None for a value that is not changed."""

    title: str | None
    content: str | None

    @property
    def text(self) -> str:
        """The text to search, of a whole post. No match extends from the title to the content."""
        return f"{self.title}\n{self.content}"


def fold(title: str | None, content: str | None) -> Folded:
    """Return the folded title and content. A long text takes up to 3 s: see `folding`.

    Raises:
        BadText: The result is longer than `SEARCHABLE_CHARS_MAX`, or has too many marks in a row.
    """
    return _result_of(fold_in_steps(title, content))


def fold_in_steps(title: str | None, content: str | None) -> Steps[Folded]:
    """Do the same as `fold`, in steps of a few milliseconds."""
    return Folded(
        None if title is None else (yield from _fold_in_steps(title)),
        None if content is None else (yield from _fold_in_steps(content)),
    )


def searched_for(search: str) -> str:
    """Return the folded form of *search*, which the texts of matching posts contain.

    Raises:
        BadText: It is longer than `SEARCH_CHARS_MAX`, or not valid text.
        BadSearch: It is blank.
    """
    folded = _result_of(_fold_in_steps(checked_text("search", search, chars_max=SEARCH_CHARS_MAX)))
    if not folded:
        raise BadSearch
    return folded


def _result_of(steps: Steps[Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def _fold_in_steps(text: str) -> Steps[str]:
    """Return *text* without differences of case, width, ligatures and line breaks.

    Raises:
        BadText: It grows too much, or has too many combining marks in a row.

    Source: https://www.unicode.org/reports/tr15/ (NFKC), and the Unicode Standard,
    section 3.13, "Default Caseless Matching".
    """
    folded: list[str] = []
    is_parted = True
    for piece in _PART.finditer(text):
        yield
        plain = compatible(compatible(piece[0]).casefold())
        if len(plain) > GROWN_PART_CHARS_MAX:
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
