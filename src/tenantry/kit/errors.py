"""The error hierarchy.

* TenantryError
  - Invalid           the request is malformed or breaks a rule of the resource
  - Unauthenticated   no credential, or one that does not verify
  - Forbidden         a known principal lacks authority
  - NotFound          it does not exist
  - Conflict          well-formed, but the current state does not allow it
  - Unavailable       try again later; nothing the caller can fix

Modules define their own subclasses beside the functions that raise them; this
module only fixes the categories. No error here knows a transport: each door owns
one table from category to status.
"""


class TenantryError(Exception):
    """Something was refused on purpose.

    Args:
        message: Shown to the caller; the first line of the class's docstring unless
            given. Never put an internal detail here: chain the cause with
            ``raise ... from``.
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
        message: As for every error.
        retry_after_seconds: When it is worth trying again.
    """

    def __init__(self, message: str | None = None, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
