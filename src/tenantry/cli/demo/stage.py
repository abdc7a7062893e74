"""Create the data of the demo: sample tenants behind the head, one broken, and a migration run."""

import asyncio
import contextlib
import secrets
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tenantry.access import admins, credentials
from tenantry.cli import session, transfer
from tenantry.cli.demo.samples import SampleTenant, sample_tenants
from tenantry.cli.migrating import migrate_all
from tenantry.cli.printing.progress import Found
from tenantry.db.urls import sqlite_path
from tenantry.fleet.lifecycle import Provisioned
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT
from tenantry.kit import private
from tenantry.schemas.base import Schema
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.blog import posts
from tenantry.tenant.blog.writing import Author
from tenantry.tenant.users import NewUser

ADMIN = "admin@example.com"
PASSWORD_BYTES = 12
POST_EVERY = timedelta(days=9)

REVISIONS = Path(__file__).parent / "revisions" / "versions"
# Tenants are created with the first revision. The others are added when all tenants exist.
REVISIONS_AT_CREATION = 1
# The next revision creates this table.
BREAKING = "CREATE TABLE invoices (id INTEGER PRIMARY KEY, note TEXT)"
BROKEN = "Kestrel Cycles"


class Login(Schema, frozen=True):
    """The e-mail address and the password of an account."""

    email: str
    password: str


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The data of the demo, and its credentials.

    Attributes:
        admin_token: A bearer token of the admin.
        mcp_token: An McpToken of the tenant, bound to its owner.
        tenant: The tenant of the shown credentials.
        ended: The migration run.
    """

    admin: Login
    admin_token: str
    mcp_token: str
    tenant: Provisioned
    owner: Login
    ended: Found


async def set_stage(settings: Settings, *, tenants_wanted: int) -> Stage:
    """Create the tenants, add revisions, break one tenant, and migrate all of them."""
    assert settings.tenant_migrations is not None
    versions = settings.tenant_migrations / "versions"
    await asyncio.to_thread(_write_revisions, versions, REVISIONS_AT_CREATION)
    async with open_services(settings) as services:
        admin = _login(ADMIN)
        await admins.create(
            session.context(),
            services.catalog,
            services.passwords,
            email=admin.email,
            password=admin.password,
        )
        samples = sample_tenants(tenants_wanted)
        logins = [_login(sample.email) for sample in samples]
        made = await _make_all(services, samples, logins)
        await asyncio.to_thread(_write_revisions, versions, None)
        await asyncio.to_thread(_break, services, made)
        ended = await migrate_all(services, triggered_by=admin.email, options=EVERY_ACTIVE_TENANT)
        return Stage(
            admin=admin,
            admin_token=await _admin_token(services, admin),
            mcp_token=await _mcp_token(services, made[0]),
            tenant=made[0],
            owner=logins[0],
            ended=ended,
        )


def _login(email: str) -> Login:
    return Login(email, secrets.token_urlsafe(PASSWORD_BYTES))


def _write_revisions(versions: Path, count: int | None) -> None:
    private.make_folder(versions)
    for revision in sorted(REVISIONS.glob("*.py"))[:count]:
        shutil.copyfile(revision, versions / revision.name)


async def _make_all(
    services: Services, samples: Sequence[SampleTenant], logins: Sequence[Login]
) -> list[Provisioned]:
    made: list[Provisioned] = []
    with transfer.counted("Creating tenants", lambda: len(made), total=len(samples)):
        for sample, login in zip(samples, logins, strict=True):
            made.append(await _make(services, sample, login))
    return made


async def _make(services: Services, sample: SampleTenant, login: Login) -> Provisioned:
    ctx = session.context()
    owner = NewUser(email=login.email, full_name=sample.owner, password=login.password)
    made = await services.lifecycle.provision(ctx, name=sample.name, owner=owner, module_keys=None)
    database = await services.databases.open(made.tenant, writes=True)
    # The oldest one first: ids and lists follow the order of writing.
    for age, post in reversed(list(enumerate(sample.posts))):
        await posts.write_new(
            database,
            title=post.title,
            content=post.content,
            tags=list(post.tags),
            author=Author(made.owner.id, made.owner.full_name),
            now=ctx.now - age * POST_EVERY,
            is_published=not post.is_draft,
        )
    return made


def _break(services: Services, made: Sequence[Provisioned]) -> None:
    """Change the schema of one database without a revision, as a manual change would."""
    tenants = [one.tenant for one in made]
    tenant = next((one for one in tenants if one.name == BROKEN), tenants[-1])
    path = sqlite_path(services.databases.server(tenant.server_name).url(tenant.database_name))
    assert path is not None
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(BREAKING)


async def _admin_token(services: Services, admin: Login) -> str:
    issued = await admins.login(
        session.context(),
        services.catalog,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        tokens=services.tokens,
        email=admin.email,
        password=admin.password,
    )
    return issued.token


async def _mcp_token(services: Services, made: Provisioned) -> str:
    issued = await credentials.issue_mcp_token(
        session.context(),
        services.catalog,
        made.tenant.id,
        name="demo",
        user_id=made.owner.id,
        user_generation=made.owner.token_generation,
    )
    return issued.secret
