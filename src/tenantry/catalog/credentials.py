"""API keys and McpTokens, as stored: identified by the digest of the secret."""

from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.session import (
    CatalogSession,
    RowId,
    Value,
    fetch_or_raise,
    fetch_row,
    fetch_value,
)
from tenantry.catalog.tables import api_key, mcp_token
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.errors import Conflict, NotFound

# All that a tenant can have, so the lists have no pages.
KEYS_PER_TENANT_MAX = 1_000
TOKENS_PER_TENANT_MAX = 2_000


class ApiKeyNotFound(NotFound):
    """There is no such API key."""


class ApiKeyEnding(Conflict):
    """The API key was rotated, or has expired: rotate its successor, or create another key."""


class McpTokenNotFound(NotFound):
    """There is no such McpToken."""


class ApiKey(msgspec.Struct, frozen=True):
    """A credential that identifies a tenant.

    Attributes:
        prefix: The beginning of the secret, to recognise it.
        expires_at: When it becomes invalid; None for never.
        last_used_at: When a request last used it, to the minute or so; None if none did.
        replaced_at: When it was rotated; None if it was not.
    """

    id: UUID
    tenant_id: UUID
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    replaced_at: datetime | None


class McpToken(msgspec.Struct, frozen=True):
    """A credential that acts for a tenant, or for one of its users.

    Attributes:
        name: What it is for: one line of at most 100 characters.
        prefix: The beginning of the secret, to recognise it.
        user_id: The user for whom it acts; None if it is bound to no user.
        user_generation: The generation of the user's McpTokens when it was issued. It is valid only
            in that generation.
        scopes: What it may do.
        expires_at: When it becomes invalid.
        last_used_at: When a request last used it, to the minute or so; None if none did.
    """

    id: UUID
    tenant_id: UUID
    name: str
    prefix: str
    user_id: UUID | None
    user_generation: int | None
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


Credential = TypeVar("Credential", bound=ApiKey | McpToken)


class TokenCounts(msgspec.Struct, frozen=True):
    """How many McpTokens a tenant has, and how many of them are bound to one user."""

    of_tenant: int
    of_user: int


_KEY_COLUMNS = columns_of(api_key, ApiKey)
_TOKEN_COLUMNS = columns_of(mcp_token, McpToken)
_of_digest = sa.bindparam("digest", type_=sa.String)
_of_tenant = sa.bindparam("tenant", type_=sa.Uuid)
_of_id = sa.bindparam("credential", type_=sa.Uuid)

_TABLES = {ApiKey: api_key, McpToken: mcp_token}
_ADD = {kind: Statement[Any](sa.insert(table)) for kind, table in _TABLES.items()}
_FIND: dict[type, Statement[Any]] = {
    kind: Statement(sa.select(*columns_of(table, kind)).where(table.c.digest == _of_digest), kind)
    for kind, table in _TABLES.items()
}
_KEYS = Statement(
    sa.select(*_KEY_COLUMNS)
    .where(api_key.c.tenant_id == _of_tenant)
    .order_by(api_key.c.id)
    .limit(KEYS_PER_TENANT_MAX),
    ApiKey,
)
_user = sa.bindparam("user", type_=sa.Uuid)
_TOKENS = Statement(
    sa.select(*_TOKEN_COLUMNS)
    .where(
        mcp_token.c.tenant_id == _of_tenant, sa.or_(_user.is_(None), mcp_token.c.user_id == _user)
    )
    .order_by(mcp_token.c.id)
    .limit(TOKENS_PER_TENANT_MAX),
    McpToken,
)
_COUNT_TOKENS = Statement(
    sa.select(
        sa.func.count().label("of_tenant"),
        sa.func.count(sa.case((mcp_token.c.user_id == _user, 1))).label("of_user"),
    ).where(mcp_token.c.tenant_id == _of_tenant),
    TokenCounts,
)


def _remove_expired(table: sa.Table) -> Statement[Any]:
    has_expired = table.c.expires_at < sa.bindparam("before", type_=table.c.expires_at.type)
    return Statement(sa.delete(table).where(table.c.tenant_id == _of_tenant, has_expired))


_REMOVE_EXPIRED = {kind: _remove_expired(table) for kind, table in _TABLES.items()}
_uses = sa.union_all(
    sa.select(api_key.c.last_used_at).where(api_key.c.tenant_id == _of_tenant),
    sa.select(mcp_token.c.last_used_at).where(mcp_token.c.tenant_id == _of_tenant),
).subquery()
_LAST_USE = Statement(sa.select(sa.func.max(_uses.c.last_used_at).label("value")), Value)
_expires_at = sa.bindparam("expires_at", type_=api_key.c.expires_at.type)
_LOCK_KEY = Statement(
    sa.select(*_KEY_COLUMNS)
    .where(api_key.c.id == _of_id, api_key.c.tenant_id == _of_tenant)
    .with_for_update(),
    ApiKey,
)
_REPLACE_KEY = Statement[Any](
    sa.update(api_key)
    .values(
        replaced_at=sa.bindparam("replaced_at"),
        expires_at=sa.case(
            (api_key.c.expires_at < _expires_at, api_key.c.expires_at), else_=_expires_at
        ),
    )
    .where(api_key.c.id == _of_id, api_key.c.tenant_id == _of_tenant)
)
_REMOVE_KEYS = Statement[Any](sa.delete(api_key).where(api_key.c.tenant_id == _of_tenant))
_REMOVE_TOKENS = Statement[Any](sa.delete(mcp_token).where(mcp_token.c.tenant_id == _of_tenant))
_REMOVE_KEY = Statement(
    sa.delete(api_key)
    .where(api_key.c.id == _of_id, api_key.c.tenant_id == _of_tenant)
    .returning(api_key.c.id),
    RowId,
)
_REMOVE_TOKEN = Statement(
    sa.delete(mcp_token)
    .where(
        mcp_token.c.id == _of_id,
        mcp_token.c.tenant_id == _of_tenant,
        sa.or_(_user.is_(None), mcp_token.c.user_id == _user),
    )
    .returning(mcp_token.c.id),
    RowId,
)
_generation = sa.bindparam("generation", type_=sa.Integer)
_REMOVE_TOKENS_OF_USER = Statement[Any](
    sa.delete(mcp_token).where(
        mcp_token.c.tenant_id == _of_tenant,
        mcp_token.c.user_id == _user,
        mcp_token.c.user_generation.is_distinct_from(_generation),
    )
)


def _note_use(table: sa.Table) -> Statement[Any]:
    used_at = sa.bindparam("used_at", type_=table.c.last_used_at.type)
    is_later = sa.or_(table.c.last_used_at.is_(None), table.c.last_used_at < used_at)
    changed = sa.update(table).values(last_used_at=used_at)
    return Statement(changed.where(table.c.id == _of_id, is_later))


_NOTE_USE = {kind: _note_use(table) for kind, table in _TABLES.items()}


async def add(session: CatalogChange, added: ApiKey | McpToken, *, digest: str) -> None:
    """Insert a credential."""
    await session.execute(_ADD[type(added)], digest=digest, **msgspec.structs.asdict(added))


async def find(session: CatalogSession, kind: type[Credential], digest: str) -> Credential | None:
    """Return the credential of a *kind* with this digest, if there is one, valid or expired."""
    return await session.fetch_one(_FIND[kind], digest=digest)


async def keys(session: CatalogSession, tenant_id: UUID) -> list[ApiKey]:
    """Return the API keys of a tenant, the oldest first."""
    return await session.fetch_all(_KEYS, tenant=tenant_id)


async def tokens(
    session: CatalogSession, tenant_id: UUID, *, user_id: UUID | None = None
) -> list[McpToken]:
    """Return the McpTokens of a tenant, or of one of its users, the oldest first."""
    return await session.fetch_all(_TOKENS, tenant=tenant_id, user=user_id)


async def count_tokens(
    session: CatalogSession, tenant_id: UUID, *, user_id: UUID | None
) -> TokenCounts:
    """Count the McpTokens of a tenant, and those that are bound to a user."""
    return await fetch_row(session, _COUNT_TOKENS, tenant=tenant_id, user=user_id)


async def remove_expired(
    session: CatalogChange,
    kind: type[ApiKey | McpToken],
    tenant_id: UUID,
    *,
    before: datetime,
) -> None:
    """Remove the credentials of this *kind* of a tenant that expired *before* an instant."""
    await session.execute(_REMOVE_EXPIRED[kind], tenant=tenant_id, before=before)


async def last_use(session: CatalogSession, tenant_id: UUID) -> datetime | None:
    """Return when a credential of a tenant was last used; None if there is none, or never."""
    used_at: datetime | None = await fetch_value(session, _LAST_USE, tenant=tenant_id)
    return used_at


async def replace_key(
    session: CatalogChange,
    tenant_id: UUID,
    key_id: UUID,
    *,
    replaced_at: datetime,
    expires_at: datetime,
) -> ApiKey:
    """Mark an API key as replaced; it expires at *expires_at*, or earlier if already set.

    Returns:
        The key as it was.

    Raises:
        ApiKeyNotFound: The tenant has no such key.
        ApiKeyEnding: It was replaced before, or has expired.
    """
    before = await fetch_or_raise(
        session, _LOCK_KEY, ApiKeyNotFound, tenant=tenant_id, credential=key_id
    )
    has_expired = before.expires_at is not None and before.expires_at <= replaced_at
    if has_expired or before.replaced_at is not None:
        raise ApiKeyEnding
    await session.execute(
        _REPLACE_KEY,
        tenant=tenant_id,
        credential=key_id,
        replaced_at=replaced_at,
        expires_at=expires_at,
    )
    return before


async def remove_all(session: CatalogChange, tenant_id: UUID) -> None:
    """Revoke every API key and every McpToken of a tenant."""
    await session.execute(_REMOVE_KEYS, tenant=tenant_id)
    await session.execute(_REMOVE_TOKENS, tenant=tenant_id)


async def remove_key(session: CatalogChange, tenant_id: UUID, key_id: UUID) -> None:
    """Revoke an API key.

    Raises:
        ApiKeyNotFound: The tenant has no such key.
    """
    await fetch_or_raise(session, _REMOVE_KEY, ApiKeyNotFound, tenant=tenant_id, credential=key_id)


async def remove_token(
    session: CatalogChange, tenant_id: UUID, token_id: UUID, *, user_id: UUID | None = None
) -> None:
    """Revoke an McpToken; with *user_id*, only one that is bound to that user.

    Raises:
        McpTokenNotFound: The tenant, or the user, has no such token.
    """
    values = {"tenant": tenant_id, "credential": token_id, "user": user_id}
    await fetch_or_raise(session, _REMOVE_TOKEN, McpTokenNotFound, **values)


async def remove_tokens_of_user(
    session: CatalogChange, tenant_id: UUID, user_id: UUID, *, generation: int | None
) -> None:
    """Revoke the McpTokens that are bound to a user, except those of this *generation*."""
    await session.execute(
        _REMOVE_TOKENS_OF_USER, tenant=tenant_id, user=user_id, generation=generation
    )


async def note_use(session: CatalogSession, used: ApiKey | McpToken, used_at: datetime) -> None:
    """Store when a credential was last used."""
    await session.execute(_NOTE_USE[type(used)], credential=used.id, used_at=used_at)
