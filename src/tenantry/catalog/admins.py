"""The accounts of admins, as stored."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.session import CatalogSession, Value, fetch_or_raise, fetch_values
from tenantry.catalog.tables import admin, ended_session
from tenantry.db.statements import Statement, columns_of, insert
from tenantry.kit.errors import Conflict, NotFound

ADMINS_LISTED_MAX = 1_000
# For one admin. Beyond this, all sessions of the admin are ended, which needs no list.
ENDED_SESSIONS_MAX = 100


class AdminEmailInUse(Conflict):
    """An admin with this e-mail address exists."""


class AdminNotFound(NotFound):
    """There is no such admin."""


class Admin(msgspec.Struct, frozen=True):
    """An account that may manage every tenant.

    Attributes:
        generation: Incremented to end every session; a token contains its generation.
    """

    id: UUID
    email: str
    is_active: bool
    generation: int
    created_at: datetime


class AdminAccount(Admin, frozen=True):
    """An admin, with the hash of the password."""

    password_hash: str


_ADD = Statement[Any](sa.insert(admin), conflicts={"uq_admin_canonical_email": AdminEmailInUse})
_COLUMNS = columns_of(admin, Admin)
_FIND = Statement(sa.select(*_COLUMNS).where(admin.c.id == sa.bindparam("id")), Admin)
_FIND_ACCOUNT = Statement(
    sa.select(*columns_of(admin, AdminAccount)).where(
        admin.c.canonical_email == sa.bindparam("email")
    ),
    AdminAccount,
)
_ALL = Statement(sa.select(*_COLUMNS).order_by(admin.c.id).limit(ADMINS_LISTED_MAX), Admin)
_ACTIVE = Statement(
    sa.select(*_COLUMNS).where(admin.c.is_active).order_by(admin.c.id).with_for_update(), Admin
)
_UPDATE = Statement(
    sa.update(admin)
    .values(
        is_active=sa.bindparam("active"),
        password_hash=sa.func.coalesce(sa.bindparam("new", type_=sa.String), admin.c.password_hash),
        generation=admin.c.generation + 1,
    )
    .where(admin.c.id == sa.bindparam("admin"))
    .returning(*_COLUMNS),
    Admin,
)
_SET_PASSWORD_HASH = Statement[Any](
    sa.update(admin)
    .values(password_hash=sa.bindparam("new"))
    .where(admin.c.id == sa.bindparam("admin"), admin.c.password_hash == sa.bindparam("old"))
)


_of_admin = ended_session.c.admin_id == sa.bindparam("admin", type_=sa.Uuid)
_ENDED_SESSIONS = Statement(
    sa.select(ended_session.c.jti.label("value")).where(_of_admin).limit(ENDED_SESSIONS_MAX + 1),
    Value,
)
_END_SESSION = Statement[Any](insert(ended_session).on_conflict_do_nothing())
_FORGET_SESSIONS = Statement[Any](
    sa.delete(ended_session).where(
        ended_session.c.expires_at < sa.bindparam("before", type_=ended_session.c.expires_at.type)
    )
)
_REMOVE_SESSIONS = Statement[Any](sa.delete(ended_session).where(_of_admin))
_END_SESSIONS = Statement[Any](
    sa.update(admin)
    .values(generation=admin.c.generation + 1)
    .where(admin.c.id == sa.bindparam("admin"))
)


async def add(
    session: CatalogChange, added: Admin, *, canonical_email: str, password_hash: str
) -> None:
    """Insert an admin.

    Raises:
        AdminEmailInUse: The address is taken.
    """
    await session.execute(
        _ADD,
        canonical_email=canonical_email,
        password_hash=password_hash,
        **msgspec.structs.asdict(added),
    )


async def find(session: CatalogSession, admin_id: UUID) -> Admin | None:
    """Return the admin with this id, if there is one."""
    return await session.fetch_one(_FIND, id=admin_id)


async def get(session: CatalogSession, admin_id: UUID) -> Admin:
    """Return the admin with this id.

    Raises:
        AdminNotFound: There is none.
    """
    return await fetch_or_raise(session, _FIND, AdminNotFound, id=admin_id)


async def find_account(session: CatalogSession, canonical_email: str) -> AdminAccount | None:
    """Return the admin with this e-mail address, if there is one."""
    return await session.fetch_one(_FIND_ACCOUNT, email=canonical_email)


async def every(session: CatalogSession) -> list[Admin]:
    """Return the admins, the oldest first."""
    return await session.fetch_all(_ALL)


async def lock_active(session: CatalogChange) -> list[Admin]:
    """Return the active admins, locked until the change ends."""
    return await session.fetch_all(_ACTIVE)


async def update(
    session: CatalogChange, admin_id: UUID, *, is_active: bool, password_hash: str | None
) -> Admin:
    """Activate or deactivate an admin, set the password unless None, and end every session.

    Raises:
        AdminNotFound: There is no such admin.
    """
    return await fetch_or_raise(
        session, _UPDATE, AdminNotFound, admin=admin_id, active=is_active, new=password_hash
    )


async def ended_sessions(session: CatalogSession, admin_id: UUID) -> frozenset[str]:
    """Return the `jti` of the sessions of an admin that were ended individually."""
    return frozenset(await fetch_values(session, _ENDED_SESSIONS, admin=admin_id))


async def end_session(
    session: CatalogChange,
    admin_id: UUID,
    jti: str,
    *,
    expires_at: datetime,
    forget_before: datetime,
) -> None:
    """End one session of an admin, and remove those that expired before *forget_before*."""
    await session.execute(_FORGET_SESSIONS, before=forget_before)
    await session.execute(_END_SESSION, jti=jti, admin_id=admin_id, expires_at=expires_at)
    if len(await ended_sessions(session, admin_id)) > ENDED_SESSIONS_MAX:
        await end_sessions(session, admin_id)


async def end_sessions(session: CatalogChange, admin_id: UUID) -> None:
    """End every session of an admin."""
    await session.execute(_END_SESSIONS, admin=admin_id)
    await session.execute(_REMOVE_SESSIONS, admin=admin_id)


async def rehash(session: CatalogSession, admin_id: UUID, *, old: str, new: str) -> None:
    """Replace the hash *old* by *new*, of the same password, unless it has changed since."""
    await session.execute(_SET_PASSWORD_HASH, admin=admin_id, old=old, new=new)
