"""The error hierarchy.

* TenantryError
  - Invalid           the request is malformed or breaks a rule of the resource
  - Unauthenticated   no credential, or one that does not verify
  - Forbidden         a known principal lacks authority
  - NotFound          it does not exist
  - Conflict          well-formed, but the current state does not allow it
  - Unavailable       try again later; nothing the caller can fix

Modules define subclasses next to the functions that raise them; this module defines only the
categories. Errors are independent of HTTP: each door has a table from category to status.
"""

from collections.abc import Iterator

# Errors in a chain that are looked at.
CAUSES_MAX = 20


class TenantryError(Exception):
    """An expected error, with a message for the caller.

    Args:
        message: Shown to the caller; by default the first line of the class's docstring. It must
            not contain internal details: chain the cause with ``raise ... from``.
    """

    def __init__(self, message: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        super().__init__(self.message)


class Invalid(TenantryError):
    """The request is malformed, or breaks a rule of the resource."""


class Unauthenticated(TenantryError):
    """No credential was presented, or it does not verify."""


class Forbidden(TenantryError):
    """The principal is known, and lacks authority."""


class NotFound(TenantryError):
    """There is no such resource."""


class Conflict(TenantryError):
    """The request is well-formed, but the current state does not allow it."""


class Unavailable(TenantryError):
    """The service cannot answer now; the same request may succeed later.

    Args:
        message: As for `TenantryError`.
        retry_after_seconds: After how long a retry may succeed.
    """

    def __init__(self, message: str | None = None, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause or context, and so on, at most `CAUSES_MAX` of them.

    Bounded, because a chain can be a circle: an error that is raised again while its successor is
    handled is the cause of its own context. Python breaks circles of contexts only.
    """
    for _ in range(CAUSES_MAX):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
