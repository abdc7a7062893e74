"""The paths and the credentials of calls of the API, and what is asked of migrate-all."""

from collections.abc import Mapping
from typing import Any

import httpx

from harness.processes import Process
from harness.world import Tenant, World

CHANGE_PASSWORD = "/api/tenant/auth/change-password"
LOGIN = "/api/tenant/auth/login"
MODULES = "/api/tenant/modules"
POSTS = "/api/tenant/blog/posts"
PROFILE = "/api/tenant/auth/profile"
PUBLIC_POSTS = "/api/public/blog/posts"
ADMIN_LOGIN = "/api/admin/auth/login"
ADMINS = "/api/admin/admins"
AUDIT = "/api/admin/audit-log"
TENANTS = "/api/admin/tenants"
MIGRATE_ALL = "/api/admin/tenants/migrate-all"
HISTORY = "/api/admin/tenants/migration-history"
RUN_SECONDS_MAX = 120
PAGE_ITEMS_MAX = 100

Headers = Mapping[str, str]


def key_of(tenant: Tenant) -> dict[str, str]:
    """Return the header of a tenant's API key."""
    return {"x-api-key": tenant.api_key}


def bearer(token: str) -> dict[str, str]:
    """Return the header of a bearer token."""
    return {"authorization": f"Bearer {token}"}


def signed_in(tenant: Tenant, user: int = 0) -> dict[str, str]:
    """Return the headers of a user of *tenant*."""
    return key_of(tenant) | bearer(tenant.users[user].token)


def as_admin(world: World) -> dict[str, str]:
    """Return the headers of the admin."""
    return bearer(world.admin_token)


def client(url: str = "", headers: Headers | None = None, **more: Any) -> httpx.AsyncClient:
    """Return a client that waits for a whole run, and opens as many connections as it needs."""
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=RUN_SECONDS_MAX,
        limits=httpx.Limits(max_connections=None, **more),
        verify=False,  # noqa: S501 - it would read the certificates of the world each time
    )


def admin_client(process: Process, world: World) -> httpx.AsyncClient:
    """Return a client for an admin's calls."""
    return client(process.url, as_admin(world))


async def newest_runs(admin: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """Return the newest runs, with their details."""
    items: list[dict[str, Any]] = []
    size = min(count, PAGE_ITEMS_MAX)
    for page in range(1, (count - 1) // size + 2):
        answer = await admin.get(HISTORY, params={"page": page, "pageSize": size})
        items += answer.raise_for_status().json()["data"]["items"]
    return items[:count]
