"""The rows of one tenant in the catalog, as an archive has them: keys as digests, no secrets."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import api_key, mcp_token
from tenantry.catalog.tenants import Tenant
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.errors import Conflict


class CredentialsInUse(Conflict):
    """An API key or McpToken of the archive belongs to another tenant: restore it as a new one."""


class KeyRecord(msgspec.Struct, frozen=True):
    """An API key, with its digest."""

    id: UUID
    prefix: str
    digest: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    replaced_at: datetime | None


class TokenRecord(msgspec.Struct, frozen=True):
    """An McpToken, with its digest."""

    id: UUID
    name: str
    prefix: str
    digest: str
    user_id: UUID | None
    user_generation: int | None
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class TenantRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant in the catalog, and its credentials."""

    id: UUID
    name: str
    is_active: bool
    is_read_only: bool
    modules: frozenset[str]
    created_at: datetime
    schema_revision: str | None
    requests_per_minute: int
    size_bytes_max: int = 0
    api_keys: list[KeyRecord]
    mcp_tokens: list[TokenRecord]


_tenant = sa.bindparam("tenant", type_=sa.Uuid)
_KEYS = Statement(
    sa.select(*columns_of(api_key, KeyRecord))
    .where(api_key.c.tenant_id == _tenant)
    .order_by(api_key.c.id),
    KeyRecord,
)
_TOKENS = Statement(
    sa.select(*columns_of(mcp_token, TokenRecord))
    .where(mcp_token.c.tenant_id == _tenant)
    .order_by(mcp_token.c.id),
    TokenRecord,
)
_ADD_KEY = Statement[Any](sa.insert(api_key), conflicts={"uq_api_key_digest": CredentialsInUse})
_ADD_TOKEN = Statement[Any](
    sa.insert(mcp_token), conflicts={"uq_mcp_token_digest": CredentialsInUse}
)


async def read(session: CatalogSession, tenant: Tenant) -> TenantRecord:
    """Return the rows of a tenant."""
    own = {name: getattr(tenant, name) for name in TenantRecord.__struct_fields__[:-2]}
    return TenantRecord(
        **own,
        api_keys=await session.fetch_all(_KEYS, tenant=tenant.id),
        mcp_tokens=await session.fetch_all(_TOKENS, tenant=tenant.id),
    )


async def add_credentials(session: CatalogChange, record: TenantRecord) -> None:
    """Add the credentials of a tenant that was restored with its id.

    McpTokens of users are left out: their sessions ended with the restore.

    Raises:
        CredentialsInUse: Another tenant has one of them.
    """
    for key in record.api_keys:
        await session.execute(_ADD_KEY, tenant_id=record.id, **msgspec.structs.asdict(key))
    for token in record.mcp_tokens:
        if token.user_id is None:
            await session.execute(_ADD_TOKEN, tenant_id=record.id, **msgspec.structs.asdict(token))
