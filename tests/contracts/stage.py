"""A world for many requests: its content can be read and restored."""

import asyncio
from dataclasses import dataclass

from tenantry.api.endpoints import Endpoint
from tenantry.catalog.tenants import Tenant
from tenantry.kit.clock import utc_now
from tenantry.tenant.blog import posts
from tenantry.tenant.blog.writing import Author
from testkit.asgi import Answer, Headers, ask
from testkit.decision_table import level_of
from testkit.request_samples import body_of, path_of, query_of
from tests.conftest import World, provision
from tests.contracts.ledger import Dump, Ledger, difference


@dataclass
class Stage:
    """A world with a snapshot of its first state.

    Attributes:
        tenants: By name.
        ids: Real ones, by the names of parameters in paths.
        user_id: Of a user of acme who is not needed for anything else.
        mcp_token: Of acme, bound to its owner, with every scope.
        link_secret: Of an invitation to acme.
        preview_token: Of a post of acme.
    """

    world: World
    ledger: Ledger
    tenants: dict[str, Tenant]
    ids: dict[str, str]
    user_id: str
    mcp_token: str
    bearers: dict[str, str]
    begun: dict[str, Dump]
    link_secret: str = ""
    preview_token: str = ""

    async def ask(
        self,
        endpoint: Endpoint,
        *,
        headers: Headers = (),
        body: bytes | list[bytes] = b"",
        query: bytes = b"",
        path: str | None = None,
    ) -> Answer:
        path = path_of(endpoint, self.ids) if path is None else path
        return await ask(
            self.world.app, endpoint.method, path, headers=headers, body=body, query=query
        )

    def good(self, endpoint: Endpoint) -> list[tuple[str, str]]:
        """Return the headers of a caller who may use the endpoint."""
        key = ("x-api-key", self.world.acme.key.secret)
        return {
            "Open": [],
            "Admin": [("authorization", self.bearers["admin"])],
            "Tenant login": [key],
            "Tenant": [key, ("authorization", self.bearers["user of acme"])],
            "Public": [key],
            "MCP": [("x-mcp-token", self.mcp_token)],
        }[level_of(endpoint.path)]

    def body(self, endpoint: Endpoint, tenant: str = "acme") -> dict[str, object]:
        is_admin = level_of(endpoint.path) == "Open"
        login = "ada@example.com" if is_admin else f"owner@{tenant}.example.com"
        body = body_of(endpoint, login=login, user_id=self.user_id)
        return body | {"secret": self.link_secret} if "/links/" in endpoint.path else body

    def query(self, endpoint: Endpoint) -> bytes:
        """Return the required query of the endpoint."""
        if endpoint.path == PREVIEW:
            return b"token=" + self.preview_token.encode()
        return b"" if endpoint.reads_body else query_of(endpoint, name="acme")

    def now(self) -> dict[str, Dump]:
        return self.ledger.dump_all(self.tenants.values())

    def changes(self) -> list[str]:
        """Return the differences to the first state, except in the history."""
        return [
            line for line in difference(self.begun, self.now()) if line.split()[0] not in HISTORY
        ]

    async def restore(self, tenant: str = "acme") -> None:
        """Restore credentials, users and the content of tenants.

        In a thread: a transaction of the service may hold the lock, and needs the event loop.
        """
        await asyncio.to_thread(self._restore, tenant)

    def _restore(self, tenant: str) -> None:
        self.ledger.restore_catalog(self.begun["catalog"])
        self.ledger.restore(self.tenants[tenant], self.begun[tenant])


PREVIEW = "/api/public/blog/preview"
HISTORY = {
    "catalog.audit_entry",
    "catalog.job",
    "catalog.migration_run",
    "catalog.tenant_migration",
    "catalog.catalog",
}


async def set_up(world: World, ledger: Ledger) -> Stage:
    """Return a stage over *world*, with two tenants."""
    admin = f"Bearer {await world.admin_token()}"
    owner = f"Bearer {await world.token(world.acme)}"
    stage = Stage(
        world=world,
        ledger=ledger,
        tenants={"acme": world.acme.tenant, "globex": world.globex.tenant},
        ids={},
        user_id="",
        mcp_token=await world.mcp_token(world.acme, minutes=60),
        bearers={"admin": admin, "user of acme": owner},
        begun={},
    )
    await _find_ids(stage)
    stage.begun = stage.now()
    return stage


async def add_tenant(stage: Stage, name: str) -> str:
    """Provision one more tenant like those of the world; return its API key."""
    made = await provision(stage.world.services, name, full_name=f"Owner {name}-canary")
    stage.tenants[name] = made.tenant
    stage.world.canaries[name] = f"{name}-canary"
    await posts.write_new(
        await stage.world.services.databases.open(made.tenant, writes=True),
        title=f"Hello from {name}",
        content=f"The content is {name}-canary.",
        tags=["news", f"{name}-canary"],
        author=Author(made.owner.id, made.owner.full_name),
        now=utc_now(),
    )
    stage.bearers[f"user of {name}"] = f"Bearer {await stage.world.token(made)}"
    return made.key.secret


async def as_admin(stage: Stage, method: str, path: str, **body: object) -> dict[str, object]:
    """Do something as an admin, over HTTP."""
    client = stage.world.client(authorization=stage.bearers["admin"])
    async with client:
        answer = await client.request(method, path, json=body or None)
    assert answer.is_success, answer.text
    data: dict[str, object] = answer.json().get("data", {})
    return data


async def _delete_post(stage: Stage) -> str:
    """Return the id of a post in the bin of acme."""
    headers = {"authorization": stage.bearers["user of acme"]}
    headers["x-api-key"] = stage.world.acme.key.secret
    path, body = "/api/tenant/blog/posts", {"title": "In the bin", "content": "acme-canary"}
    async with stage.world.client(**headers) as client:
        post_id = str((await client.post(path, json=body)).json()["data"]["id"])
        assert (await client.delete(f"{path}/{post_id}")).is_success
    return post_id


async def _preview_link(stage: Stage, post_id: str) -> str:
    """Return the id of a preview link of a post of acme, and keep its token."""
    headers = {"authorization": stage.bearers["user of acme"]}
    headers["x-api-key"] = stage.world.acme.key.secret
    path = f"/api/tenant/blog/posts/{post_id}/preview-links"
    async with stage.world.client(**headers) as client:
        link = (await client.post(path, json={})).json()["data"]
    stage.preview_token = link["token"]
    return str(link["id"])


async def _find_ids(stage: Stage) -> None:
    tenant_id = str(stage.world.acme.tenant.id)
    base = f"/api/admin/tenants/{tenant_id}"
    user = await as_admin(
        stage,
        "POST",
        f"{base}/users",
        email="bystander@acme.example.com",
        fullName="Bystander acme-canary",
        password="bystander's long passphrase",
    )
    key = await as_admin(stage, "POST", f"{base}/api-keys")
    token = await as_admin(
        stage, "POST", f"{base}/mcp-tokens", name="spare", userId=str(stage.world.acme.owner.id)
    )
    link = await as_admin(stage, "POST", f"{base}/invitations", email="invited@acme.example.com")
    await as_admin(stage, "POST", "/api/admin/tenants/migrate-all")
    dry_run = await as_admin(stage, "POST", "/api/admin/tenants/migrate-all", dryRun=True)
    plan = dry_run["plan"]
    assert isinstance(plan, dict)
    job = await as_admin(stage, "POST", f"{base}/backup")
    written = stage.ledger.dump(stage.world.acme.tenant)["tenantry_post"]
    runs = await as_admin(stage, "GET", "/api/admin/tenants/migration-history")
    listed = runs["items"]
    assert isinstance(listed, list)
    stage.user_id = str(user["id"])
    stage.link_secret = str(link["url"]).partition("#")[2]
    stage.ids.update(
        tenantId=tenant_id,
        userId=stage.user_id,
        keyId=str(key["id"]),
        tokenId=str(token["id"]),
        linkId=str(link["id"]),
        jobId=str(job["id"]),
        runId=listed[0]["id"],
        planId=plan["id"],
        slug="hello-from-acme",
        postId=str(written[0]["id"]),
        number="1",
        deletedPostId=await _delete_post(stage),
        previewLinkId=await _preview_link(stage, str(written[0]["id"])),
    )
