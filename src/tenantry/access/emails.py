"""E-mail addresses: stored as entered, compared in a canonical form."""

import re
from functools import lru_cache

import idna
from email_validator import EmailNotValidError, validate_email

from tenantry.kit.errors import Invalid
from tenantry.kit.text import JOINERS, canonical, is_visible

EMAIL_CHARS_MAX = 254
LOCAL_CHARS_MAX = 64
DOMAINS_REMEMBERED_MAX = 4_096

# A dot-atom of ASCII (RFC 5322, section 3.2.3): the local part of nearly every address.
_PLAIN_LOCAL = re.compile(r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*")


class BadEmail(Invalid):
    """`email` is not an e-mail address."""


def checked_email(email: str) -> str:
    """Return *email* if it is an address of at most `EMAIL_CHARS_MAX` characters (RFC 5321).

    Raises:
        BadEmail: It is not a valid address, or too long.
    """
    if len(email) > EMAIL_CHARS_MAX:
        raise BadEmail(f"`email` must have at most {EMAIL_CHARS_MAX} characters.")
    local, _, domain = email.rpartition("@")
    # The library takes 19 µs, most of it for the domain; domains repeat, so they are cached.
    is_plain = len(local) <= LOCAL_CHARS_MAX and _PLAIN_LOCAL.fullmatch(local) is not None
    if not (_is_domain(domain) if is_plain else _is_address(email)):
        raise BadEmail
    # The library rejects most invisible characters, and where the joiners do not belong.
    if not email.isascii() and not all(is_visible(one) or one in JOINERS for one in email):
        raise BadEmail
    return email


def canonical_email(email: str) -> str:
    """Return the canonical form of *email*, for comparison. It accepts any text.

    The local part is normalized and in lower case. The domain is in its ASCII form (RFC 5890), so
    an address with a domain in Unicode and one with the same domain in ASCII are one account.
    """
    if len(email) > EMAIL_CHARS_MAX:
        return email[: EMAIL_CHARS_MAX + 1].lower()  # too long to be an account
    if email.isascii():
        return email.lower()  # as `canonical` does
    local, at, domain = email.rpartition("@")
    return canonical(local) + at + _canonical_domain(domain)


@lru_cache(DOMAINS_REMEMBERED_MAX)
def _canonical_domain(domain: str) -> str:
    if domain.isascii():
        return domain.lower()
    try:
        return idna.encode(domain, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        return canonical(domain)


@lru_cache(DOMAINS_REMEMBERED_MAX)
def _is_domain(domain: str) -> bool:
    return _is_address(f"a@{domain}")


def _is_address(email: str) -> bool:
    try:
        validate_email(email, check_deliverability=False, strict=True)
    except EmailNotValidError:
        return False
    return True
