"""The decision table of docs/api-conventions.md, written independently of the code.

It reads from the code only what an endpoint declares that it requires; where the table names
a path, the requirement is stated here by path.
"""

import dataclasses
from dataclasses import dataclass, field

from tenantry.access.principal import Scope
from tenantry.api.endpoints import Endpoint

ADMITTED = 0
SCOPES = frozenset(
    {
        "content:read",
        "content:draft",
        "content:publish",
        "content:write",
        "profile:read",
        "profile:write",
        "modules:read",
    }
)

# "Open": these, and nothing else.
OPEN_PATHS = frozenset(
    {
        "/api/admin/auth/login",
        "/api/links/show",
        "/api/links/use",
        "/api/public/blog/preview",
        "/livez",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/.well-known/jwks.json",
    }
)
# "For an Admin bearer", though it is not below /api/admin.
ADMIN_PATHS = frozenset({"/metrics"})
MCP_PATH = "/mcp"
TENANT_LOGIN_PATH = "/api/tenant/auth/login"
OWN_ACCOUNT_PATHS = frozenset({"/api/tenant/auth/profile", "/api/tenant/auth/change-password"})
OWN_POST_PATH = "/api/tenant/blog/posts/{postId}"
DELETED_POST_PATH = "/api/tenant/blog/deleted-posts/{deletedPostId}"
LOGOUT_PATH = "/api/tenant/auth/logout"
OWN_TOKENS_PATH = "/api/tenant/mcp-tokens"
OWNERS_PATHS = (
    "/api/tenant/all-mcp-tokens",
    "/api/tenant/api-keys",
    "/api/tenant/invitations",
    "/api/tenant/links",
    "/api/tenant/users",
)

# The headers that each level reads; the others are ignored.
LOOKED_AT = {
    "Open": frozenset(),
    "Admin": frozenset({"authorization"}),
    "Tenant login": frozenset({"x-api-key"}),
    "Tenant": frozenset({"authorization", "x-api-key", "x-mcp-token"}),
    "Public": frozenset({"x-api-key", "x-mcp-token"}),
    "MCP": frozenset({"authorization", "x-api-key", "x-mcp-token"}),
}

# Roles of a tenant's users, except owner, which all others have.
LESSER = ("editor", "author", "reader")

SUSPENDED, BLOGLESS, MCPLESS, OUTDATED = "suspended", "blogless", "mcpless", "outdated"
TENANTS = ("acme", "globex", SUSPENDED, BLOGLESS, MCPLESS, OUTDATED)
MODULES_OFF = {BLOGLESS: "blog", MCPLESS: "mcp"}


@dataclass(frozen=True)
class Key:
    """The tenant of an API key, if it is valid."""

    tenant: str | None = None


@dataclass(frozen=True)
class Bearer:
    """The verified content of an ``Authorization`` header; empty without a role.

    Attributes:
        state: Of the person, or of the session.
        is_token: Whether there is a token in the header, good or bad.
        own: The role of the user in the tenant.
    """

    role: str | None = None
    tenant: str | None = None
    state: str = "good"
    is_token: bool = True
    own: str = "owner"


@dataclass(frozen=True)
class McpToken:
    """The tenant of an McpToken, if it is valid.

    Attributes:
        user: The state of the user that it is bound to; None when there is none.
        own: The role of the user in the tenant; without one as of an editor.
    """

    tenant: str | None = None
    user: str | None = None
    scopes: frozenset[str] = SCOPES
    own: str = "editor"


KEYS = {
    **{tenant: Key(tenant) for tenant in TENANTS},
    "empty": Key(),
    "spaces": Key(),
    "unknown": Key(),
    "malformed": Key(),
    "revoked": Key(),
    "expired": Key(),
    "revoked of globex": Key(),
    "expired of globex": Key(),
    "an McpToken": Key(),
}

BEARERS = {
    **{f"user of {tenant}": Bearer("TenantUser", tenant) for tenant in TENANTS},
    **{role: Bearer("TenantUser", "acme", own=role) for role in LESSER},
    "admin": Bearer("Admin"),
    "admin, in lower case": Bearer("Admin"),
    "inactive admin": Bearer("Admin", state="inactive"),
    "deleted admin": Bearer("Admin", state="deleted"),
    "old session of an admin": Bearer("Admin", state="old session"),
    "inactive user": Bearer("TenantUser", "acme", "inactive"),
    "reactivated user": Bearer("TenantUser", "acme", "reactivated"),
    "deleted user": Bearer("TenantUser", "acme", "deleted"),
    "old session": Bearer("TenantUser", "acme", "old session"),
    "spared session": Bearer("TenantUser", "acme"),
    "user of no tenant": Bearer("TenantUser", "no tenant"),
    "forged": Bearer(),
    "expired": Bearer(),
    "expired admin": Bearer(),
    "malformed": Bearer(),
    "role swapped": Bearer(),
    "admin by the key of tenants": Bearer(),
    "unsigned": Bearer(),
    "an McpToken": Bearer(),
    "an API key": Bearer(),
    "empty": Bearer(is_token=False),
    "spaces": Bearer(is_token=False),
    "scheme alone": Bearer(is_token=False),
    "another scheme": Bearer(is_token=False),
    "a token by another scheme": Bearer(is_token=False),
}

MCP_TOKENS = {
    **{f"unbound of {tenant}": McpToken(tenant) for tenant in TENANTS},
    "bound": McpToken("acme", "good"),
    "bound of globex": McpToken("globex", "good"),
    "bound of suspended": McpToken(SUSPENDED, "good"),
    **{f"bound to {role}": McpToken("acme", "good", own=role) for role in LESSER},
    "bound to inactive": McpToken("acme", "inactive"),
    "bound to deleted": McpToken("acme", "deleted"),
    **{
        f"bound without {scope}": McpToken("acme", "good", SCOPES - {scope})
        for scope in sorted(SCOPES)
    },
    **{
        f"bound with {scope} alone": McpToken("acme", "good", frozenset({scope}))
        for scope in sorted(SCOPES)
    },
    "unknown": McpToken(),
    "malformed": McpToken(),
    "expired": McpToken(),
    "revoked": McpToken(),
    "an API key": McpToken(),
    "a bearer": McpToken(),
    "empty": McpToken(),
    "spaces": McpToken(),
}
MCP_NOT_SENT = {"empty", "spaces"}
# Which McpToken a bearer is; the others are none.
MCP_BEARERS = {"an McpToken": "bound"}


@dataclass(frozen=True)
class Combination:
    """The credentials of a request, by the names above; None means no such header.

    Attributes:
        twice: The header that is sent twice.
        other: The second value of it, by the same names; the same again when None.
    """

    key: str | None = None
    bearer: str | None = None
    mcp: str | None = None
    twice: str | None = None
    other: str | None = None

    def __str__(self) -> str:
        parts = [
            f"{name}: {value}"
            for name, value in (("key", self.key), ("bearer", self.bearer), ("mcp", self.mcp))
            if value is not None
        ]
        if self.twice:
            parts.append(f"{self.twice} twice" + (f" ({self.other})" if self.other else ""))
        return ", ".join(parts) or "nothing"


@dataclass(frozen=True)
class Asked:
    """The requirements of an endpoint."""

    level: str
    scope: str | None = None
    module: str | None = None
    is_own_account: bool = field(default=False)
    is_own_tokens: bool = field(default=False)  # requires a session
    is_publishing: bool = field(default=False)
    is_post: bool = field(default=False)
    is_owners: bool = field(default=False)

    @property
    def roles(self) -> frozenset[str]:
        """The roles that suffice. The posts of the matrix are the owner's."""
        if self.is_owners:
            return frozenset({"owner"})
        if self.scope not in {"content:draft", "content:publish"}:
            return frozenset({"owner", *LESSER})
        return frozenset({"owner", "editor"} | (set() if self.is_post else {"author"}))


def asked_by(endpoint: Endpoint) -> Asked:
    """Return the requirements of this path; for unlisted paths those of the endpoint."""
    level = level_of(endpoint.path)
    if level not in {"Tenant", "Public"}:
        return Asked(level, module="mcp" if level == "MCP" else None)
    if endpoint.path.startswith((OWN_TOKENS_PATH, LOGOUT_PATH, *OWNERS_PATHS)):
        module = "mcp" if endpoint.path.startswith(OWN_TOKENS_PATH) else None
        is_owners = endpoint.path.startswith(OWNERS_PATHS)
        return Asked(level, module=module, is_own_tokens=True, is_owners=is_owners)
    if endpoint.path in OWN_ACCOUNT_PATHS:
        scope = "profile:read" if endpoint.method == "GET" else "profile:write"
        return Asked(level, scope, is_own_account=True)
    if endpoint.path == "/api/tenant/modules":
        return Asked(level, "modules:read")
    if "/blog/" in endpoint.path:
        scope = "content:read" if endpoint.method == "GET" else "content:draft"
        is_purge = (endpoint.method, endpoint.path) == ("DELETE", DELETED_POST_PATH)
        if is_purge or endpoint.path.endswith(("publish", "/schedule")):
            scope = "content:publish"
        # The post that the matrix deletes is published.
        is_publishing = (endpoint.method, endpoint.path) == ("DELETE", OWN_POST_PATH)
        is_post = "{" in endpoint.path
        return Asked(level, scope, "blog", is_publishing=is_publishing, is_post=is_post)
    return Asked(level, _scope(endpoint.scope), endpoint.module)


def level_of(path: str) -> str:
    """Return the level of *path*."""
    if path in OPEN_PATHS:
        return "Open"
    if path in ADMIN_PATHS:
        return "Admin"
    if path == TENANT_LOGIN_PATH:
        return "Tenant login"
    if path == MCP_PATH:
        return "MCP"
    levels = {"/api/admin/": "Admin", "/api/tenant/": "Tenant", "/api/public/": "Public"}
    for prefix, level in levels.items():
        if path.startswith(prefix):
            return level
    raise AssertionError(f"there is no level for {path}")


def expected(asked: Asked, sent: Combination) -> int:
    """Return the expected status, or `ADMITTED`."""
    if sent.twice in LOOKED_AT[asked.level]:
        return 400
    if asked.level == "Open":
        return ADMITTED
    if asked.level == "Admin":
        return _admin(BEARERS.get(sent.bearer or "", Bearer()))
    return _inside(asked, sent, KEYS.get(sent.key or "", Key()))


def acting(asked: Asked, sent: Combination) -> str:
    """Return the tenant of an admitted caller."""
    if asked.level in {"Open", "Admin"}:
        return "acme"
    if asked.level != "Tenant login" and sent.mcp is not None and sent.mcp not in MCP_NOT_SENT:
        return MCP_TOKENS[sent.mcp].tenant or "acme"
    return KEYS.get(sent.key or "", Key()).tenant or "acme"


def is_token_sent(asked: Asked, sent: Combination) -> bool:
    """Return whether a token was sent in a header that the level reads."""
    looked_at = LOOKED_AT[asked.level]
    mcp = sent.mcp is not None and sent.mcp not in MCP_NOT_SENT and "x-mcp-token" in looked_at
    bearer = (
        sent.bearer is not None and BEARERS[sent.bearer].is_token and "authorization" in looked_at
    )
    return mcp or bearer


def learns_of_body(asked: Asked, sent: Combination, status: int) -> bool:
    """Return whether a refused caller is told first that the body is malformed.

    Only a person who may come in: their own account is gone, or the post is not theirs.
    """
    if status != 403 or not asked.is_post:
        return status == 404
    without_post = dataclasses.replace(asked, is_post=False)
    return expected(without_post, sent) == ADMITTED


def _admin(bearer: Bearer) -> int:
    if bearer.role is None:
        return 401
    if bearer.role != "Admin":
        return 403
    return {"good": ADMITTED, "inactive": 403, "deleted": 401, "old session": 401}[bearer.state]


def _inside(asked: Asked, sent: Combination, key: Key) -> int:
    if asked.level == "Tenant login":
        return _tenant_of(key.tenant)
    if sent.mcp is not None and sent.mcp not in MCP_NOT_SENT:
        return _mcp(asked, MCP_TOKENS[sent.mcp], key)
    if asked.level == "MCP":
        return _mcp(asked, MCP_TOKENS[MCP_BEARERS.get(sent.bearer or "", "unknown")], key)
    if asked.level == "Public":
        return _public(asked, key)
    return _tenant(asked, key, BEARERS.get(sent.bearer or "", Bearer()))


def _tenant_of(tenant: str | None) -> int:
    if tenant is None:
        return 401
    return {SUSPENDED: 403, OUTDATED: 503}.get(tenant, ADMITTED)


def _public(asked: Asked, key: Key) -> int:
    if key.tenant is not None and MODULES_OFF.get(key.tenant) == asked.module is not None:
        return 403
    return _tenant_of(key.tenant)


def _mcp(asked: Asked, token: McpToken, key: Key) -> int:
    if token.tenant is None:
        return 401
    if (
        key.tenant not in {None, token.tenant}  # another tenant's key that is found
        or token.tenant == SUSPENDED
        or asked.is_own_tokens
        or (asked.is_own_account and token.user is None)
        or (asked.scope is not None and not _includes(token.scopes, asked.scope))
        or (asked.is_publishing and not _includes(token.scopes, "content:publish"))
        # An McpToken is of the module `mcp`, whatever it is used for.
        or MODULES_OFF.get(token.tenant) in {"mcp", asked.module or "mcp"}
    ):
        return 403
    if token.tenant == OUTDATED:
        return 503
    state = {None: ADMITTED, "good": ADMITTED, "inactive": 403, "deleted": 401}[token.user]
    return 403 if state == ADMITTED and token.own not in asked.roles else state


def _tenant(asked: Asked, key: Key, bearer: Bearer) -> int:
    if key.tenant is None or bearer.role is None:
        return 401
    if (
        bearer.role != "TenantUser"
        or bearer.tenant != key.tenant
        or key.tenant == SUSPENDED
        or MODULES_OFF.get(key.tenant) == asked.module is not None
    ):
        return 403
    if key.tenant == OUTDATED:
        return 503
    deleted = 404 if asked.is_own_account else 401
    states = {"inactive": 403, "reactivated": 401, "old session": 401, "deleted": deleted}
    if bearer.state == "good" and bearer.own not in asked.roles:
        return 403
    return {"good": ADMITTED, **states}[bearer.state]


def _includes(scopes: frozenset[str], scope: str) -> bool:
    is_part = scope in {"content:draft", "content:publish"}
    return scope in scopes or (is_part and "content:write" in scopes)


def _scope(scope: Scope | None) -> str | None:
    return None if scope is None else scope.value


def combinations() -> list[Combination]:
    """Return what the matrix sends: every credential, alone and with others."""
    found = [
        Combination(key, bearer) for bearer in (None, *BEARERS) for key in (None, "acme", "globex")
    ]
    found += [
        Combination(key, bearer)
        for key in KEYS
        for bearer in (None, "user of acme", f"user of {key}", "forged")
        if bearer is None or bearer in BEARERS
    ]
    found += [
        Combination(key, None, mcp)
        for mcp in MCP_TOKENS
        for key in (None, "acme", "globex", "unknown")
    ]
    # A valid McpToken is the principal, and other credentials are ignored.
    found += [
        Combination("acme", bearer, mcp)
        for bearer in ("user of acme", "user of globex", "forged", "admin", "old session")
        for mcp in ("bound", "unbound of acme", "expired", "empty", "spaces")
    ]
    found += [
        Combination(key, None, "bound")
        for key in ("revoked of globex", "expired of globex", SUSPENDED)
    ]
    found += _sent_twice()
    return list(dict.fromkeys(found))


def _sent_twice() -> list[Combination]:
    mixed = [
        Combination("acme", "user of acme", None, "x-api-key"),
        Combination("acme", "user of acme", None, "x-api-key", "globex"),
        Combination("acme", "user of acme", None, "x-api-key", "empty"),
        Combination("acme", "user of acme", None, "authorization"),
        Combination("acme", "user of acme", None, "authorization", "user of globex"),
        Combination("acme", "admin", None, "authorization"),
        Combination("acme", "admin", None, "authorization", "empty"),
        Combination(None, "forged", None, "authorization"),
        Combination(None, None, "bound", "x-mcp-token"),
        Combination(None, None, "bound", "x-mcp-token", "unbound of globex"),
        Combination(None, None, "unknown", "x-mcp-token"),
        Combination("unknown", None, None, "x-api-key"),
    ]
    return [*mixed, Combination("acme", "user of acme", "bound", "x-mcp-token", "spaces")]
