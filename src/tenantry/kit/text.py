"""Text from outside."""

import re
import unicodedata

from tenantry.kit.errors import Invalid

# Of a text that somebody has sent, in a message to them: enough to recognise it.
SHOWN_CHARS_MAX = 100

# The categories Cc and Cs of Unicode, and what turns the direction of the text around it.
_NO_TEXT = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

# What no text can hold on every engine, and what is no Unicode text.
_BROKEN = re.compile("[\\x00\\ud800-\\udfff]")


class BadText(Invalid):
    """A text breaks a rule; the message says which."""


def checked_line(name: str, text: str, *, chars_max: int) -> str:
    """Return *text*, the value of the member *name*, if it can be one line of a form.

    Raises:
        BadText: It is blank, longer than *chars_max*, or holds control characters.
    """
    if not text.strip():
        raise BadText(f"`{name}` must not be blank.")
    if len(text) > chars_max:
        raise BadText(f"`{name}` must have at most {chars_max} characters.")
    if _NO_TEXT.search(text):
        raise BadText(f"`{name}` must not hold control characters or broken Unicode.")
    return text


def checked_text(name: str, text: str, *, chars_max: int) -> str:
    """Return *text*, the value of the member *name*, if it can be stored as it was typed.

    Raises:
        BadText: It is longer than *chars_max*, or no Unicode text, or holds NUL.
    """
    if len(text) > chars_max:
        raise BadText(f"`{name}` must have at most {chars_max} characters.")
    if _BROKEN.search(text):
        raise BadText(f"`{name}` must not hold NUL characters or broken Unicode.")
    return text


def shown(text: str) -> str:
    """Return as much of *text*, which holds what somebody has sent, as a message repeats."""
    beginning = text[:SHOWN_CHARS_MAX]
    return text if beginning == text else f"{beginning}…"


def canonical(text: str) -> str:
    """Return the one form in which *text* is compared: composed (NFC) and in lower case.

    In Python and not by SQL ``lower()``, which is another function on each engine.
    """
    return unicodedata.normalize("NFC", text).lower()
