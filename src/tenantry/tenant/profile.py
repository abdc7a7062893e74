"""Operations of users on their own account: log in, change the password, change the profile.

One statement changes the profile and adds the entry to the audit log.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.addresses import network_of
from tenantry.access.credentials import remove_tokens
from tenantry.access.emails import canonical_email, checked_email
from tenantry.access.login import check_login
from tenantry.access.login_throttle import Throttle
from tenantry.access.passwords import (
    BadPassword,
    Passwords,
    Place,
    WrongPassword,
    prepared_password,
)
from tenantry.access.principal import Person, Role
from tenantry.access.sign_ins import PASSWORD, Account, SignIns
from tenantry.access.tokens import IssuedToken, Tokens
from tenantry.catalog.database import Catalog
from tenantry.db import audit_log
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.db.types import json_text
from tenantry.kit.errors import Invalid
from tenantry.kit.ids import new_id_at
from tenantry.kit.preconditions import Expected, check
from tenantry.tenant import users
from tenantry.tenant.audit import LOG
from tenantry.tenant.databases import WRITABLE_FROM, TenantSession, require_revision
from tenantry.tenant.entry import (
    PersonContext,
    TenantContext,
    UnconfirmedContext,
    confirm_user,
    session_ended,
)
from tenantry.tenant.tables import audit, user
from tenantry.tenant.users import (
    COLUMNS,
    EMAIL_IN_USE,
    User,
    UserNotFound,
    checked_name,
)

_FIELDS = {"email": "email", "fullName": "full_name"}
# The columns of the audit entry that are parameters.
_ENTRY = ("id", "at", "actor", "target", "address", "command", "request_id")


def _logged(before: sa.FromClause, source: sa.FromClause) -> sa.Insert:
    """Return the statement that adds an audit entry if a value differs from *before*.

    The changes have the form of `audit_log.changes_between`; the values are never too long.
    """
    changes: sa.ColumnElement[str] = sa.literal_column("''", sa.String)
    differences = []
    for field, name in _FIELDS.items():
        old, new = before.c[name], sa.bindparam(name, type_=sa.String)
        differs = old != new
        change = (
            sa.literal_column(f"""',{{"field":"{field}","old":'""", sa.String)
            + json_text(old)
            + sa.literal_column("""',"new":'""", sa.String)
            + json_text(new)
            + sa.literal_column("'}'", sa.String)
        )
        changes += sa.case((differs, change), else_=sa.literal_column("''", sa.String))
        differences.append(differs)
    values: dict[str, sa.ColumnElement[Any]] = {
        name: sa.bindparam(f"audit_{name}", type_=audit.c[name].type) for name in _ENTRY
    }
    values["action"] = sa.literal_column("'profile.update'", sa.String)
    values["changes"] = (
        sa.literal_column("'['", sa.String)
        + sa.func.substr(changes, sa.literal_column("2"), type_=sa.String)
        + sa.literal_column("']'", sa.String)
    )
    selected = sa.select(*values.values()).select_from(source).where(sa.or_(*differences))
    return sa.insert(audit).from_select(list(values), selected)


def _update() -> Statement[User]:
    # The checks of `confirm_user`, in the statement itself.
    may_act = sa.and_(
        user.c.id == sa.bindparam("user"),
        user.c.is_active,
        sa.or_(
            user.c.token_generation == sa.bindparam("token_generation", type_=sa.Integer),
            sa.and_(
                sa.or_(
                    user.c.generation == sa.bindparam("session_generation", type_=sa.Integer),
                    user.c.spared_jti == sa.bindparam("session_jti", type_=sa.String),
                ),
                sa.not_(session_ended),
            ),
        ),
    )
    update = sa.update(user).values(parameters("email", "canonical_email", "full_name"))
    # Locked before it is read: no other transaction changes these values until this one ends.
    names = ("id", *_FIELDS.values())
    before = sa.select(*(user.c[name] for name in names)).where(may_act).with_for_update()
    old = before.cte("before")
    changed = update.where(user.c.id == old.c.id).returning(*COLUMNS).cte("changed")
    logged = _logged(old, old.join(changed, changed.c.id == old.c.id)).cte("logged")
    unchanged = before.subquery("before")
    return Statement(
        sa.select(*changed.c).add_cte(logged),
        User,
        conflicts=EMAIL_IN_USE,
        # On SQLite the transaction is the lock.
        on_sqlite=(
            _logged(unchanged, unchanged),
            update.where(may_act).returning(*COLUMNS),
        ),
    )


_UPDATE = _update()


async def update_profile(
    ctx: UnconfirmedContext, *, full_name: str, email: str, expected: Expected = None
) -> User:
    """Change the caller's name and e-mail address, and return the user.

    Raises:
        UserInactive, SessionEnded, McpTokenEnded, UserDeleted: See `confirm_user`.
        BadEmail, BadText: A rule is broken.
        EmailInUse: Another user of the tenant has the address.
        UserNotFound: The caller was deleted.
        ResourceChanged: The user is not what is *expected*.
        TenantOutdated: The tenant must be migrated to `WRITABLE_FROM` first.
    """
    await require_revision(ctx.database, WRITABLE_FROM)
    try:
        checked_name(full_name)
        checked_email(email)
    except Invalid:
        await confirm_user(ctx)
        raise
    if expected is not None:
        await confirm_user(ctx)
        async with ctx.database.begin() as session:
            check(expected, await users.lock(session, ctx.user_id))
            return await _update_profile(ctx, session, full_name, email)
    return await _update_profile(ctx, ctx.database, full_name, email)


async def _update_profile(
    ctx: UnconfirmedContext, session: TenantSession, full_name: str, email: str
) -> User:
    claims, token, user_id = ctx.identity.claims, ctx.identity.mcp_token, ctx.identity.user_id
    changed = await session.fetch_one(
        _UPDATE,
        user=user_id,
        token_generation=token.user_generation if token else None,
        session_generation=claims.generation if claims else None,
        session_jti=claims.jti if claims else None,
        full_name=full_name,
        email=email,
        canonical_email=canonical_email(email),
        audit_id=new_id_at(ctx.now),
        audit_at=ctx.now,
        audit_actor=ctx.actor,
        audit_target=str(user_id),
        audit_address=ctx.address,
        audit_command=ctx.command,
        audit_request_id=ctx.request_id,
    )
    if changed is None:
        await confirm_user(ctx)
        raise UserNotFound
    return changed


class _Account(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    is_active: bool
    generation: int
    token_generation: int
    password_hash: str


class _Generation(msgspec.Struct, frozen=True):
    token_generation: int


_ACCOUNT_COLUMNS = columns_of(user, _Account)
_by_id = user.c.id == sa.bindparam("user")
_FIND_ACCOUNT = Statement(sa.select(*_ACCOUNT_COLUMNS).where(_by_id), _Account)
_FIND_BY_EMAIL = Statement(
    sa.select(*_ACCOUNT_COLUMNS).where(user.c.canonical_email == sa.bindparam("email")), _Account
)
_REHASH = Statement[Any](
    sa.update(user)
    .values(password_hash=sa.bindparam("new"))
    .where(_by_id, user.c.password_hash == sa.bindparam("old"))
)
_CHANGE_PASSWORD = Statement(
    sa.update(user)
    .values(
        password_hash=sa.bindparam("new"),
        generation=user.c.generation + 1,
        spared_jti=sa.bindparam("jti"),
        token_generation=user.c.token_generation
        + sa.case((sa.bindparam("keeps_tokens", type_=sa.Boolean), 0), else_=1),
    )
    .where(
        _by_id,
        user.c.password_hash == sa.bindparam("old"),
        # It changes when the user is deactivated, and when all sessions are ended.
        user.c.generation == sa.bindparam("session_generation", type_=sa.Integer),
    )
    .returning(user.c.token_generation),
    _Generation,
)


async def login(
    ctx: TenantContext,
    *,
    passwords: Passwords,
    throttle: Throttle,
    sign_ins: SignIns,
    tokens: Tokens,
    email: str,
    password: str,
) -> IssuedToken:
    """Return a token for a user.

    Raises:
        LoginRefused: The address or the password is wrong, or the user is inactive.
        TooManyAttempts, TooManyLogins: Try again later.
    """
    account = await ctx.database.fetch_one(_FIND_BY_EMAIL, email=canonical_email(email))
    usable = account if account is not None and account.is_active else None
    rehashed = await check_login(
        ctx,
        passwords,
        throttle,
        sign_ins,
        realm=str(ctx.tenant.id),
        # Counted by id: otherwise an attacker with a session resets the count by a new address.
        # An unknown address is never counted as an id, also if it is the text of one.
        counted_as=f"unknown {email}" if account is None else str(account.id),
        account=_named(ctx, None if account is None else account.id),
        stored=usable.password_hash if usable else None,
        password=password,
    )
    assert usable is not None, "check_login raises without an account"
    if rehashed is not None and not ctx.tenant.is_read_only:
        await ctx.database.execute(_REHASH, user=usable.id, old=usable.password_hash, new=rehashed)
    person = Person(
        usable.id, usable.email, Role.TENANT_USER, usable.generation, tenant_id=ctx.tenant.id
    )
    return await tokens.issue(person, now=ctx.now)


async def change_password(
    ctx: PersonContext,
    catalog: Catalog,
    *,
    passwords: Passwords,
    throttle: Throttle,
    sign_ins: SignIns,
    current_password: str,
    new_password: str,
    keep_mcp_tokens: bool,
) -> None:
    """Change the caller's password, and end the caller's other sessions.

    With *keep_mcp_tokens*, the McpTokens that are bound to the caller stay valid.

    Raises:
        UserNotFound: The caller was deleted.
        BadPassword: The new password breaks a rule.
        WrongPassword: The current password is wrong, or was changed concurrently.
        TooManyAttempts, TooManyLogins: Try again later.
    """
    account = await _account(ctx)
    passwords.check_new(new_password, email=account.email, name="newPassword")
    if prepared_password(new_password) == prepared_password(current_password):
        raise BadPassword("`newPassword` must not be the current one.")
    async with _proved(
        ctx, account, passwords, throttle, sign_ins, password=current_password
    ) as place:
        hashed = await place.hash(new_password)
    async with ctx.database.begin() as session:
        changed = await session.fetch_one(
            _CHANGE_PASSWORD,
            user=account.id,
            old=account.password_hash,
            session_generation=account.generation,
            new=hashed,
            jti=ctx.jti,
            keeps_tokens=keep_mcp_tokens,
        )
        if changed is not None:
            changes = audit_log.named_change("password")
            await LOG.add(session, ctx, "password.change", account.id, changes=changes)
            await remove_tokens(
                ctx, catalog, ctx.tenant.id, account.id, generation=changed.token_generation
            )
    if changed is None:
        await confirm_user(ctx)
        raise WrongPassword


async def confirm_password(
    ctx: PersonContext,
    *,
    passwords: Passwords,
    throttle: Throttle,
    sign_ins: SignIns,
    password: str,
) -> int:
    """Verify the caller's password again, and return the generation of their McpTokens.

    Raises:
        UserNotFound: The caller was deleted.
        WrongPassword: The password is wrong.
        TooManyAttempts, TooManyLogins: Try again later.
    """
    account = await _account(ctx)
    async with _proved(ctx, account, passwords, throttle, sign_ins, password=password):
        return account.token_generation


def _named(ctx: TenantContext, user_id: UUID | None) -> Account:
    actor = None if user_id is None else f"user:{user_id}"
    return Account(ctx.tenant.id, user_id, actor)


@asynccontextmanager
async def _proved(
    ctx: PersonContext,
    account: _Account,
    passwords: Passwords,
    throttle: Throttle,
    sign_ins: SignIns,
    *,
    password: str,
) -> AsyncIterator[Place]:
    """Yield a place to hash in, after checking the *password* of the caller's *account*.

    The session is checked after the account was read: the account is as it was before any
    deactivation, so nothing that is bound to its generations outlives that.
    """
    await confirm_user(ctx)
    with passwords.place(network_of(ctx.address)) as place:
        with sign_ins.recording(ctx, PASSWORD, _named(ctx, account.id)):
            async with throttle.guess(
                realm=str(ctx.tenant.id), account=str(account.id), address=ctx.address
            ):
                await place.verify(account.password_hash, password)
        yield place


async def _account(ctx: PersonContext) -> _Account:
    found = await ctx.database.fetch_one(_FIND_ACCOUNT, user=ctx.user_id)
    if found is None:
        raise UserNotFound
    return found
