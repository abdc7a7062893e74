"""Every kind of caller that the API distinguishes, with their credentials."""

import base64
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import jwt
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tenantry.access import admins, credentials
from tenantry.access.identify import API_KEY_KIND, MCP_TOKEN_KIND
from tenantry.access.principal import Person, Role
from tenantry.access.tokens import AUDIENCES
from tenantry.catalog.tables import admin as admin_table
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.secrets import mint
from tenantry.migration.schema_state import version
from tenantry.tenant.tables import user
from testkit.decision_table import (
    BEARERS,
    BLOGLESS,
    KEYS,
    LESSER,
    MCP_TOKENS,
    MCPLESS,
    OUTDATED,
    SCOPES,
    SUSPENDED,
    Combination,
)
from testkit.request_samples import NEW_PASSWORD
from tests.conftest import PASSWORD, World
from tests.contracts.stage import Stage, add_tenant, as_admin

AGES_AGO = timedelta(days=40)
AGED = {"iat": 1_600_000_000, "exp": 1_600_003_600}
BLANKS = {"empty": "", "spaces": "   "}


@dataclass
class Cast:
    """A stage with six tenants, and every credential that `decision_table` names."""

    stage: Stage
    bearers: dict[str, str]
    keys: dict[str, str] = field(default_factory=dict)
    mcp_tokens: dict[str, str] = field(default_factory=dict)

    def headers(self, sent: Combination) -> list[tuple[str, str]]:
        """Return the headers that present a combination."""
        rings = {
            "x-api-key": (sent.key, self.keys),
            "authorization": (sent.bearer, self.bearers),
            "x-mcp-token": (sent.mcp, self.mcp_tokens),
        }
        headers = [(name, ring[key]) for name, (key, ring) in rings.items() if key is not None]
        if sent.twice is not None:
            same, ring = rings[sent.twice]
            second = sent.other or same
            assert second is not None
            headers.append((sent.twice, ring[second]))
        return headers


async def assemble(stage: Stage) -> Cast:
    """Return the cast of *stage*."""
    cast = Cast(stage, stage.bearers)
    await _add_tenants(cast)
    await _add_keys(cast)
    people = await _add_people(cast)
    await _add_admins(cast)
    await _add_bearers(cast)
    await _add_mcp_tokens(cast, people)
    await _spoil(cast, people)
    assert cast.keys.keys() == KEYS.keys()
    assert cast.bearers.keys() == BEARERS.keys()
    assert cast.mcp_tokens.keys() == MCP_TOKENS.keys()
    stage.begun = stage.now()
    return cast


async def _add_tenants(cast: Cast) -> None:
    world = cast.stage.world
    cast.keys |= {"acme": world.acme.key.secret, "globex": world.globex.key.secret}
    cast.bearers["user of globex"] = f"Bearer {await world.token(world.globex)}"
    for name in (SUSPENDED, BLOGLESS, MCPLESS, OUTDATED):
        cast.keys[name] = await add_tenant(cast.stage, name)


async def _add_keys(cast: Cast) -> None:
    for name in ("acme", "globex"):
        suffix = "" if name == "acme" else f" of {name}"
        tenant = cast.stage.tenants[name]
        base = f"/api/admin/tenants/{tenant.id}/api-keys"
        revoked = await as_admin(cast.stage, "POST", base)
        await as_admin(cast.stage, "DELETE", f"{base}/{revoked['id']}")
        cast.keys[f"revoked{suffix}"] = str(revoked["key"])
        cast.keys[f"expired{suffix}"] = await _expired_key(cast, tenant.id)
    cast.keys |= {**BLANKS, "unknown": mint(API_KEY_KIND), "malformed": "tnk_x"}


async def _expired_key(cast: Cast, tenant_id: UUID) -> str:
    ctx, catalog = system_context("test"), cast.stage.world.services.catalog
    async with catalog.change(ctx, "api-key.issue", tenant_id) as session:
        issued = await credentials.add_key(ctx, session, tenant_id, expires_at=utc_now() - AGES_AGO)
    return issued.secret


async def _add_people(cast: Cast) -> dict[str, UUID]:
    """Make the users of acme, and give each a token; return their ids."""
    stage, acme = cast.stage, cast.stage.world.acme
    people: dict[str, UUID] = {}
    for name in ("inactive user", "reactivated user", "deleted user", "old session", *LESSER):
        email = f"{name.replace(' ', '.')}@acme.example.com"
        made = await as_admin(
            stage,
            "POST",
            f"/api/admin/tenants/{acme.tenant.id}/users",
            email=email,
            fullName=name,
            password=PASSWORD,
            role=name if name in LESSER else "owner",
        )
        people[name] = UUID(str(made["id"]))
        person = Person(people[name], email, Role.TENANT_USER, 0, tenant_id=acme.tenant.id)
        cast.bearers[name] = f"Bearer {await _token(stage.world, person)}"
        if name == "old session":
            cast.bearers["spared session"] = f"Bearer {await _token(stage.world, person)}"
    return people


async def _add_admins(cast: Cast) -> None:
    world = cast.stage.world
    for name, values in (
        ("inactive admin", {"is_active": False}),
        ("old session of an admin", {"generation": 3}),
    ):
        made = await admins.create(
            system_context("test"),
            world.services.catalog,
            world.services.passwords,
            email=f"{name.replace(' ', '.')}@example.com",
            password=PASSWORD,
        )
        changed = sa.update(admin_table).where(admin_table.c.id == made.id).values(values)
        await cast.stage.ledger.write(cast.stage.ledger.catalog, changed)
        person = Person(made.id, made.email, Role.ADMIN, 0)
        cast.bearers[name] = f"Bearer {await _token(world, person)}"
        cast.stage.ids["adminId"] = str(made.id)
    gone = Person(new_id(), "gone@example.com", Role.ADMIN, 0)
    cast.bearers["deleted admin"] = f"Bearer {await _token(world, gone)}"


async def _token(world: World, person: Person) -> str:
    return (await world.services.tokens.issue(person, now=utc_now())).token


async def _add_bearers(cast: Cast) -> None:
    world, owner = cast.stage.world, cast.stage.world.acme.owner
    person = Person(owner.id, owner.email, Role.TENANT_USER, 0, tenant_id=world.acme.tenant.id)
    account = world.admin_account
    as_admin_ = Person(account.id, account.email, Role.ADMIN, account.generation)
    nobody = Person(owner.id, owner.email, Role.TENANT_USER, 0)
    good = await _token(world, person)
    private = await _private_key(world)
    swapped = _claims(good) | {"role": "Admin"}
    as_admin_token = await _token(world, as_admin_)
    by_tenants = _claims(as_admin_token) | {"aud": AUDIENCES[Role.TENANT_USER]}
    for name, token in {
        "admin, in lower case": as_admin_token,
        "user of no tenant": await _token(world, nobody),
        "expired": _sign(good, _claims(good) | AGED, private),
        "expired admin": _sign(good, _claims(as_admin_token) | AGED, private),
        "forged": _sign(good, _claims(good), Ed25519PrivateKey.generate()),
        "malformed": "not.a-token",
        "role swapped": _sign(good, swapped, private),
        "admin by the key of tenants": _sign(good, by_tenants, private),
        "unsigned": jwt.encode(
            _claims(good), None, "none", headers=jwt.get_unverified_header(good) | {"alg": "none"}
        ),
    }.items():
        cast.bearers[name] = f"Bearer {token}"
    cast.bearers["admin, in lower case"] = f"bearer {as_admin_token}"
    cast.bearers.update(
        {
            **BLANKS,
            "scheme alone": "Bearer",
            "another scheme": "Basic " + base64.b64encode(b"ada@example.com:secret").decode(),
            "a token by another scheme": f"Token {good}",
            "an API key": f"Bearer {cast.keys['acme']}",
        }
    )


def _claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return claims


def _sign(like: str, claims: dict[str, Any], private: Ed25519PrivateKey) -> str:
    """Return *claims* under the header of the token *like*."""
    return jwt.encode(
        claims, private, "EdDSA", headers={"kid": jwt.get_unverified_header(like)["kid"]}
    )


async def _private_key(world: World) -> Ed25519PrivateKey:
    return (await world.services.signing_keys.ring()).signer(utc_now()).private


async def _add_mcp_tokens(cast: Cast, people: dict[str, UUID]) -> None:
    world = cast.stage.world
    for name in KEYS:
        if name in cast.stage.tenants:
            cast.mcp_tokens[f"unbound of {name}"] = await _issue(cast, name)
    owner = world.acme.owner.id
    cast.mcp_tokens["bound"] = await _issue(cast, "acme", owner)
    cast.mcp_tokens["bound of globex"] = await _issue(cast, "globex", world.globex.owner.id)
    suspended = _owner_id(cast, SUSPENDED)
    cast.mcp_tokens["bound of suspended"] = await _issue(cast, SUSPENDED, suspended)
    for state in ("inactive", "deleted"):
        cast.mcp_tokens[f"bound to {state}"] = await _issue(cast, "acme", people[f"{state} user"])
    for role in LESSER:
        cast.mcp_tokens[f"bound to {role}"] = await _issue(cast, "acme", people[role])
    for scope in SCOPES:
        without = await _issue(cast, "acme", owner, SCOPES - {scope})
        cast.mcp_tokens[f"bound without {scope}"] = without
        alone = await _issue(cast, "acme", owner, frozenset({scope}))
        cast.mcp_tokens[f"bound with {scope} alone"] = alone
    cast.mcp_tokens["expired"] = await _issue(cast, "acme", owner, age=AGES_AGO)
    cast.mcp_tokens["revoked"] = await _revoked(cast)
    cast.mcp_tokens |= {
        **BLANKS,
        "unknown": mint(MCP_TOKEN_KIND),
        "malformed": "tnm_x",
        "an API key": cast.keys["acme"],
        "a bearer": cast.bearers["user of acme"],
    }
    cast.keys["an McpToken"] = cast.mcp_tokens["bound"]
    cast.bearers["an McpToken"] = f"Bearer {cast.mcp_tokens['bound']}"


async def _issue(
    cast: Cast,
    tenant: str,
    user_id: UUID | None = None,
    scopes: frozenset[str] = SCOPES,
    *,
    age: timedelta = timedelta(),
) -> str:
    ctx = system_context("test")
    issued = await credentials.issue_mcp_token(
        type(ctx)(request_id=ctx.request_id, now=ctx.now - age, actor="test", address="local"),
        cast.stage.world.services.catalog,
        cast.stage.tenants[tenant].id,
        name=f"{tenant} assistant",
        user_id=user_id,
        user_generation=None if user_id is None else 0,
        scopes=scopes,
    )
    return issued.secret


async def _revoked(cast: Cast) -> str:
    base = f"/api/admin/tenants/{cast.stage.world.acme.tenant.id}/mcp-tokens"
    issued = await as_admin(cast.stage, "POST", base, name="revoked")
    await as_admin(cast.stage, "DELETE", f"{base}/{issued['id']}")
    return str(issued["token"])


def _owner_id(cast: Cast, tenant: str) -> UUID:
    rows = cast.stage.ledger.dump(cast.stage.tenants[tenant])["tenantry_user"]
    owner: UUID = rows[0]["id"]
    return owner


async def _spoil(cast: Cast, people: dict[str, UUID]) -> None:
    """Switch off, delete and change what the credentials were issued for."""
    stage = cast.stage
    acme = f"/api/admin/tenants/{stage.world.acme.tenant.id}"
    for name in ("inactive user", "reactivated user"):
        await as_admin(stage, "PATCH", f"{acme}/users/{people[name]}", isActive=False)
    await as_admin(stage, "PATCH", f"{acme}/users/{people['reactivated user']}", isActive=True)
    # Past the API, which removes the McpTokens as well.
    deleted = sa.delete(user).where(user.c.id == people["deleted user"])
    await stage.ledger.write(stage.ledger.of(stage.world.acme.tenant), deleted)
    await _change_password(cast)
    for name, change in (
        (SUSPENDED, {"isActive": False}),
        (BLOGLESS, {"modules": ["mcp"]}),
        (MCPLESS, {"modules": ["blog"]}),
    ):
        await as_admin(stage, "PATCH", f"/api/admin/tenants/{stage.tenants[name].id}", **change)
    outdated = sa.update(version).values(version_num="")
    await stage.ledger.write(stage.ledger.of(stage.tenants[OUTDATED]), outdated)
    await stage.world.services.databases.forget(stage.tenants[OUTDATED].id)


async def _change_password(cast: Cast) -> None:
    client = cast.stage.world.client(
        authorization=cast.bearers["spared session"], x_api_key=cast.keys["acme"]
    )
    async with client:
        body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        answer = await client.put("/api/tenant/auth/change-password", json=body)
    assert answer.is_success, answer.text
