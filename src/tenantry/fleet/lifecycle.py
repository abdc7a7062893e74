"""Create tenants, and change them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Unpack

import msgspec

from tenantry.access import credentials
from tenantry.access.credentials import IssuedKey
from tenantry.access.passwords import Passwords
from tenantry.catalog import jobs, tenants
from tenantry.catalog.database import Catalog, Unchanged
from tenantry.catalog.job_states import Job
from tenantry.catalog.jobs import PROVISION
from tenantry.catalog.labels import checked_labels
from tenantry.catalog.tenants import NAME_CHARS_MAX, Tenant, TenantState, TenantValues
from tenantry.db import audit_log
from tenantry.fleet.placement import Placement
from tenantry.fleet.templates import Templates
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid, TenantryError, Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.preconditions import Expected, check
from tenantry.kit.sizes import LIMIT_BYTES_MIN, shown_size
from tenantry.kit.tasks import beside
from tenantry.kit.text import checked_label
from tenantry.migration.errors import explain, reason_of
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaState
from tenantry.migration.streams import Streams
from tenantry.tenant import modules, users
from tenantry.tenant.databases import TenantDatabases
from tenantry.tenant.users import NewUser, User
from tenantry.work.ledger import JobLost, Ledger, finish, new_job
from tenantry.work.running import running

PROVISION_SECONDS_MAX = 120.0

_LOGGED = tuple(TenantValues.__annotations__)
# What a run changes, also the one that brings a tenant to the head in the middle of an update.
_MIGRATED = ("schema_revision", "failing_run_id", "drifted_at")


class ProvisioningFailed(Unavailable):
    """The tenant's database could not be created; nothing was kept."""


class UnknownServer(Invalid):
    """There is no tenant server of this name."""


class BadSizeLimit(Invalid):
    """The size limit is too small for a database."""


class ActivationFailed(Conflict):
    """The tenant's database could not be migrated, so it stays as it is."""


@dataclass(frozen=True, kw_only=True)
class Provisioned:
    """A new tenant, its owner, and its API key, with the secret, which cannot be read again."""

    tenant: Tenant
    owner: User
    key: IssuedKey


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Creates, updates and deletes tenants.

    Attributes:
        templates: Creates databases as copies of a template.
        ledger: Holds the job of each tenant that is created or removed.
    """

    catalog: Catalog
    databases: TenantDatabases
    migrator: Migrator
    templates: Templates
    passwords: Passwords
    placement: Placement
    ledger: Ledger
    streams: Callable[[], Streams]

    async def provision(
        self,
        ctx: OperationContext,
        *,
        name: str,
        owner: NewUser,
        module_keys: list[str] | None = None,
        server_name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Provisioned:
        """Create a tenant at the head revision, or change nothing.

        All modules are on for it by default. Without *server_name*, its server is one with room, by
        weight.

        Raises:
            UnknownServer: There is no server of this name.
            NoServerHasRoom: Every server with a weight has reached its limit.
            BadText, BadEmail, BadPassword, UnknownModule, BadLabels: A rule is broken.
            TenantNameInUse: The name is taken.
            ProvisioningFailed: Its database could not be created.
        """
        users.check_new(self.passwords, owner)
        if server_name is None:
            server_name = await self.placement.choose(self.catalog)
        elif server_name not in self.databases.server_names:
            raise UnknownServer
        tenant = new_tenant(ctx, name, module_keys, server_name)
        tenant = msgspec.structs.replace(tenant, labels=checked_labels(labels or {}))
        return await self._provision(ctx, tenant, owner)

    async def update(
        self,
        ctx: OperationContext,
        tenant: Tenant,
        *,
        module_keys: list[str] | None = None,
        expected: Expected = None,
        **values: Unpack[TenantValues],
    ) -> Tenant:
        """Set the values that are not None, and return the tenant.

        A tenant that becomes writable is first migrated to the head: runs have left it out.

        Raises:
            BadText, UnknownModule, BadSizeLimit, BadLabels: A rule is broken.
            NotServed: It is an attached database, which has no modules and no limits.
            TenantNameInUse: The name is taken.
            ActivationFailed: It could not be migrated to the head, and nothing was changed.
            TenantNotFound: It was deleted in the meantime.
            ResourceChanged: The tenant is not what is *expected*.
        """
        if (name := values.get("name")) is not None:
            checked_name(name)
        if module_keys is not None:
            values["modules"] = modules.checked_keys(module_keys)
        _check_limits(tenant, values)
        if (labels := values.get("labels")) is not None:
            values["labels"] = checked_labels(labels)
        check(expected, tenant)
        is_active, is_read_only = values.get("is_active"), values.get("is_read_only")
        active = tenant.is_active if is_active is None else is_active
        read_only = tenant.is_read_only if is_read_only is None else is_read_only
        was_writable = tenant.is_active and not tenant.is_read_only
        if active and not read_only and not was_writable:
            await self._bring_to_head(tenant)
        changes: audit_log.Changes = []
        async with self.catalog.change(
            ctx, "tenant.update", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            is_kept = bool(is_read_only or is_active is False) and await jobs.keep(
                session, tenant.id, read_only=bool(is_read_only), suspended=is_active is False
            )
            before = await tenants.lock(session, tenant.id)
            check(expected, _as_migrated(before, tenant))
            changed = await tenants.update(session, tenant.id, **values)
            changes += audit_log.changes_between(before, changed, *_LOGGED)
            if not changes and not is_kept:
                raise Unchanged
        return changed

    async def bring_to_head(self, tenant: Tenant) -> None:
        """Migrate a tenant to the head.

        Raises:
            Exception: It cannot be migrated.
        """
        place = await self.databases.place_of(tenant)
        scripts = RunScripts(self.streams()).of(is_attached=place.is_attached)
        migrated = await self._migrate(place.url, scripts)
        await tenants.set_revision(self.catalog, tenant.id, str(migrated.revision))

    async def create_database(
        self, ctx: OperationContext, server_name: str, *, scripts: RunScripts, name: str
    ) -> None:
        """Create the database *name* at the head: a copy of the template, migrated.

        Raises:
            Exception: Any error of the drivers and the revisions.
        """
        await self.templates.copy(ctx, server_name, scripts=scripts, to=name)
        if scripts.streams.user is not None:  # revisions that the template does not contain
            rest = RunScripts(scripts.streams, is_of_template=True)
            await self._migrate(self.databases.server(server_name).url(name), rest)

    async def _provision(
        self, ctx: OperationContext, tenant: Tenant, owner: NewUser
    ) -> Provisioned:
        job = new_job(ctx, PROVISION, new=tenant)
        try:
            # Hashing takes longer than the rest, so it runs concurrently.
            async with (
                beside(self.passwords.hash(owner.password)) as password_hash,
                running(self.ledger, job, tenant=tenant, owner_email=owner.email),
                asyncio.timeout(PROVISION_SECONDS_MAX),
            ):
                scripts = RunScripts(self.streams())
                await self.create_database(
                    ctx, tenant.server_name, scripts=scripts, name=tenant.database_name
                )
                hashed = await password_hash
                server = self.databases.server(tenant.server_name)
                async with server.filling(tenant.database_name) as fresh:
                    user = await users.add(ctx, fresh, owner, password_hash=hashed)
                revision = str(await asyncio.to_thread(scripts.head))
                return await self.publish(
                    ctx, "create", job, tenant, user, revision=revision, logged="modules"
                )
        except Exception as error:
            if isinstance(error, TenantryError) and not isinstance(error, Unavailable):
                raise
            raise ProvisioningFailed(
                f"The tenant could not be created: {reason_of(error)}"
            ) from error

    async def publish(
        self,
        ctx: OperationContext,
        action: str,
        job: Job,
        tenant: Tenant,
        owner: User,
        *,
        revision: str,
        logged: str,
    ) -> Provisioned:
        """Make a new tenant visible, with an API key, and end its job: all, or nothing.

        *logged* is a value for the audit log, beside its name and its server.

        Raises:
            JobLost: This process does not hold the job any longer.
        """
        changes = audit_log.changes_between(None, tenant, "name", "server_name", logged)
        async with self.catalog.change(
            ctx, f"tenant.{action}", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            await finish(session, self.ledger, job)
            ready = await tenants.set_ready(
                session, tenant.id, worker_id=self.ledger.worker_id, revision=revision
            )
            if ready is None:
                raise JobLost
            key = await credentials.add_key(ctx, session, tenant.id, expires_at=None)
        return Provisioned(tenant=ready, owner=owner, key=key)

    async def _bring_to_head(self, tenant: Tenant) -> None:
        try:
            await self.bring_to_head(tenant)
        except Exception as error:
            state = "read-only" if tenant.is_active else "inactive"
            raise ActivationFailed(
                f"The tenant stays {state}, because it cannot be migrated: {explain(error)}"
            ) from error

    async def _migrate(self, url: str, scripts: RunScripts) -> SchemaState:
        migrated = await self.migrator.migrate(url, scripts, run_id=new_id())
        if migrated.error is not None:
            raise migrated.error
        return migrated


def new_tenant(
    ctx: OperationContext, name: str, module_keys: list[str] | None, server_name: str
) -> Tenant:
    """Return a tenant that is about to be created.

    Raises:
        BadText, UnknownModule: A rule is broken.
    """
    tenant_id = new_id()
    return Tenant(
        id=tenant_id,
        name=checked_name(name),
        database_name=f"tenantry_{tenant_id.hex}",
        server_name=server_name,
        state=TenantState.PROVISIONING.value,
        is_active=True,
        modules=modules.ALL_KEYS if module_keys is None else modules.checked_keys(module_keys),
        created_at=ctx.now,
        schema_revision=None,
    )


def checked_name(name: str) -> str:
    """Return *name*, if a tenant may have it.

    Raises:
        BadText: It breaks a rule.
    """
    return checked_label("name", name, chars_max=NAME_CHARS_MAX)


def _as_migrated(before: Tenant, known: Tenant) -> Tenant:
    return msgspec.structs.replace(before, **{name: getattr(known, name) for name in _MIGRATED})


def _check_limits(tenant: Tenant, values: TenantValues) -> None:
    limits = "modules", "requests_per_minute", "size_bytes_max"
    if any(values.get(name) is not None for name in limits):
        tenant.check_served()
    size_bytes = values.get("size_bytes_max")
    if size_bytes and size_bytes < LIMIT_BYTES_MIN:
        raise BadSizeLimit(f"The size limit must be 0, or at least {shown_size(LIMIT_BYTES_MIN)}.")
