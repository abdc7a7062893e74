"""Log out: end the caller's session, or all of them."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tenantry.access.sign_ins import LOGOUT, Account, SignIns
from tenantry.db.statements import Count, Statement, insert
from tenantry.kit.errors import Forbidden
from tenantry.migration.schema_state import READ_VERSION
from tenantry.tenant.databases import WRITABLE_FROM, TenantSession
from tenantry.tenant.entry import PersonContext
from tenantry.tenant.tables import ended_session, link, user

# For one user. Beyond this, all sessions of the user are ended, which needs no list.
ENDED_SESSIONS_MAX = 100
# If the clock is set back, an expired token verifies again.
KEPT_AFTER_EXPIRY = timedelta(hours=2)
# The generation after a restore is above every count of changes, and at least 2**29 below the
# highest value of a column of 32 bits.
RESTORED_MIN = 2**30
RESTORED_BITS = 29

_of_user = ended_session.c.user_id == sa.bindparam("user", type_=sa.Uuid)
_ADD = Statement[Any](insert(ended_session).on_conflict_do_nothing())
_COUNT = Statement(
    sa.select(sa.func.count().label("count")).select_from(ended_session).where(_of_user), Count
)
_FORGET = Statement[Any](
    sa.delete(ended_session).where(
        ended_session.c.expires_at < sa.bindparam("before", type_=ended_session.c.expires_at.type)
    )
)
_REMOVE = Statement[Any](sa.delete(ended_session).where(_of_user))
_generation = sa.bindparam("generation", type_=sa.Integer)
_END_EVERY = Statement[Any](
    sa.update(user).values(generation=_generation, token_generation=_generation, spared_jti=None)
)
_end_sessions = sa.update(user).values(generation=user.c.generation + 1, spared_jti=None)
_END_SESSIONS = Statement[Any](_end_sessions)
_END_LINKS = Statement[Any](sa.delete(link))
_END_ALL = Statement[Any](_end_sessions.where(user.c.id == sa.bindparam("user")))


class NoSession(Forbidden):
    """Logging out requires a session."""


async def end(ctx: PersonContext, sign_ins: SignIns, *, everywhere: bool) -> None:
    """End the caller's session, or all of them; McpTokens stay valid.

    Raises:
        NoSession: The caller has none.
    """
    claims = ctx.identity.claims
    if claims is None:
        raise NoSession
    await sign_ins.record(ctx, LOGOUT, Account(ctx.tenant.id, ctx.user_id, ctx.actor))
    async with ctx.database.begin() as session:
        if everywhere:
            await _end_all(session, ctx)
            return
        expires_at = datetime.fromtimestamp(claims.exp, UTC)
        await session.execute(_FORGET, before=ctx.now - KEPT_AFTER_EXPIRY)
        await session.execute(_ADD, jti=claims.jti, user_id=ctx.user_id, expires_at=expires_at)
        count = await session.fetch_one(_COUNT, user=ctx.user_id)
        if count is not None and count.count > ENDED_SESSIONS_MAX:
            await _end_all(session, ctx)


async def end_every(session: TenantSession) -> None:
    """End every session, McpToken and one-time link of a restored database.

    A token is valid only in its own generation. The generations in this database are older than
    those that tokens were issued with since the backup, and the current database may be lost. So
    the new one is random: no clock or counter can repeat one that has ended.
    """
    generation = RESTORED_MIN + secrets.randbits(RESTORED_BITS)
    await session.execute(_END_EVERY, generation=generation)
    await _end_links(session)


async def end_sessions(session: TenantSession) -> None:
    """End every session of every user, and every one-time link; McpTokens stay valid."""
    await session.execute(_END_SESSIONS)
    await _end_links(session)


async def _end_links(session: TenantSession) -> None:
    # An old archive has none.
    found = await session.fetch_one(READ_VERSION)
    if found is not None and found.version_num >= WRITABLE_FROM:
        await session.execute(_END_LINKS)


async def _end_all(session: TenantSession, ctx: PersonContext) -> None:
    await session.execute(_END_ALL, user=ctx.user_id)
    await session.execute(_REMOVE, user=ctx.user_id)
