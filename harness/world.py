"""A world: tenants, their users, and what is needed to ask as one of them."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.postgres import new_catalog
from tenantry.access import admins
from tenantry.access.passwords import Passwords
from tenantry.access.principal import Person, Role
from tenantry.access.tokens import ALGORITHM, AUDIENCES, ISSUER
from tenantry.fleet.lifecycle import Lifecycle, Provisioned
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant import users
from tenantry.tenant.users import NewUser

PASSWORD = "correct horse battery staple"
SECRET_KEY = "a secret key that is used in benchmarks alone"
AT_ONCE = 8


class _HashedOnce(Passwords):
    """Hashes a password the first time, and remembers it: there are hundreds of users."""

    _hashed: str | None = None

    async def hash(self, password: str) -> str:
        """Return what to store; all users have the same password."""
        if self._hashed is None:
            self._hashed = await super().hash(password)
        return self._hashed


@dataclass(frozen=True)
class Size:
    """How large a world is.

    Attributes:
        tenants: In it.
        users: Of each tenant.
    """

    tenants: int
    users: int = 1


@dataclass(frozen=True)
class User:
    """A user of a tenant, and a token of theirs."""

    id: str
    email: str
    token: str


@dataclass(frozen=True)
class Tenant:
    """A tenant, and the way in."""

    id: str
    url: str
    api_key: str
    users: list[User]


@dataclass(frozen=True)
class World:
    """What is in one catalog.

    Attributes:
        environment: The settings of a server of this world.
        tenants: All of them.
        admin_token: Of an admin.
        facts: A file of what the peers have to know.
    """

    environment: Mapping[str, str]
    tenants: list[Tenant]
    admin_token: str
    facts: Path

    @property
    def catalog_url(self) -> str:
        """The URL of the catalog."""
        found = self.environment.get("TENANTRY_CATALOG_URL")
        return found or f"sqlite:///{self.environment['TENANTRY_DATA_DIR']}/catalog.db"


def make_world(
    folder: Path,
    size: Size,
    *,
    catalog_url: str | None = None,
    server_url: str | None = None,
    servers: Mapping[str, object] | None = None,
) -> World:
    """Return a new world: on PostgreSQL if URLs are given, else in SQLite files in *folder*.

    Args:
        folder: For its files; it must not be there.
        size: How large it is.
        catalog_url: The URL of an empty database; if None, one is made on the tenant server.
        server_url: The URL of the only tenant server.
        servers: Or several, as in ``TENANTRY_TENANT_SERVERS``; the tenants are spread evenly.
    """
    environment = {
        "TENANTRY_DATA_DIR": str(folder / "data"),
        # The load comes from a few tenants, and would be refused.
        "TENANTRY_REQUESTS_PER_MINUTE": "100000000",
        "TENANTRY_TOKEN_MINUTES": "720",  # some scenarios take more than the default of an hour
    }
    if server_url and not catalog_url:
        catalog_url = new_catalog(server_url)
    if catalog_url:
        environment |= {"TENANTRY_CATALOG_URL": catalog_url, "TENANTRY_SECRET_KEY": SECRET_KEY}
    if server_url:
        environment["TENANTRY_TENANT_SERVER_URL"] = server_url
    if servers:
        environment["TENANTRY_TENANT_SERVERS"] = json.dumps(servers)
    folder.mkdir()
    return asyncio.run(_make(folder, size, environment))


def settings_of(environment: Mapping[str, str], **more: Any) -> Settings:
    """Return the settings that *environment* makes, and *more* of them."""
    values = {name.removeprefix("TENANTRY_").lower(): one for name, one in environment.items()}
    return Settings(_env_file=None, **values, **more)


async def _make(folder: Path, size: Size, environment: dict[str, str]) -> World:
    async with open_services(settings_of(environment, sqlite_synchronous="NORMAL")) as services:
        passwords = _HashedOnce(threads=1, chars_min=8)
        await passwords.hash(PASSWORD)
        lifecycle = replace(services.lifecycle, passwords=passwords)
        admin = await admins.create(
            system_context("bench"),
            services.catalog,
            passwords,
            email="ada@example.com",
            password=PASSWORD,
        )
        person = Person(admin.id, admin.email, Role.ADMIN, admin.generation)
        admin_token = (await services.tokens.issue(person, now=utc_now())).token
        # The first one alone: it makes the template.
        tenants = [await _add_tenant(services, lifecycle, 0, size)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def add(number: int) -> Tenant:
            async with gate:
                return await _add_tenant(services, lifecycle, number, size)

        tenants += await asyncio.gather(*(add(number) for number in range(1, size.tenants)))
        facts = folder / "facts.json"
        facts.write_text(
            json.dumps(
                {
                    "algorithm": ALGORITHM,
                    "issuer": ISSUER,
                    "audience": AUDIENCES[Role.TENANT_USER],
                    "keys": await services.tokens.jwks(),
                    "tenants": [asdict(tenant) | {"users": []} for tenant in tenants],
                }
            )
        )
        passwords.close()
    return World(environment, tenants, admin_token, facts)


async def _add_tenant(services: Services, lifecycle: Lifecycle, number: int, size: Size) -> Tenant:
    names: Sequence[str] = sorted(services.databases.server_names)
    made = await lifecycle.provision(
        system_context("bench"),
        name=f"Tenant {number}",
        owner=NewUser(email=_email(number, 0), full_name="Owner", password=PASSWORD),
        module_keys=None,
        server_name=names[number % len(names)],
    )
    database = await services.databases.open(made.tenant, writes=True)
    found = [made.owner]
    found += [
        await users.create(
            system_context("bench"),
            database,
            lifecycle.passwords,
            NewUser(email=_email(number, one), full_name=f"User {one}", password=PASSWORD),
        )
        for one in range(1, size.users)
    ]
    return Tenant(
        id=str(made.tenant.id),
        url=services.databases.server(made.tenant.server_name).url(made.tenant.database_name),
        api_key=made.key.secret,
        users=[await _with_token(services, made, user) for user in found],
    )


async def _with_token(services: Services, made: Provisioned, user: users.User) -> User:
    person = Person(
        user.id, user.email, Role.TENANT_USER, user.generation, tenant_id=made.tenant.id
    )
    issued = await services.tokens.issue(person, now=utc_now())
    return User(str(user.id), user.email, issued.token)


def _email(tenant: int, user: int) -> str:
    return f"user{user}@tenant{tenant}.example.com"
