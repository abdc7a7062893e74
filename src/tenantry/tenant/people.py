"""Manage the users of a tenant from outside, and write each change to the tenant's audit log."""

from uuid import UUID

from tenantry.access.passwords import Passwords
from tenantry.access.throttle import Throttle
from tenantry.catalog.database import Catalog
from tenantry.db import audit_log
from tenantry.kit.context import OperationContext
from tenantry.tenant import audit, tokens, users
from tenantry.tenant.databases import TenantDatabase, TenantSession
from tenantry.tenant.users import User


async def create(
    ctx: OperationContext,
    database: TenantDatabase,
    passwords: Passwords,
    *,
    email: str,
    full_name: str,
    password: str,
) -> User:
    """Return a new user.

    Raises:
        BadEmail, BadText, BadPassword: A rule is broken.
        EmailInUse: Another user of the tenant has the address.
    """
    users.check_new(passwords, email=email, full_name=full_name, password=password)
    hashed = await passwords.hash(password)
    async with database.begin() as session:
        user = await users.add(ctx, session, email=email, full_name=full_name, password_hash=hashed)
        await add_created(session, ctx, user)
    return user


async def add_created(session: TenantSession, ctx: OperationContext, user: User) -> None:
    """Add the entry about a new user, in the transaction that adds the user."""
    changes = audit_log.changes_between(None, user, "email", "full_name")
    await audit.LOG.add(session, ctx, "user.create", user.id, changes=changes)


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
    is_active: bool | None = None,
    password: str | None = None,
) -> User:
    """Change what is not None; return the user as it then is; see `users.update`.

    Raises:
        BadEmail, BadText, BadPassword: A rule is broken.
        EmailInUse: Another user of the tenant has the address.
        UserNotFound: There is no such user.
    """
    before = await users.get(database, user_id)
    users.check_changes(passwords, before, email=email, full_name=full_name, password=password)
    hashed = None if password is None else await passwords.hash(password)
    async with database.begin() as session:
        locked = await users.find_locked(session, user_id)
        user = await users.update(
            session,
            user_id,
            email=email,
            full_name=full_name,
            is_active=is_active,
            password_hash=hashed,
        )
        changes = audit_log.changes_between(locked, user, "email", "full_name", "is_active")
        if hashed is not None:
            changes += audit_log.named_change("password")
        await audit.LOG.add(session, ctx, "user.update", user_id, changes=changes)
        # While the user is inactive they are kept, so that the log shows why a request is rejected.
        if user.is_active:
            await tokens.remove_dead(
                ctx, catalog, tenant_id, user_id, generation=user.token_generation
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
) -> None:
    """Delete a user, and the McpTokens that act as that user.

    Raises:
        UserNotFound: There is no such user.
    """
    async with database.begin() as session:
        changes = audit_log.changes_between(
            await users.find_locked(session, user_id), None, "email", "full_name"
        )
        await users.remove(session, user_id)
        await audit.LOG.add(session, ctx, "user.delete", user_id, changes=changes)
        # Last before the COMMIT, so that it is not done again when the first is tried again.
        await tokens.remove_all(ctx, catalog, tenant_id, user_id)
