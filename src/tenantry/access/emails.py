"""E-mail addresses: shown as they were typed, compared in one canonical form."""

from functools import lru_cache

from email_validator import EmailNotValidError, validate_email

from tenantry.kit.errors import Invalid

EMAIL_CHARS_MAX = 254
REMEMBERED_MAX = 4_096


class BadEmail(Invalid):
    """`email` is not an e-mail address."""


# The check costs 19 µs, and most addresses that are sent are the ones that stand already.
@lru_cache(REMEMBERED_MAX)
def checked_email(email: str) -> str:
    """Return *email* if it is an address of at most `EMAIL_CHARS_MAX` characters (RFC 5321).

    Raises:
        BadEmail: It is not.
    """
    if len(email) > EMAIL_CHARS_MAX:
        raise BadEmail(f"`email` must have at most {EMAIL_CHARS_MAX} characters.")
    try:
        validate_email(email, check_deliverability=False, strict=True)
    except EmailNotValidError as error:
        raise BadEmail from error
    return email
