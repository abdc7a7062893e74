"""Text in requests, and text for a terminal."""

import re
import unicodedata
from functools import lru_cache

import idna

from tenantry.kit.errors import Invalid

# The part of a client's text that an error message repeats.
SHOWN_CHARS_MAX = 100

# The categories Cc and Cs of Unicode, and characters that change the direction of text.
_NO_TEXT = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

# Normalisation sorts runs of combining marks and is quadratic in their length, so only texts up to
# this length are normalised: at most 0.5 ms. Every text that is compared is shorter.
CANONICAL_CHARS_MAX = 512

# Source: https://www.unicode.org/reports/tr15/#Stream_Safe_Text_Format
MARKS_MAX = 30
# Every combining mark is among these, and every character that becomes one.
_MARKS = re.compile(rf"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){{{MARKS_MAX + 1}}}")

JOINERS = "\u200c\u200d"
_ZWJ = "\u200d"
# The blocks with emoji that are joined: arrows, symbols, dingbats and pictographs.
_EMOJI = re.compile("[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]\ufe0f?")
# Characters with a width and no form, and the grapheme joiner; those of the categories C and Z are
# found by their category.
_BLANKS = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")

# NUL, which PostgreSQL cannot store, and surrogates, which are not Unicode text.
_BROKEN = re.compile("[\\x00\\ud800-\\udfff]")


class BadText(Invalid):
    """A text breaks a rule; the message says which."""


def checked_line(name: str, text: str, *, chars_max: int) -> str:
    """Return *text*, the value of the member *name*, if it is a valid single line.

    Raises:
        BadText: It is blank, longer than *chars_max*, or contains control characters.
    """
    if not text.strip():
        raise BadText(f"`{name}` must not be blank.")
    if len(text) > chars_max:
        raise BadText(f"`{name}` must have at most {chars_max} characters.")
    if _NO_TEXT.search(text):
        raise BadText(f"`{name}` must not hold control characters or broken Unicode.")
    return text


def checked_label(name: str, text: str, *, chars_max: int) -> str:
    """Return *text*, the value of the member *name*, if it is valid as a name or a label.

    Two names that look the same must not differ in characters that are not visible. The
    joiners U+200C and U+200D are valid where they change the form of a word, by the rules for
    domain names: Persian and Indic names need them. U+200D is also valid between two emoji.

    Source: RFC 5892, appendix A.1 and A.2; Unicode Technical Standard 51, definition ED-16.

    Raises:
        BadText: It is no valid line, or contains a character without a visible form.
    """
    # Nearly every name is in ASCII; what is printable has no control characters, and has a form.
    if text.isascii() and text.isprintable() and 0 < len(text) <= chars_max and not text.isspace():
        return text
    checked_line(name, text, chars_max=chars_max)
    for at, char in enumerate(text):
        if is_visible(char) or (char in JOINERS and _joins(text, at)):
            continue
        raise BadText(
            f"`{name}` must not contain invisible characters: character {at + 1} is "
            f"U+{ord(char):04X}."
        )
    return text


def _joins(text: str, at: int) -> bool:
    if text[at] == _ZWJ and _EMOJI.match(text, at + 1):
        before = text[max(at - 2, 0) : at]
        if _EMOJI.fullmatch(before[-1:]) or _EMOJI.fullmatch(before):
            return True
    try:
        return idna.valid_contextj(text, at)
    except ValueError:  # for a character without a name, such as a Tangut ideograph
        return False


def is_visible(char: str) -> bool:
    """Return whether *char* has a form, or is a space."""
    # Spaces other than U+0020 are not printable: the ideographic space is in Japanese names.
    return (char.isprintable() and char not in _BLANKS) or unicodedata.category(char) == "Zs"


def checked_text(name: str, text: str, *, chars_max: int) -> str:
    """Return *text*, the value of the member *name*, if it can be stored unchanged.

    Raises:
        BadText: It is longer than *chars_max*, not Unicode text, or contains NUL.
    """
    if len(text) > chars_max:
        raise BadText(f"`{name}` must have at most {chars_max} characters.")
    if _BROKEN.search(text):
        raise BadText(f"`{name}` must not hold NUL characters or broken Unicode.")
    return text


def shown(text: str) -> str:
    """Return the part of a client's *text* that an error message repeats."""
    beginning = text[:SHOWN_CHARS_MAX]
    return text if beginning == text else f"{beginning}…"


def printable(text: str) -> str:
    """Return *text* with spaces for control characters, which a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text)


def canonical(text: str) -> str:
    """Return *text* in the form for comparison: normalized (NFC) and in lower case.

    SQL's ``lower()`` differs between the engines, so it is not used. A text of more than
    `CANONICAL_CHARS_MAX` characters is not normalized: no stored text is that long.
    """
    if text.isascii() or len(text) > CANONICAL_CHARS_MAX:
        return text.lower()  # ASCII is in NFC
    return normal_lower(text)


def normal_lower(text: str) -> str:
    """Return *text* in lower case, normalized (NFC).

    Normalized before and after: some pairs have one character in lower case only, such as
    ``T\u0308``, and the lower case of ``\u0130`` is a letter and a mark.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())


def opaque(text: str) -> str:
    """Return a secret *text* as it is compared: normalized (NFC), with U+0020 for any other space.

    Keyboards and systems write one character in several ways; width and case are kept. The time is
    quadratic in the length of a run of combining marks: the caller limits it.

    Source: RFC 8265, section 4.2.2 (OpaqueString).
    """
    if text.isascii():
        return text
    spaced = "".join(" " if unicodedata.category(one) == "Zs" else one for one in text)
    return unicodedata.normalize("NFC", spaced)


def compatible(text: str) -> str:
    """Return *text* without differences of width and ligatures (NFKC), in linear time.

    Raises:
        BadText: It has more than `MARKS_MAX` combining marks in a row, which no language has.
    """
    for run in _MARKS.finditer(text):
        _check_marks(run.group())
    return unicodedata.normalize("NFKC", text)


def _check_marks(run: str) -> None:
    marks = 0
    for char in run:
        leading, trailing, is_mark = _marks_of(char)
        if marks + leading > MARKS_MAX:
            raise BadText(f"A text must not have more than {MARKS_MAX} combining marks in a row.")
        marks = marks + leading if is_mark else trailing


@lru_cache(maxsize=1_024)
def _marks_of(char: str) -> tuple[int, int, bool]:
    """Return how many marks *char*, decomposed, begins and ends with, and if it has only marks."""
    classes = [unicodedata.combining(one) for one in unicodedata.normalize("NFKD", char)]
    leading = next((at for at, one in enumerate(classes) if not one), len(classes))
    trailing = next((at for at, one in enumerate(reversed(classes)) if not one), len(classes))
    return leading, trailing, leading == len(classes)
