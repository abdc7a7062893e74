"""Issue API keys and McpTokens. Each secret is returned once; only its digest is stored."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tenantry.access.identify import API_KEY_KIND, MCP_TOKEN_KIND
from tenantry.access.principal import ALL_SCOPES, READ_SCOPES
from tenantry.catalog import credentials, tenants
from tenantry.catalog.credentials import (
    KEYS_PER_TENANT_MAX,
    TOKENS_PER_TENANT_MAX,
    ApiKey,
    McpToken,
)
from tenantry.catalog.database import Catalog, CatalogChange
from tenantry.db import audit_log
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.ids import new_id
from tenantry.kit.secrets import digest, mint, shown_prefix
from tenantry.kit.text import checked_label

TOKEN_NAME_CHARS_MAX = 100
TOKEN_LIFETIME_DEFAULT = timedelta(days=30)
TOKEN_LIFETIME_MAX = timedelta(days=365)
# One user must not use up `TOKENS_PER_TENANT_MAX`.
TOKENS_PER_USER_MAX = 50
# An expired API key is listed so long. A process with a wrong clock must not remove a valid one.
EXPIRED_KEY_KEPT = timedelta(days=7)
GRACE_SECONDS_DEFAULT = 86_400
GRACE_SECONDS_MAX = 2_592_000


class BadExpiry(Invalid):
    """`expiresAt` is in the past, or too far in the future."""


class BadGracePeriod(Invalid):
    """`gracePeriodSeconds` must be from 0 to 2592000."""


class TooManyApiKeys(Conflict):
    """The tenant has the maximum number of API keys; revoke one first."""


class TooManyMcpTokens(Conflict):
    """The user, or the tenant, has the maximum number of McpTokens; revoke one first."""


class BadScopes(Invalid):
    """`scopes` is empty, or contains an unknown scope."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new API key, with its secret, which cannot be read again."""

    key: ApiKey
    secret: str


@dataclass(frozen=True, slots=True)
class IssuedMcpToken:
    """A new McpToken, with its secret, which cannot be read again."""

    token: McpToken
    secret: str


async def issue_key(
    ctx: OperationContext, catalog: Catalog, tenant_id: UUID, *, expires_at: datetime | None
) -> IssuedKey:
    """Return a new API key of a tenant; remove those that expired `EXPIRED_KEY_KEPT` ago.

    Raises:
        BadExpiry: *expires_at* is not in the future.
        NotServed: The tenant is an attached database.
        TooManyApiKeys: The tenant has `KEYS_PER_TENANT_MAX`.
        TenantNotFound: The tenant was deleted at the same time.
    """
    expires_at = None if expires_at is None else _in_utc(expires_at)
    if expires_at is not None and expires_at <= ctx.now:
        raise BadExpiry("`expiresAt` must be in the future.")
    changes: audit_log.Changes = []
    async with catalog.change(
        ctx, "api-key.issue", tenant_id, tenant_id=tenant_id, changes=changes
    ) as session:
        await _make_room_for_key(ctx, session, tenant_id)
        issued = await add_key(ctx, session, tenant_id, expires_at=expires_at)
        changes += audit_log.changes_between(None, issued.key, "id", "prefix", "expires_at")
    return issued


async def add_key(
    ctx: OperationContext, session: CatalogChange, tenant_id: UUID, *, expires_at: datetime | None
) -> IssuedKey:
    """Return a new API key of a tenant, within a larger change."""
    secret = mint(API_KEY_KIND)
    key = ApiKey(
        id=new_id(),
        tenant_id=tenant_id,
        prefix=shown_prefix(secret),
        created_at=ctx.now,
        expires_at=expires_at,
        last_used_at=None,
        replaced_at=None,
    )
    await credentials.add(session, key, digest=digest(secret))
    return IssuedKey(key, secret)


async def rotate_key(
    ctx: OperationContext, catalog: Catalog, tenant_id: UUID, key_id: UUID, *, grace_seconds: int
) -> IssuedKey:
    """Return a new API key that replaces another, which stays valid for *grace_seconds*.

    If the other one has an end, the new one has the same. Old keys are removed as by `issue_key`.

    Raises:
        BadGracePeriod: *grace_seconds* is negative, or more than `GRACE_SECONDS_MAX`.
        ApiKeyNotFound: The tenant has no such key.
        ApiKeyEnding: It was replaced before, or has expired.
        TooManyApiKeys, TenantNotFound: As for `issue_key`.
    """
    if not 0 <= grace_seconds <= GRACE_SECONDS_MAX:
        raise BadGracePeriod
    expires_at = ctx.now + timedelta(seconds=grace_seconds)
    changes: audit_log.Changes = []
    async with catalog.change(
        ctx, "api-key.rotate", key_id, tenant_id=tenant_id, changes=changes
    ) as session:
        await _make_room_for_key(ctx, session, tenant_id)
        replaced = await credentials.replace_key(
            session, tenant_id, key_id, replaced_at=ctx.now, expires_at=expires_at
        )
        issued = await add_key(ctx, session, tenant_id, expires_at=replaced.expires_at)
        changes += audit_log.changes_between(None, issued.key, "id", "prefix", "expires_at")
    return issued


async def _make_room_for_key(
    ctx: OperationContext, session: CatalogChange, tenant_id: UUID
) -> None:
    # The lock: two concurrent requests must not both take the last place.
    (await tenants.lock(session, tenant_id)).check_served()
    before = ctx.now - EXPIRED_KEY_KEPT
    await credentials.remove_expired(session, ApiKey, tenant_id, before=before)
    if len(await credentials.keys(session, tenant_id)) >= KEYS_PER_TENANT_MAX:
        raise TooManyApiKeys(
            f"The tenant has {KEYS_PER_TENANT_MAX:,} API keys; revoke one before you issue another."
        )


async def revoke_key(
    ctx: OperationContext, catalog: Catalog, tenant_id: UUID, key_id: UUID
) -> None:
    """Revoke an API key.

    Raises:
        ApiKeyNotFound: The tenant has no such key.
    """
    async with catalog.change(ctx, "api-key.revoke", key_id, tenant_id=tenant_id) as session:
        await credentials.remove_key(session, tenant_id, key_id)


async def issue_mcp_token(
    ctx: OperationContext,
    catalog: Catalog,
    tenant_id: UUID,
    *,
    name: str,
    user_id: UUID | None,
    user_generation: int | None,
    scopes: frozenset[str] | None = None,
    expires_at: datetime | None = None,
) -> IssuedMcpToken:
    """Return a new McpToken of a tenant, and remove those that have expired.

    It acts as the user *user_id*, if any: the caller has checked that the user exists, and that
    *user_generation* is the current one of the user's McpTokens. By default it only reads, and
    expires after `TOKEN_LIFETIME_DEFAULT`.

    Raises:
        BadText, BadScopes: A rule is broken.
        BadExpiry: *expires_at* is not in the future, or after more than `TOKEN_LIFETIME_MAX`.
        TooManyMcpTokens: The user has `TOKENS_PER_USER_MAX`, or the tenant
            `TOKENS_PER_TENANT_MAX`.
        TenantNotFound: The tenant was deleted at the same time.
    """
    scopes = READ_SCOPES if scopes is None else scopes
    if not scopes or not scopes <= ALL_SCOPES:
        raise BadScopes(f"`scopes` must be one or more of {', '.join(sorted(ALL_SCOPES))}.")
    expires_at = ctx.now + TOKEN_LIFETIME_DEFAULT if expires_at is None else _in_utc(expires_at)
    if not ctx.now < expires_at <= ctx.now + TOKEN_LIFETIME_MAX:
        raise BadExpiry(
            f"`expiresAt` must be in the future, at most {TOKEN_LIFETIME_MAX.days} days ahead."
        )
    secret = mint(MCP_TOKEN_KIND)
    token = McpToken(
        id=new_id(),
        tenant_id=tenant_id,
        name=checked_label("name", name, chars_max=TOKEN_NAME_CHARS_MAX),
        prefix=shown_prefix(secret),
        user_id=user_id,
        user_generation=user_generation,
        scopes=scopes,
        created_at=ctx.now,
        expires_at=expires_at,
        last_used_at=None,
    )
    changes = audit_log.changes_between(
        None, token, "name", "prefix", "user_id", "scopes", "expires_at"
    )
    async with catalog.change(
        ctx, "mcp-token.issue", token.id, tenant_id=tenant_id, changes=changes
    ) as session:
        await _make_room(ctx, session, token)
        await credentials.add(session, token, digest=digest(secret))
    return IssuedMcpToken(token, secret)


async def _make_room(ctx: OperationContext, session: CatalogChange, added: McpToken) -> None:
    await tenants.lock(session, added.tenant_id)  # see `_make_room_for_key`
    await credentials.remove_expired(session, McpToken, added.tenant_id, before=ctx.now)
    counts = await credentials.count_tokens(session, added.tenant_id, user_id=added.user_id)
    if counts.of_user >= TOKENS_PER_USER_MAX:
        raise TooManyMcpTokens(
            f"The user has {TOKENS_PER_USER_MAX} McpTokens; revoke one before you issue another."
        )
    if counts.of_tenant >= TOKENS_PER_TENANT_MAX:
        raise TooManyMcpTokens(
            f"The tenant has {TOKENS_PER_TENANT_MAX} McpTokens; revoke one before you issue "
            "another."
        )


async def revoke_mcp_token(
    ctx: OperationContext,
    catalog: Catalog,
    tenant_id: UUID,
    token_id: UUID,
    *,
    user_id: UUID | None = None,
) -> None:
    """Revoke an McpToken; with *user_id*, only one that is bound to that user.

    Raises:
        McpTokenNotFound: The tenant, or the user, has no such token.
    """
    async with catalog.change(ctx, "mcp-token.revoke", token_id, tenant_id=tenant_id) as session:
        await credentials.remove_token(session, tenant_id, token_id, user_id=user_id)


async def remove_tokens(
    ctx: OperationContext,
    catalog: Catalog,
    tenant_id: UUID,
    user_id: UUID,
    *,
    generation: int | None = None,
) -> None:
    """Remove the McpTokens of a user, except those of the user's current *generation*, if any.

    The end of the user, or of their generation, makes them invalid; this removes them from the
    lists. Call it last before the change of the user is committed.
    """
    found = await credentials.tokens(catalog, tenant_id, user_id=user_id)
    if any(token.user_generation != generation for token in found):
        async with catalog.change(ctx, "mcp-token.end", user_id, tenant_id=tenant_id) as session:
            await credentials.remove_tokens_of_user(
                session, tenant_id, user_id, generation=generation
            )


def _in_utc(instant: datetime) -> datetime:
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise BadExpiry from error
