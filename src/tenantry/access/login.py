"""The password check that admin and tenant logins share."""

from tenantry.access.addresses import network_of
from tenantry.access.login_throttle import Throttle
from tenantry.access.passwords import Passwords, WrongPassword
from tenantry.access.sign_ins import LOGIN, SUCCESS, Account, SignIns
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unauthenticated


class LoginRefused(Unauthenticated):
    """The e-mail address or the password is wrong."""


async def check_login(
    ctx: OperationContext,
    passwords: Passwords,
    throttle: Throttle,
    sign_ins: SignIns,
    *,
    realm: str,
    counted_as: str,
    account: Account,
    stored: str | None,
    password: str,
) -> str | None:
    """Check the password of a login. Every outcome counts as one attempt.

    Failures are counted for the account *counted_as*, as by `Throttle.guess`, and recorded for
    *account*. The *stored* hash is None if there is no such account, or it may not log in.

    Returns:
        The hash to store instead, if the stored one is outdated, as by `Place.verify`; else None.

    Raises:
        LoginRefused: The password is wrong, or *stored* is None.
        TooManyAttempts, TooManyLogins: Try again later.
        DatabaseUnavailable: The login could not be recorded.
    """
    # The place in the queue comes first: a login that gets none costs nothing.
    with passwords.place(network_of(ctx.address)) as place:
        try:
            with sign_ins.recording(ctx, LOGIN, account):
                async with throttle.guess(realm=realm, account=counted_as, address=ctx.address):
                    rehashed = await place.verify(stored, password)
        except WrongPassword as error:
            raise LoginRefused from error
    await sign_ins.record(ctx, SUCCESS, account)
    return rehashed
