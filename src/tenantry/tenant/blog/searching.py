"""How posts are searched: for a part of their title or content, in any case.

The databases fold letters each in a way of its own, and one of them only those of ASCII. So
what is searched is kept in one form, computed here, and what is searched for is brought to it.
"""

import re

from tenantry.kit.errors import Invalid
from tenantry.kit.text import checked_text, compatible

SEARCH_CHARS_MAX = 200
ESCAPE = "\\"

# One character can become eighteen, and while one call folds a text nothing else in this
# process runs, in whichever thread. So a long text is folded in pieces, cut before blanks.
PIECE_CHARS = 2_048
_PIECE = re.compile(rf".{{1,{PIECE_CHARS}}}(?=\s|\Z)|.{{1,{PIECE_CHARS}}}", re.DOTALL)


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
    folded: list[str] = []
    is_parted = True
    for piece in _PIECE.findall(text):
        plain = compatible(compatible(piece).casefold())
        words = " ".join(plain.split())
        if not words:
            is_parted = True
            continue
        folded.append(" " + words if folded and (is_parted or plain[0].isspace()) else words)
        is_parted = plain[-1].isspace()
    return "".join(folded)
