"""How posts are searched: for a part of their title or content, in any case.

The databases fold letters each in a way of its own, and one of them only those of ASCII. So
what is searched is kept in one form, computed here, and what is searched for is brought to it.
"""

import unicodedata

from tenantry.kit.errors import Invalid
from tenantry.kit.text import checked_text

SEARCH_CHARS_MAX = 200
ESCAPE = "\\"


class BadSearch(Invalid):
    """`search` must not be blank."""


def searchable(title: str, content: str) -> str:
    """Return what is kept of a post to be searched: no match runs from title to content."""
    return f"{_folded(title)}\n{_folded(content)}"


def pattern(search: str) -> str:
    """Return what is LIKE a text that holds *search*.

    Raises:
        BadText: It is longer than `SEARCH_CHARS_MAX`, or no text.
        BadSearch: It is blank.
    """
    folded = _folded(checked_text("search", search, chars_max=SEARCH_CHARS_MAX))
    if not folded:
        raise BadSearch
    for special in (ESCAPE, "%", "_"):
        folded = folded.replace(special, ESCAPE + special)
    return f"%{folded}%"


def _folded(text: str) -> str:
    """Return *text* without regard to case, width, ligatures and line breaks.

    Source: https://www.unicode.org/reports/tr15/ (NFKC), and the Unicode Standard,
    section 3.13, "Default Caseless Matching".
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())
