"""E-mail addresses: shown as they were typed, compared in one canonical form."""

from email_validator import EmailNotValidError, validate_email

from tenantry.kit.errors import Invalid

EMAIL_CHARS_MAX = 254


class BadEmail(Invalid):
    """`email` is not an e-mail address."""


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
