"""The users of a tenant: find, create, change and delete them.

Every change is an entry in the tenant's audit log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.credentials import remove_tokens
from tenantry.access.emails import canonical_email, checked_email
from tenantry.access.login_throttle import Throttle
from tenantry.access.passwords import Passwords
from tenantry.access.principal import TenantRole
from tenantry.catalog.database import Catalog
from tenantry.db import audit_log
from tenantry.db.statements import Count, Row, Statement, columns_of
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Page, Window
from tenantry.kit.preconditions import Expected, check
from tenantry.kit.text import checked_label
from tenantry.tenant import audit
from tenantry.tenant.databases import (
    WRITABLE_FROM,
    TenantDatabase,
    TenantSession,
    has_revision,
    require_revision,
)
from tenantry.tenant.last_owner import LastOwner, lock_another
from tenantry.tenant.tables import link, user

FULL_NAME_CHARS_MAX = 200

checked_name = partial(checked_label, "fullName", chars_max=FULL_NAME_CHARS_MAX)
"""Return a full name if it is valid; raises `BadText` if not."""


class UserNotFound(NotFound):
    """There is no such user."""


class EmailInUse(Conflict):
    """This e-mail address is already in use."""


@dataclass(frozen=True, kw_only=True)
class NewUser:
    """The values of a user to create."""

    email: str
    full_name: str
    password: str
    role: TenantRole = TenantRole.OWNER


class User(msgspec.Struct, frozen=True):
    """A user of one tenant.

    Attributes:
        generation: Incremented to end every session; a token contains its generation.
        spared_jti: The session that stayed valid at the last increment, if any.
        token_generation: Incremented to end every McpToken that is bound to the user.
        role: One of `TenantRole`.
    """

    id: UUID
    email: str
    full_name: str
    is_active: bool
    created_at: datetime
    generation: int
    spared_jti: str | None
    token_generation: int
    role: str

    @property
    def is_owner(self) -> bool:
        """Whether the user is an active owner."""
        return self.is_active and self.role == TenantRole.OWNER


COLUMNS = columns_of(user, User)
_COLUMNS_BEFORE = [
    *(column for column in COLUMNS if column is not user.c.role),
    sa.literal_column(f"'{TenantRole.OWNER}'", sa.String).label("role"),
]
EMAIL_IN_USE: dict[str, type[Conflict]] = {"uq_tenantry_user_canonical_email": EmailInUse}
_by_id = user.c.id == sa.bindparam("user")

_ADD = Statement[Any](sa.insert(user), conflicts=EMAIL_IN_USE)


def before_and_now(
    row: type[Row], select: Callable[..., sa.Select[Any]]
) -> Sequence[Statement[Row]]:
    """Return the statements of a query of users, before `WRITABLE_FROM` and now; see `known`."""
    return [Statement(select(*one), row) for one in (_COLUMNS_BEFORE, COLUMNS)]


_FIND = before_and_now(User, lambda *some: sa.select(*some).where(_by_id))
_LOCK = Statement(sa.select(*COLUMNS).where(_by_id).with_for_update(), User)
_with_email = user.c.canonical_email == sa.bindparam("email")
_FIND_BY_EMAIL = before_and_now(User, lambda *some: sa.select(*some).where(_with_email))
_limit, _offset = (sa.bindparam(name, type_=sa.BigInteger) for name in ("limit", "offset"))
_PAGE = before_and_now(
    User, lambda *some: sa.select(*some).order_by(user.c.id).limit(_limit).offset(_offset)
)
_COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(user), Count)
_CHANGED = ("email", "canonical_email", "full_name", "is_active", "password_hash", "role")
# None keeps the current value of the row, not the value that was read before.
_UPDATE = Statement(
    sa.update(user)
    .values(
        {
            name: sa.func.coalesce(sa.bindparam(name, type_=user.c[name].type), user.c[name])
            for name in _CHANGED
        }
    )
    .where(_by_id)
    .returning(*COLUMNS),
    User,
    conflicts=EMAIL_IN_USE,
)
_END_SESSIONS = Statement(
    sa.update(user)
    .values(
        generation=user.c.generation + 1,
        spared_jti=None,
        token_generation=user.c.token_generation + 1,
    )
    .where(_by_id)
    .returning(*COLUMNS),
    User,
)
_REMOVE = Statement[Any](sa.delete(user).where(_by_id))
_with_link = link.c.canonical_email == sa.bindparam("email")
_END_INVITATION = Statement[Any](sa.delete(link).where(_with_link))
# Also a link to reset a password, which the owner of the earlier address may have.
_END_LINKS = Statement[Any](
    sa.delete(link).where(sa.or_(_with_link, link.c.user_id == sa.bindparam("user")))
)


async def find(database: TenantDatabase, user_id: UUID) -> User | None:
    """Return the user with this id, if there is one."""
    return await database.fetch_one(await known(database, _FIND), user=user_id)


async def find_by_email(database: TenantDatabase, email: str) -> User | None:
    """Return the user with this e-mail address, if there is one."""
    found = await known(database, _FIND_BY_EMAIL)
    return await database.fetch_one(found, email=canonical_email(email))


async def get(database: TenantDatabase, user_id: UUID) -> User:
    """Return the user with this id.

    Raises:
        UserNotFound: There is none.
    """
    found = await find(database, user_id)
    if found is None:
        raise UserNotFound
    return found


async def lock(session: TenantSession, user_id: UUID) -> User:
    """Return the user with this id, and lock the row until the transaction ends.

    Raises:
        UserNotFound: There is none.
    """
    found = await session.fetch_one(_LOCK, user=user_id)
    if found is None:
        raise UserNotFound
    return found


async def page(database: TenantDatabase, window: Window) -> Page[User]:
    """Return a page of the users, the oldest first."""
    found = await known(database, _PAGE)
    items = await database.fetch_all(found, limit=window.size, offset=window.offset)
    total = await database.fetch_one(_COUNT)
    return Page(items, window, total.count if total else 0)


async def add(
    ctx: OperationContext, session: TenantSession, new: NewUser, *, password_hash: str
) -> User:
    """Insert a user and an audit entry, and return the user. Call `check_new` first.

    Raises:
        EmailInUse: Another user of the tenant has the address.
    """
    role = new.role.value
    added = User(new_id(), new.email, new.full_name, True, ctx.now, 0, None, 0, role)  # noqa: FBT003
    await session.execute(
        _ADD,
        canonical_email=canonical_email(new.email),
        password_hash=password_hash,
        **msgspec.structs.asdict(added),
    )
    changes = audit_log.changes_between(None, added, "email", "full_name", "role")
    await audit.LOG.add(session, ctx, "user.create", added.id, changes=changes)
    return added


def check_new(passwords: Passwords, new: NewUser) -> None:
    """Check the values of a new user.

    Raises:
        BadEmail, BadText, BadPassword: A rule is broken.
    """
    checked_email(new.email)
    checked_name(new.full_name)
    passwords.check_new(new.password, email=new.email)


async def create(
    ctx: OperationContext, database: TenantDatabase, passwords: Passwords, new: NewUser
) -> User:
    """Create a user. An invitation of the address ends.

    Raises:
        BadEmail, BadText, BadPassword: A rule is broken.
        EmailInUse: Another user of the tenant has the address.
        TenantOutdated: The tenant must be migrated to `WRITABLE_FROM` first.
    """
    await require_revision(database, WRITABLE_FROM)
    check_new(passwords, new)
    hashed = await passwords.hash(new.password)
    async with database.begin() as session:
        # Otherwise it would work again when this user is deleted.
        await session.execute(_END_INVITATION, email=canonical_email(new.email))
        return await add(ctx, session, new, password_hash=hashed)


async def update(
    ctx: OperationContext,
    catalog: Catalog,
    database: TenantDatabase,
    passwords: Passwords,
    user_id: UUID,
    *,
    tenant_id: UUID,
    throttle: Throttle,
    email: str | None = None,
    full_name: str | None = None,
    expected: Expected = None,
    is_active: bool | None = None,
    password: str | None = None,
    role: TenantRole | None = None,
) -> User:
    """Set the values that are not None, and return the user.

    A new password or a deactivation ends every session and McpToken of the user. Values that the
    user has already change nothing. A new *role* holds at the next request of the user.

    Raises:
        BadEmail, BadText, BadPassword: A rule is broken.
        EmailInUse: Another user of the tenant has the address.
        LastOwner: No active owner would be left.
        UserNotFound: There is no such user.
        ResourceChanged: The user is not what is *expected*.
        TenantOutdated: The tenant must be migrated to `WRITABLE_FROM` first.
    """
    await require_revision(database, WRITABLE_FROM)
    before = await get(database, user_id)
    if email is not None:
        checked_email(email)
    if full_name is not None:
        checked_name(full_name)
    hashed = None
    if password is not None:
        passwords.check_new(password, email=email or before.email)
        hashed = await passwords.hash(password)
    leaves = is_active is False or role not in {None, TenantRole.OWNER}
    async with database.begin() as session:
        locked = await _lock_to_change(session, user_id, expected, leaves=leaves)
        sent = dict[str, Any](email=email, full_name=full_name, is_active=is_active, role=role)
        if hashed is None and all(
            value in (None, getattr(locked, name)) for name, value in sent.items()
        ):
            return locked
        user = await change_locked(
            ctx, catalog, session, locked, tenant_id=tenant_id, **sent, password_hash=hashed
        )
    if hashed is not None:
        await throttle.lift(realm=str(tenant_id), account=str(user_id))
    return user


async def delete(
    ctx: OperationContext,
    catalog: Catalog,
    database: TenantDatabase,
    tenant_id: UUID,
    user_id: UUID,
    *,
    expected: Expected = None,
) -> None:
    """Delete a user, and the McpTokens that act as that user.

    Raises:
        LastOwner: No active owner would be left.
        UserNotFound: There is no such user.
        ResourceChanged: The user is not what is *expected*.
        TenantOutdated: The tenant must be migrated to `WRITABLE_FROM` first.
    """
    await require_revision(database, WRITABLE_FROM)
    async with database.begin() as session:
        locked = await _lock_to_change(session, user_id, expected, leaves=True)
        await session.execute(_REMOVE, user=user_id)
        changes = audit_log.changes_between(locked, None, "email", "full_name", "role")
        await audit.LOG.add(session, ctx, "user.delete", user_id, changes=changes)
        # Last before the COMMIT, so that a retry of the transaction does not repeat it.
        await remove_tokens(ctx, catalog, tenant_id, user_id)


async def known(database: TenantDatabase, reads: Sequence[Statement[Row]]) -> Statement[Row]:
    """Return which of two statements reads the users: before `WRITABLE_FROM`, or now."""
    return reads[await has_revision(database, WRITABLE_FROM)]


async def _lock_to_change(
    session: TenantSession, user_id: UUID, expected: Expected, *, leaves: bool
) -> User:
    """Lock a user who is *expected*; one who *leaves* is then no active owner."""
    is_another = not leaves or await lock_another(session, user_id)
    locked = await lock(session, user_id)
    check(expected, locked)
    if locked.is_owner and not is_another:
        raise LastOwner
    return locked


async def change_locked(
    ctx: OperationContext,
    catalog: Catalog,
    session: TenantSession,
    locked: User,
    *,
    tenant_id: UUID,
    email: str | None = None,
    full_name: str | None = None,
    is_active: bool | None = None,
    password_hash: str | None = None,
    role: str | None = None,
) -> User:
    """Set the values that are not None of a user from `lock`, add an audit entry; return the user.

    Call it last before the transaction ends: it changes the catalog. See `update` for what ends.

    Raises:
        EmailInUse: Another user of the tenant has the address.
        UserNotFound: There is no such user.
    """
    changed = await session.fetch_one(
        _UPDATE,
        user=locked.id,
        email=email,
        canonical_email=None if email is None else canonical_email(email),
        full_name=full_name,
        is_active=is_active,
        password_hash=password_hash,
        role=role,
    )
    if password_hash is not None or is_active is False:
        changed = await session.fetch_one(_END_SESSIONS, user=locked.id)
    if changed is None:
        raise UserNotFound
    if email is not None and changed.email != locked.email:
        await session.execute(_END_LINKS, email=canonical_email(email), user=locked.id)
    changes = audit_log.changes_between(locked, changed, "email", "full_name", "is_active", "role")
    if password_hash is not None:
        changes += audit_log.named_change("password")
    await audit.LOG.add(session, ctx, "user.update", locked.id, changes=changes)
    # An inactive user keeps them, so that the log shows why a request is rejected.
    if changed.is_active:
        await remove_tokens(ctx, catalog, tenant_id, locked.id, generation=changed.token_generation)
    return changed
