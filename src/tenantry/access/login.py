"""What every login has in common: one guess, one hash, one answer."""

from tenantry.access.addresses import network_of
from tenantry.access.passwords import Passwords, WrongPassword
from tenantry.access.sign_ins import LOGIN, Account, SignIns
from tenantry.access.throttle import Throttle
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
    """Check a login: every branch costs one hash, and is counted alike.

    Args:
        ctx: Where the login comes from.
        passwords: Hash.
        throttle: Counts.
        sign_ins: Records the result.
        realm: Of the account: a tenant's id, or that of the admins.
        counted_as: What failures are counted for: the account's id or address, or the address
            that was typed if there is no such account.
        account: Whose it is.
        stored: The hash; None when there is no such account, or it may not log in.
        password: What was typed.

    Returns:
        What to store from now on, when the cost has risen since; else None.

    Raises:
        LoginRefused: The password is wrong, or nothing was stored.
        TooManyAttempts, TooManyLogins: Try again later.
        DatabaseUnavailable: The login could not be recorded.
    """
    # The place first: whoever gets none has cost nothing.
    with passwords.place(network_of(ctx.address)) as place:
        try:
            with sign_ins.recording(ctx, LOGIN, account):
                async with throttle.guess(realm=realm, account=counted_as, address=ctx.address):
                    rehashed = await place.verify(stored, password)
        except WrongPassword as error:
            raise LoginRefused from error
    await sign_ins.succeeded(ctx, account)
    return rehashed
