"""The states of tenants and of their credentials, as a model predicts them."""

import itertools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.api import CHANGE_PASSWORD, MIGRATE_ALL, TENANTS
from harness.states.service import Service
from harness.world import PASSWORD, settings_of

LOGIN = "/api/tenant/auth/login"
POSTS = "/api/tenant/blog/posts"
PUBLIC = "/api/public/blog/posts"
MODULES = "/api/tenant/modules"
OWNER = "owner@example.com"
FAR, NEAR = "far", "default"
TENANTS_MAX, CREATED_MAX = 4, 3
CHOICE = st.integers(0, 11)


@dataclass
class Content:
    """What is in the database of a tenant.

    Attributes:
        posts: Their titles.
        password: Of the owner.
        revision: How many revisions of the operator are applied.
    """

    posts: set[str] = field(default_factory=set)
    password: str = PASSWORD
    revision: int = 1


@dataclass
class Tenant:
    """A tenant, as predicted.

    Attributes:
        keys: The secret of each API key, with its id; None if it is revoked.
        sessions: Tokens of the owner, and whether each is alive.
        tokens: McpTokens that are bound to no user, with their ids; None if it is revoked.
    """

    id: str
    name: str
    content: Content
    keys: dict[str, str | None] = field(default_factory=dict)
    sessions: dict[str, bool] = field(default_factory=dict)
    tokens: dict[str, str | None] = field(default_factory=dict)
    is_active: bool = True
    is_read_only: bool = False

    @property
    def path(self) -> str:
        """Where an admin finds it."""
        return f"{TENANTS}/{self.id}"

    @property
    def is_written(self) -> bool:
        """Whether its users can write, and runs include it."""
        return self.is_active and not self.is_read_only

    @property
    def key(self) -> str:
        """A key that is not revoked."""
        return next(secret for secret, key_id in self.keys.items() if key_id is not None)


@dataclass(frozen=True)
class Archive:
    """An archive of a tenant."""

    name: str
    tenant_id: str
    content: Content


class TenantStates(RuleBasedStateMachine):
    """Steps of an admin and of owners; after each, every credential is tried.

    Attributes:
        place: Returns the environment of a service that has never run, and what is closed after
            it.
        steps: What was done, by all walks.
    """

    place: ClassVar[Callable[[ExitStack], Mapping[str, str]]]
    steps: ClassVar[list[str]] = []

    def __init__(self) -> None:
        """Start the service."""
        super().__init__()
        self.stack = ExitStack()
        self.environment = type(self).place(self.stack)
        self.released = 1
        self.service = Service(settings_of(self.environment))
        self.tenants: list[Tenant] = []
        self.deleted: list[Tenant] = []
        self.archives: list[Archive] = []
        self.numbers = itertools.count()

    def teardown(self) -> None:
        """End the service."""
        self.service.close()
        self.stack.close()

    def one(self, choice: int) -> Tenant:
        """Return one of the tenants."""
        return self.tenants[choice % len(self.tenants)]

    def name(self) -> str:
        """Return a new name."""
        return f"Tenant {next(self.numbers)}"

    def note(self, step: str) -> None:
        """Count a step."""
        self.steps.append(step)

    def admit(self, tenant_id: str, name: str, content: Content) -> Tenant:
        """Add a tenant that a job has made, at the head; with a key, because jobs show none."""
        tenant = Tenant(tenant_id, name, replace(deepcopy(content), revision=self.released))
        self.tenants.append(tenant)
        self.add_key(tenant)
        return tenant

    def add_key(self, tenant: Tenant) -> None:
        """Issue an API key."""
        made = self.service.admin("POST", f"{tenant.path}/api-keys", {})
        assert made.status == 201, made.body
        data = made.json()["data"]
        tenant.keys[data["key"]] = data["id"]

    @initialize()
    def begin(self) -> None:
        """Create the first tenant."""
        self.create()

    @precondition(lambda self: len(self.tenants) < CREATED_MAX)
    @rule()
    def create(self) -> None:
        """Create a tenant."""
        self.note("create")
        name = self.name()
        owner = {"email": OWNER, "fullName": "Owner", "password": PASSWORD}
        made = self.service.admin("POST", TENANTS, {"name": name, "owner": owner})
        assert made.status == 201, made.body
        self.admit(made.json()["data"]["id"], name, Content(revision=self.released))

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE)
    def log_in(self, choice: int) -> None:
        """Log in as the owner."""
        self.note("log in")
        tenant = self.one(choice)
        body = {"email": OWNER, "password": tenant.content.password}
        answer = self.service.ask("POST", LOGIN, body, x_api_key=tenant.key)
        assert answer.status == (200 if tenant.is_active else 403), answer.body
        if answer.status == 200:
            tenant.sessions[answer.json()["data"]["token"]] = True

    @precondition(lambda self: any(any(one.sessions.values()) for one in self.tenants))
    @rule(choice=CHOICE)
    def write(self, choice: int) -> None:
        """Write a post."""
        self.note("write a post")
        tenant, session = self.signed_in(choice)
        title = f"Post {next(self.numbers)}"
        body = {"title": title, "content": "Text.", "tags": []}
        answer = self.service.ask("POST", POSTS, body, **self.own(tenant, session))
        allowed = tenant.is_written
        assert answer.status == (201 if allowed else 403), answer.body
        if allowed:
            tenant.content.posts.add(title)

    @precondition(lambda self: any(any(one.sessions.values()) for one in self.tenants))
    @rule(choice=CHOICE)
    def change_password(self, choice: int) -> None:
        """Change the password of the owner: the other sessions end."""
        self.note("change the password")
        tenant, session = self.signed_in(choice)
        new = f"another good password {next(self.numbers)}"
        body = {"currentPassword": tenant.content.password, "newPassword": new}
        answer = self.service.ask("PUT", CHANGE_PASSWORD, body, **self.own(tenant, session))
        allowed = tenant.is_written
        assert answer.status == (200 if allowed else 403), answer.body
        if allowed:
            tenant.content.password = new
            tenant.sessions = {one: one == session for one in tenant.sessions}

    def signed_in(self, choice: int) -> tuple[Tenant, str]:
        """Return a session that is alive, with its tenant."""
        found = [(one, s) for one in self.tenants for s, alive in one.sessions.items() if alive]
        return found[choice % len(found)]

    def own(self, tenant: Tenant, session: str) -> dict[str, str]:
        """Return the headers of the owner."""
        return {"x_api_key": tenant.key, "authorization": f"Bearer {session}"}

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE, is_key=st.booleans())
    def issue(self, choice: int, is_key: bool) -> None:  # noqa: FBT001 - hypothesis passes names
        """Issue an API key or an McpToken."""
        self.note("issue")
        tenant = self.one(choice)
        if is_key:
            self.add_key(tenant)
            return
        made = self.service.admin("POST", f"{tenant.path}/mcp-tokens", {"name": "assistant"})
        assert made.status == 201, made.body
        data = made.json()["data"]
        tenant.tokens[data["token"]] = data["id"]

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE, is_key=st.booleans())
    def revoke(self, choice: int, is_key: bool) -> None:  # noqa: FBT001 - hypothesis passes names
        """Revoke an API key, but not the last one, or an McpToken."""
        tenant = self.one(choice)
        held, what = (tenant.keys, "api-keys") if is_key else (tenant.tokens, "mcp-tokens")
        alive = [secret for secret, held_id in held.items() if held_id is not None]
        if len(alive) <= is_key:
            return
        self.note("revoke")
        answer = self.service.admin("DELETE", f"{tenant.path}/{what}/{held[alive[-1]]}")
        assert answer.status == 200, answer.body
        held[alive[-1]] = None

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE, is_active=st.booleans(), is_read_only=st.booleans())
    def switch(self, choice: int, is_active: bool, is_read_only: bool) -> None:  # noqa: FBT001
        """Suspend a tenant, resume it, make it read-only or writable, which migrates it."""
        self.note("switch")
        tenant = self.one(choice)
        changes = {"isActive": is_active, "isReadOnly": is_read_only}
        answer = self.service.admin("PATCH", tenant.path, changes)
        assert answer.status == 200, answer.body
        was_written = tenant.is_written
        tenant.is_active, tenant.is_read_only = is_active, is_read_only
        if tenant.is_written and not was_written:
            tenant.content.revision = self.released

    def migrate(self) -> None:
        """Migrate every tenant; suspended and read-only ones are left out."""
        self.note("migrate")
        answer = self.service.admin("POST", MIGRATE_ALL)
        assert answer.status == 200, answer.body
        data = answer.json()["data"]
        wanted = [one for one in self.tenants if one.is_written]
        assert (data["total"], data["failed"]) == (len(wanted), 0), data
        for tenant in wanted:
            tenant.content.revision = self.released

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE)
    def back_up(self, choice: int) -> None:
        """Back up a tenant."""
        self.note("back up")
        tenant = self.one(choice)
        job = self.service.job(f"{tenant.path}/backup")
        name = job["archive"].rpartition("/")[2]
        self.archives.append(Archive(name, tenant.id, deepcopy(tenant.content)))

    @precondition(lambda self: self.archives and len(self.tenants) < TENANTS_MAX)
    @rule(choice=CHOICE)
    def restore(self, choice: int) -> None:
        """Restore an archive as a new tenant."""
        self.note("restore")
        archive, name = self.archives[choice % len(self.archives)], self.name()
        body = {"archive": archive.name, "name": name}
        job = self.service.job("/api/admin/archives/restore", body)
        self.admit(job["tenantId"], name, archive.content)

    @precondition(lambda self: self.replaceable())
    @rule(choice=CHOICE)
    def replace(self, choice: int) -> None:
        """Restore an archive in place of its tenant: all logins end, and keys stay."""
        self.note("replace")
        found = self.replaceable()
        tenant, archive = found[choice % len(found)]
        body = {"archive": archive.name, "name": tenant.name}
        self.service.job(f"{tenant.path}/restore", body)
        answer = self.service.admin("POST", f"{tenant.path}/confirm-restore", {})
        assert answer.status == 200, answer.body
        tenant.content = replace(deepcopy(archive.content), revision=self.released)
        tenant.sessions = dict.fromkeys(tenant.sessions, False)

    def replaceable(self) -> list[tuple[Tenant, Archive]]:
        """Return each tenant with each archive of it."""
        return [
            (one, archive)
            for one in self.tenants
            for archive in self.archives
            if archive.tenant_id == one.id
        ]

    @precondition(lambda self: 0 < len(self.tenants) < TENANTS_MAX)
    @rule(choice=CHOICE)
    def clone(self, choice: int) -> None:
        """Copy a tenant to a new one."""
        self.note("clone")
        tenant, name = self.one(choice), self.name()
        self.service.job(f"{tenant.path}/clone", {"name": name})
        listed = self.service.admin("GET", f"{TENANTS}?search={quote(name)}").json()["data"]
        (made,) = [one for one in listed["items"] if one["name"] == name]
        self.admit(made["id"], name, tenant.content)

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE)
    def move(self, choice: int) -> None:
        """Move a tenant to the other server."""
        self.note("move")
        tenant = self.one(choice)
        target = NEAR if self.server_of(tenant) == FAR else FAR
        self.service.job(f"{tenant.path}/move", {"server": target})
        assert self.server_of(tenant) == target

    def server_of(self, tenant: Tenant) -> str:
        """Return the server that a tenant is on."""
        return str(self.service.admin("GET", tenant.path).json()["data"]["serverName"])

    @precondition(lambda self: self.tenants)
    @rule(choice=CHOICE)
    def delete(self, choice: int) -> None:
        """Delete a tenant, which must be suspended."""
        self.note("delete")
        tenant = self.one(choice)
        answer = self.service.admin("DELETE", f"{tenant.path}?name={quote(tenant.name)}")
        assert answer.status == (409 if tenant.is_active else 200), answer.body
        if not tenant.is_active:
            self.tenants.remove(tenant)
            self.deleted.append(tenant)

    @precondition(lambda self: self.deleted)
    @rule(choice=CHOICE)
    def undelete(self, choice: int) -> None:
        """Bring a deleted tenant back, suspended."""
        self.note("undelete")
        tenant = self.deleted.pop(choice % len(self.deleted))
        path = f"/api/admin/deleted-tenants/{tenant.id}/undelete"
        answer = self.service.admin("POST", path, {})
        assert answer.status == 200, answer.body
        tenant.is_active = False
        self.tenants.append(tenant)

    @invariant()
    def credentials_do_what_they_may(self) -> None:
        """Try every credential, and read every post."""
        for tenant in self.tenants:
            revision = self.service.admin("GET", tenant.path).json()["data"]["schemaRevision"]
            assert revision.partition("/")[2] == f"{tenant.content.revision:04}", (tenant, revision)
            closed = 200 if tenant.is_active else 403
            for secret, key_id in tenant.keys.items():
                answer = self.service.ask("GET", PUBLIC, x_api_key=secret)
                assert answer.status == (401 if key_id is None else closed), (tenant, secret)
            for secret, token_id in tenant.tokens.items():
                answer = self.service.ask("GET", MODULES, x_mcp_token=secret)
                assert answer.status == (401 if token_id is None else closed), (tenant, secret)
            for session, alive in tenant.sessions.items():
                own = self.own(tenant, session)
                answer = self.service.ask("GET", f"{POSTS}?pageSize=100", **own)
                expected = closed if alive or not tenant.is_active else 401
                assert answer.status == expected, (tenant, session, answer.body)
                if answer.status == 200:
                    titles = {one["title"] for one in answer.json()["data"]["items"]}
                    assert titles == tenant.content.posts, tenant
        for tenant in self.deleted:
            answer = self.service.ask("GET", PUBLIC, x_api_key=tenant.key)
            assert answer.status == 401, tenant
