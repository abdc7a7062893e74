"""What every login has in common: one guess, one hash, one answer."""

from tenantry.access.passwords import Passwords, WrongPassword
from tenantry.access.throttle import Throttle
from tenantry.kit.errors import Unauthenticated


class LoginRefused(Unauthenticated):
    """The e-mail address or the password is wrong."""


async def check_login(
    passwords: Passwords,
    throttle: Throttle,
    *,
    realm: str,
    account: str,
    address: str,
    stored: str | None,
    password: str,
) -> str | None:
    """Check a login: every branch costs one hash, and is counted alike.

    Args:
        passwords: Hash.
        throttle: Counts.
        realm: Of the account: a tenant's id, or that of the admins.
        account: The address that was typed.
        address: Where the login comes from.
        stored: The hash; None when there is no such account, or it may not log in.
        password: What was typed.

    Returns:
        What to store from now on, when the cost has risen since; else None.

    Raises:
        LoginRefused: The password is wrong, or nothing was stored.
        TooManyAttempts, TooManyLogins: Try again later.
    """
    try:
        async with throttle.guess(realm=realm, account=account, address=address):
            return await passwords.verify(stored, password)
    except WrongPassword as error:
        raise LoginRefused from error
