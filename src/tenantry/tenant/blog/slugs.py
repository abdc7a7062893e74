"""Slugs: the readable part of a post's URL."""

import re
import unicodedata
from collections.abc import Iterator
from uuid import UUID

from tenantry.kit.errors import Invalid
from tenantry.kit.text import canonical, compatible, normal_lower

SLUG_CHARS_MAX = 200
NUMBERS_MAX = 20
"""How many slugs are tried for one title before a random one is used."""

_RANDOM_CHARS = 12
_FALLBACK = "post"
# Characters inside a word that do not separate it.
_APOSTROPHES = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")


class BadSlug(Invalid):
    """`slug` may contain letters and digits of any script, with single hyphens between them."""


def checked_slug(slug: str) -> str:
    """Return *slug* in its stored form: in lower case.

    Raises:
        BadSlug: It is not a valid slug.
    """
    if len(slug) > SLUG_CHARS_MAX:
        raise BadSlug(f"`slug` must have at most {SLUG_CHARS_MAX} characters.")
    stored = canonical(slug)
    if not stored or _slug(stored) != stored:
        raise BadSlug
    return stored


def slug_of(title: str) -> str:
    """Return the slug derived from *title*."""
    return _slug(title) or _FALLBACK


def candidates(title: str, post_id: UUID) -> Iterator[str]:
    """Return the slugs to try for a title: its own, numbered ones, and a random one."""
    slug = slug_of(title)
    yield slug
    for number in range(2, NUMBERS_MAX + 1):
        yield _with_suffix(slug, str(number))
    yield _with_suffix(slug, post_id.hex[-_RANDOM_CHARS:])


def _with_suffix(slug: str, suffix: str) -> str:
    return f"{slug[: SLUG_CHARS_MAX - len(suffix) - 1].rstrip('-')}-{suffix}"


def _slug(text: str) -> str:
    plain = normal_lower(compatible(_APOSTROPHES.sub("", text)))
    return _hyphenated(plain)[:SLUG_CHARS_MAX].rstrip("-")


def _hyphenated(plain: str) -> str:
    """Return the letters and digits of *plain*, with one hyphen in place of other characters.

    The vowel signs of many scripts are combining marks, and are kept after a letter. After any
    other character, such as an emoji, marks are dropped.
    """
    kept: list[str] = []
    for char in plain:
        kind = unicodedata.category(char)[0]
        is_word = kept and kept[-1] != "-"
        if kind in "LN" or (kind == "M" and is_word):
            kept.append(char)
        elif is_word:
            kept.append("-")
    return "".join(kept).rstrip("-")
