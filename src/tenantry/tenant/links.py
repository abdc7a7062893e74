"""One-time links: they invite a person to a tenant, or let a user set a new password.

The operator sends them. A link contains a secret, of which only the digest is stored. The secret
names the tenant, so the tenant comes from the verified secret alone. Every link that does not work
has the same answer, whatever the reason is.
"""

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.addresses import network_of
from tenantry.access.emails import canonical_email, checked_email
from tenantry.access.login_throttle import Throttle
from tenantry.access.passwords import Passwords, WrongPassword
from tenantry.access.principal import TenantRole
from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.db.statements import Count, Statement, insert
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid, NotFound
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Page, Window
from tenantry.kit.secrets import digest, is_well_formed, mint
from tenantry.tenant import audit, users
from tenantry.tenant.databases import (
    WRITABLE_FROM,
    TenantDatabase,
    TenantDatabases,
    TenantSession,
    require_revision,
)
from tenantry.tenant.tables import link, user
from tenantry.tenant.users import EmailInUse, NewUser, User, UserNotFound

INVITATION_KIND = "tni_"
RESET_KIND = "tnr_"
LIFETIME = timedelta(hours=72)
# Counts failures of links; neither a tenant's id nor `admins.REALM`.
REALM = "links"
# The 16 bytes of a tenant's id in base64url, without padding.
TENANT_CHARS = 22


class LinkRefused(NotFound):
    """The link does not work: it was used or revoked, or it has expired. Ask for a new one."""


class LinkNotFound(NotFound):
    """There is no such link; it may have been used, or have ended."""


class UserDeactivated(Conflict):
    """The user is deactivated, and could not log in: activate the user first."""


class NameRequired(Invalid):
    """`fullName` is required: the link creates a user."""


class Link(msgspec.Struct, frozen=True):
    """A link that is open, without its secret.

    Attributes:
        user_id: The user whose password it resets; None for an invitation.
        email: The address of that user, or of the invited person.
        role: That of the user whom an invitation creates, one of `TenantRole`; None for a reset.
        expires_at: When it ends, unless it is used earlier.
    """

    id: UUID
    user_id: UUID | None
    email: str
    role: str | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class IssuedLink:
    """A new link, with its secret, which cannot be read again."""

    link: Link
    secret: str


@dataclass(frozen=True, slots=True)
class OpenLink:
    """What the owner of a link's secret may know.

    Attributes:
        full_name: The name of the user whose password it resets; None for an invitation.
    """

    link: Link
    tenant: Tenant
    full_name: str | None


class _Id(msgspec.Struct, frozen=True):
    id: UUID


class _Found(Link, frozen=True):
    full_name: str | None


_now = sa.bindparam("now", type_=link.c.expires_at.type)
_id = sa.bindparam("link", type_=sa.Uuid)
_digest = sa.bindparam("digest", type_=sa.String)
_joined = link.outerjoin(user, user.c.id == link.c.user_id)
_columns = (
    link.c.id,
    link.c.user_id,
    link.c.email,
    link.c.role,
    link.c.created_at,
    link.c.expires_at,
)
_other = user.alias("other")
_is_invitation = link.c.user_id.is_(None)
# A change of the generation ends sessions: a new password, a deactivation, a logout everywhere.
_is_of_session = sa.and_(user.c.is_active, user.c.generation == link.c.generation)
_lasts = sa.and_(link.c.expires_at > _now, sa.or_(_is_invitation, _is_of_session))
# Who reads the mail of an earlier address may have the link.
_has_address = sa.or_(_is_invitation, user.c.email == link.c.email)
_is_hidden = sa.exists().where(_other.c.canonical_email == link.c.canonical_email)
_is_open = sa.and_(_lasts, _has_address, ~_is_hidden)
_FIND = Statement(
    sa.select(*_columns, user.c.full_name)
    .select_from(_joined)
    .where(link.c.digest == _digest, _is_open),
    _Found,
)
_PAGE = Statement(
    sa.select(*_columns)
    .select_from(_joined)
    .where(_lasts)
    .order_by(link.c.id)
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .offset(sa.bindparam("offset", type_=sa.BigInteger)),
    Link,
)
_COUNT = Statement(
    sa.select(sa.func.count().label("count")).select_from(_joined).where(_lasts), Count
)
_FORGET = Statement[Any](sa.delete(link).where(link.c.expires_at <= _now))
_TAKE = Statement(
    sa.delete(link).where(link.c.id == _id, link.c.digest == _digest).returning(link.c.id), _Id
)
_REMOVE = Statement(sa.delete(link).where(link.c.id == _id).returning(link.c.id), _Id)


def _upsert(target: sa.Column[Any]) -> Statement[Any]:
    """Return the statement that adds a link, or replaces the one with the same *target*."""
    added = insert(link)
    replaced = {one.name: added.excluded[one.name] for one in link.c if one is not target}
    return Statement(added.on_conflict_do_update(index_elements=[target], set_=replaced))


_INVITE, _RESET = _upsert(link.c.canonical_email), _upsert(link.c.user_id)


async def invite(
    ctx: OperationContext,
    database: TenantDatabase,
    tenant_id: UUID,
    *,
    email: str,
    role: TenantRole,
) -> IssuedLink:
    """Return a new invitation of a person to the tenant, which replaces an earlier one.

    Raises:
        BadEmail: It is not an address.
        EmailInUse: A user of the tenant has the address.
        TenantOutdated: The database is waiting to be migrated.
    """
    checked_email(email)
    await require_revision(database, WRITABLE_FROM)
    if await users.find_by_email(database, email) is not None:
        raise EmailInUse
    async with database.begin() as session:
        return await _issue(ctx, session, tenant_id, email=email, role=role.value)


async def issue_reset(
    ctx: OperationContext, database: TenantDatabase, tenant_id: UUID, user_id: UUID
) -> IssuedLink:
    """Return a new link with which a user sets a new password, which replaces an earlier one.

    Raises:
        UserNotFound: There is no such user.
        UserDeactivated: The user is inactive.
        TenantOutdated: The database is waiting to be migrated.
    """
    await require_revision(database, WRITABLE_FROM)
    async with database.begin() as session:
        locked = await users.lock(session, user_id)
        if not locked.is_active:
            raise UserDeactivated
        return await _issue(ctx, session, tenant_id, email=locked.email, of=locked)


async def _issue(
    ctx: OperationContext,
    session: TenantSession,
    tenant_id: UUID,
    *,
    email: str,
    role: str | None = None,
    of: User | None = None,
) -> IssuedLink:
    kind = INVITATION_KIND if of is None else RESET_KIND
    secret = mint(kind + base64.urlsafe_b64encode(tenant_id.bytes).decode().rstrip("="))
    user_id = None if of is None else of.id
    issued = Link(new_id(), user_id, email, role, ctx.now, ctx.now + LIFETIME)
    await session.execute(_FORGET, now=ctx.now)
    await session.execute(
        _INVITE if of is None else _RESET,
        **msgspec.structs.asdict(issued),
        digest=digest(secret),
        generation=None if of is None else of.generation,
        canonical_email=canonical_email(email) if of is None else None,
    )
    changes = audit_log.changes_between(None, issued, "email", "user_id", "role", "expires_at")
    await audit.LOG.add(session, ctx, "link.issue", issued.id, changes=changes)
    return IssuedLink(issued, secret)


async def page(ctx: OperationContext, database: TenantDatabase, window: Window) -> Page[Link]:
    """Return a page of the links that are open, the oldest first.

    Also of invitations that cannot be used while a user has their address, and of resets whose user
    has changed the address.

    Raises:
        TenantOutdated: The database is waiting to be migrated.
    """
    await require_revision(database, WRITABLE_FROM)
    items = await database.fetch_all(_PAGE, now=ctx.now, limit=window.size, offset=window.offset)
    total = await database.fetch_one(_COUNT, now=ctx.now)
    return Page(items, window, total.count if total else 0)


async def revoke(ctx: OperationContext, database: TenantDatabase, link_id: UUID) -> None:
    """Revoke a link.

    Raises:
        LinkNotFound: The tenant has no such link.
        TenantOutdated: The database is waiting to be migrated.
    """
    await require_revision(database, WRITABLE_FROM)
    async with database.begin() as session:
        if await session.fetch_one(_REMOVE, link=link_id) is None:
            raise LinkNotFound
        await audit.LOG.add(session, ctx, "link.revoke", link_id)


async def find(
    ctx: OperationContext,
    catalog: Catalog,
    databases: TenantDatabases,
    throttle: Throttle,
    *,
    secret: str,
) -> OpenLink:
    """Return the open link of a *secret*. Failures are limited as those of logins are.

    Raises:
        LinkRefused: There is none, or its tenant is suspended.
        TooManyAttempts: Try again later.
        DatabaseUnavailable, TenantOutdated: The tenant's database cannot be used now.
    """
    # A body accepts any text; the characters of a secret are ASCII.
    account = digest(secret) if secret.isascii() else ""
    try:
        # As a login counts an account that does not exist: a client network has one limit for all
        # secrets, and nobody who guesses delays the person who has a link.
        async with throttle.guess(realm=REALM, account=account, address=ctx.address):
            return await _find(ctx, catalog, databases, secret)
    except WrongPassword as error:
        raise LinkRefused from error


async def _find(
    ctx: OperationContext, catalog: Catalog, databases: TenantDatabases, secret: str
) -> OpenLink:
    tenant_id = _tenant_of(secret)
    tenant = None if tenant_id is None else await tenants.find(catalog, tenant_id)
    if tenant is None or not tenant.is_active or tenant.is_attached:
        raise WrongPassword
    database = await databases.open(tenant, writes=False)
    await require_revision(database, WRITABLE_FROM)
    found = await database.fetch_one(_FIND, digest=digest(secret), now=ctx.now)
    if found is None:
        raise WrongPassword
    return OpenLink(found, tenant, found.full_name)


def _tenant_of(secret: str) -> UUID | None:
    """Return the tenant that a well-formed secret names; None for others."""
    kind = secret[: len(RESET_KIND)]
    if kind not in {INVITATION_KIND, RESET_KIND} or not is_well_formed(kind, secret):
        return None
    text = secret[len(kind) : len(kind) + TENANT_CHARS]
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError:  # including binascii.Error
        return None


async def use(
    ctx: OperationContext,
    catalog: Catalog,
    databases: TenantDatabases,
    *,
    passwords: Passwords,
    throttle: Throttle,
    secret: str,
    password: str,
    full_name: str | None,
) -> OpenLink:
    """Set the password of the user of a link, or create the invited user; return what was used.

    The link ends. The invited user has the role of the link. A reset changes no role, and ends
    every session and McpToken of the user, as a new password by an admin does. *full_name* is that
    of a new user, and ignored for a reset.

    Raises:
        LinkRefused, TooManyAttempts: See `find`. Another request may have used the link.
        NameRequired, BadText, BadPassword: A rule is broken; the link stays open.
        TenantReadOnly: The tenant is read-only.
        TooManyLogins: Try again in a moment.
        DatabaseUnavailable, TenantOutdated: The tenant's database cannot be used now.
    """
    with passwords.place(network_of(ctx.address)) as place:
        found = await find(ctx, catalog, databases, throttle, secret=secret)
        new = None
        if found.link.role is not None:
            if full_name is None:
                raise NameRequired
            new = NewUser(
                email=found.link.email,
                full_name=full_name,
                password=password,
                role=TenantRole(found.link.role),
            )
            users.check_new(passwords, new)
        else:
            passwords.check_new(password, email=found.link.email)
        hashed = await place.hash(password)
    database = await databases.open(found.tenant, writes=True)
    acting = msgspec.structs.replace(ctx, actor=f"link:{found.link.id}")
    try:
        async with database.begin() as session:
            if new is not None:
                await _take(acting, session, found.link, secret)
                await users.add(acting, session, new, password_hash=hashed)
            else:
                await _reset(acting, catalog, session, found, secret=secret, hashed=hashed)
    except (EmailInUse, UserNotFound) as error:
        raise LinkRefused from error
    if new is None:
        await throttle.lift(realm=str(found.tenant.id), account=str(found.link.user_id))
    return found


async def _take(ctx: OperationContext, session: TenantSession, used: Link, secret: str) -> None:
    """Delete a link that is used; of two transactions, one does."""
    if await session.fetch_one(_TAKE, link=used.id, digest=digest(secret)) is None:
        raise LinkRefused
    await audit.LOG.add(session, ctx, "link.use", used.id)


async def _reset(
    ctx: OperationContext,
    catalog: Catalog,
    session: TenantSession,
    found: OpenLink,
    *,
    secret: str,
    hashed: str,
) -> None:
    assert found.link.user_id is not None
    # The user's row first, as every other change of a user locks it.
    locked = await users.lock(session, found.link.user_id)
    if await session.fetch_one(_FIND, digest=digest(secret), now=ctx.now) is None:
        raise LinkRefused  # the user was changed since it was found
    await _take(ctx, session, found.link, secret)
    await users.change_locked(
        ctx, catalog, session, locked, tenant_id=found.tenant.id, password_hash=hashed
    )
