"""Admins: create, update, log in, log out."""

from datetime import timedelta
from uuid import UUID

import msgspec

from tenantry.access.emails import canonical_email, checked_email
from tenantry.access.login import check_login
from tenantry.access.login_throttle import Throttle
from tenantry.access.passwords import Passwords
from tenantry.access.principal import AdminContext, Person, Role
from tenantry.access.sign_ins import LOGOUT, Account, SignIns
from tenantry.access.tokens import IssuedToken, Session, Tokens
from tenantry.catalog import admins
from tenantry.catalog.admins import Admin
from tenantry.catalog.database import Catalog, Unchanged
from tenantry.db import audit_log
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict
from tenantry.kit.ids import new_id

REALM = "admin"
# If the clock is set back, an expired token verifies again.
KEPT_AFTER_EXPIRY = timedelta(hours=2)


class LastAdmin(Conflict):
    """The last active admin cannot be deactivated."""


async def create(
    ctx: OperationContext, catalog: Catalog, passwords: Passwords, *, email: str, password: str
) -> Admin:
    """Return a new admin.

    Raises:
        BadEmail, BadPassword: A rule is broken.
        AdminEmailInUse: The address is taken.
    """
    passwords.check_new(password, email=checked_email(email))
    hashed = await passwords.hash(password)
    admin = Admin(new_id(), email, is_active=True, generation=0, created_at=ctx.now)
    changes = audit_log.changes_between(None, admin, "email")
    async with catalog.change(ctx, "admin.create", admin.id, changes=changes) as session:
        await admins.add(
            session, admin, canonical_email=canonical_email(email), password_hash=hashed
        )
    return admin


async def update(
    ctx: OperationContext,
    catalog: Catalog,
    passwords: Passwords,
    admin_id: UUID,
    *,
    throttle: Throttle,
    is_active: bool | None = None,
    password: str | None = None,
) -> Admin:
    """Set the values that are not None, end all sessions of the admin, and return the admin.

    If that changes nothing, the sessions stay valid.

    Raises:
        AdminNotFound: There is no such admin.
        BadPassword: A rule is broken.
        LastAdmin: No active admin would remain to activate accounts.
    """
    before = await admins.get(catalog, admin_id)
    hashed = None
    if password is not None:
        passwords.check_new(password, email=before.email)
        hashed = await passwords.hash(password)
    if is_active is None and hashed is None:
        return before
    changes = [] if hashed is None else audit_log.named_change("password")
    async with catalog.change(ctx, "admin.update", admin_id, changes=changes) as session:
        active = {admin.id for admin in await admins.lock_active(session)}
        if is_active is False and active == {admin_id}:
            raise LastAdmin
        changed = before = msgspec.structs.replace(before, is_active=admin_id in active)
        if hashed is None and is_active == before.is_active:
            raise Unchanged
        changed = await admins.update(
            session,
            admin_id,
            is_active=admin_id in active if is_active is None else is_active,
            password_hash=hashed,
        )
        changes += audit_log.changes_between(before, changed, "is_active")
    if hashed is not None:
        await throttle.lift(realm=REALM, account=changed.email)
    return changed


async def renew(ctx: AdminContext, tokens: Tokens) -> IssuedToken:
    """Return a new token of the caller's session, which ends `SESSION_MAX` after its login.

    Raises:
        SessionNotRenewable: The signing key was replaced since the token was issued.
    """
    person = Person(ctx.admin_id, ctx.email, Role.ADMIN, ctx.generation)
    session = Session(ctx.jti, ctx.session_began_at, ctx.session_expires_at, ctx.signing_key_id)
    return await tokens.issue(person, now=ctx.now, session=session)


async def logout(
    ctx: AdminContext, catalog: Catalog, *, everywhere: bool, lifetime: timedelta
) -> None:
    """End the caller's session, or all of them; *lifetime* is that of tokens."""
    async with catalog.change(ctx, LOGOUT, ctx.admin_id) as session:
        if everywhere:
            await admins.end_sessions(session, ctx.admin_id)
            return
        await admins.end_session(
            session,
            ctx.admin_id,
            ctx.jti,
            # A renewed token of the session may expire later than this one.
            expires_at=ctx.now + lifetime,
            forget_before=ctx.now - KEPT_AFTER_EXPIRY,
        )


async def login(
    ctx: OperationContext,
    catalog: Catalog,
    *,
    passwords: Passwords,
    throttle: Throttle,
    sign_ins: SignIns,
    tokens: Tokens,
    email: str,
    password: str,
) -> IssuedToken:
    """Return a token for an admin.

    Raises:
        LoginRefused: The address or the password is wrong, or the admin is inactive.
        TooManyAttempts, TooManyLogins: Try again later.
    """
    account = await admins.find_account(catalog, canonical_email(email))
    usable = account if account is not None and account.is_active else None
    rehashed = await check_login(
        ctx,
        passwords,
        throttle,
        sign_ins,
        realm=REALM,
        counted_as=email,
        account=Account(None, account.id, account.email) if account else Account(None),
        stored=usable.password_hash if usable else None,
        password=password,
    )
    assert usable is not None, "check_login raises without a stored hash"
    if rehashed is not None:
        await admins.rehash(catalog, usable.id, old=usable.password_hash, new=rehashed)
    person = Person(usable.id, usable.email, Role.ADMIN, usable.generation)
    return await tokens.issue(person, now=ctx.now)
