"""Tenants."""

import functools
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict, Unpack
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.job_states import Job
from tenantry.catalog.session import CatalogSession, Value, fetch_or_raise, fetch_values
from tenantry.catalog.tables import job, tenant
from tenantry.catalog.where import NoTenantMatches, conditions_of
from tenantry.catalog.workers import is_abandoned
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.text import canonical, shown

NAME_CHARS_MAX = 100
REQUESTS_PER_MINUTE_MAX = 100_000_000


class TenantNameInUse(Conflict):
    """A tenant of this name exists."""


class TenantIdInUse(Conflict):
    """The tenant exists, or is being restored or removed."""


class DatabaseInUse(Conflict):
    """Another tenant has a database of this name."""


class NotServed(NotFound):
    """An attached database has no users, posts and keys, and is copied with its own tools alone."""


class TenantNotFound(NotFound):
    """There is no such tenant."""


class TenantState(StrEnum):
    """The lifecycle state of a tenant. Only ready tenants are visible."""

    PROVISIONING = "provisioning"
    ADOPTING = "adopting"  # its database has foreign content, which must survive a failure
    READY = "ready"
    DELETED = "deleted"  # kept, and can be undeleted: see `catalog.deleted_tenants`
    DELETING = "deleting"


class Tenant(msgspec.Struct, frozen=True):
    """A tenant, and the location of its database.

    Attributes:
        name: Its name, at most 100 characters; no two tenants have the same.
        server_name: The tenant server that holds the database.
        is_active: False for a suspended tenant: its credentials are rejected.
        modules: The keys of its active modules.
        schema_revision: The last known revision of the database, which is authoritative; None if it
            was never seen.
        requests_per_minute: The limit of all of its API keys together, and of all of its users and
            McpTokens together; 0 for that of the settings, which is for each caller.
        size_bytes_max: The size limit of its database in bytes; 0 for that of the settings.
        is_read_only: Whether writes to its data are rejected.
        failing_run_id: The run of the latest attempt to migrate it, if that attempt failed; None
            otherwise.
        labels: Its labels, by which it can be selected, by their keys; at most 20.
        drifted_at: When its schema was found to differ from that of its revision; None if it was
            not.
        is_attached: Whether it is an attached database: without users, posts and API keys, and
            without tables of Tenantry. It is migrated, and not copied.
    """

    id: UUID
    name: str
    database_name: str
    server_name: str
    state: str
    is_active: bool
    modules: frozenset[str]
    created_at: datetime
    schema_revision: str | None
    requests_per_minute: int = 0
    size_bytes_max: int = 0
    is_read_only: bool = False
    failing_run_id: UUID | None = None
    drifted_at: datetime | None = None
    deleted_at: datetime | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    is_attached: bool = False

    def check_served(self) -> None:
        """Check that it is not an attached database.

        Raises:
            NotServed: It is one.
        """
        if self.is_attached:
            raise NotServed


class TenantValues(TypedDict, total=False):
    """The values of a tenant that can be set; None leaves one as it is."""

    name: str | None
    is_active: bool | None
    is_read_only: bool | None
    modules: frozenset[str] | None
    requests_per_minute: int | None
    size_bytes_max: int | None
    labels: dict[str, str] | None


_COLUMNS = columns_of(tenant, Tenant)
_NAME_IN_USE: dict[str, type[Conflict]] = {"uq_tenant_canonical_name": TenantNameInUse}
_IN_USE = {
    **_NAME_IN_USE,
    "uq_tenant_database_name_server_name": DatabaseInUse,
    # The primary key, as PostgreSQL and SQLite name it.
    "tenant_pkey": TenantIdInUse,
    "uq_tenant_id": TenantIdInUse,
}
by_id = tenant.c.id == sa.bindparam("tenant")
is_ready = tenant.c.state == TenantState.READY.value
is_migrated = sa.and_(is_ready, tenant.c.is_active, ~tenant.c.is_read_only)
"""Whether migration runs include the tenant."""


def updating(*conditions: sa.ColumnElement[bool], **values: object) -> Statement[Tenant]:
    """Return a statement that updates the tenants that meet all *conditions*, and returns them."""
    clause = sa.update(tenant).values(values).where(*conditions).returning(*_COLUMNS)
    return Statement(clause, Tenant, conflicts=_NAME_IN_USE)


_DATABASES = Statement(
    sa.select(tenant.c.database_name.label("value")).where(
        tenant.c.server_name == sa.bindparam("server"), is_ready, ~tenant.c.is_attached
    ),
    Value,
)

_ADD = Statement[Any](sa.insert(tenant), conflicts=_IN_USE)
_ready = sa.select(*_COLUMNS).where(is_ready)
_FIND = Statement(_ready.where(by_id), Tenant)
_LOCK = Statement(_ready.where(by_id).with_for_update(key_share=True), Tenant)
_FIND_BY_NAME = Statement(_ready.where(tenant.c.canonical_name == sa.bindparam("name")), Tenant)
_UPDATED = (*TenantValues.__annotations__, "canonical_name")
# None keeps the current value of the row, not the value that was read before.
_UPDATE = updating(
    by_id,
    is_ready,
    **{
        name: sa.func.coalesce(sa.bindparam(name, type_=tenant.c[name].type), tenant.c[name])
        for name in _UPDATED
    },
)
_worker = sa.bindparam("worker", type_=sa.Uuid)
_is_adopting = tenant.c.state == TenantState.ADOPTING.value
_SET_READY = updating(
    by_id,
    sa.or_(tenant.c.state == TenantState.PROVISIONING.value, _is_adopting),
    tenant.c.worker_id == _worker,
    state=TenantState.READY.value,
    worker_id=None,
    schema_revision=sa.bindparam("revision"),
)
_SET_DELETING = updating(
    by_id, is_ready, ~tenant.c.is_active, state=TenantState.DELETING.value, worker_id=_worker
)
# Not as a parameter, which would match no partial index.
_is_unready = tenant.c.state != sa.literal_column(f"'{TenantState.READY.value}'")
# Tenants of an older release have no job: a worker of this release holds the job instead.
_TAKE_ABANDONED = updating(
    _is_unready,
    tenant.c.state != TenantState.DELETED.value,
    sa.or_(tenant.c.worker_id.is_(None), is_abandoned(tenant.c.worker_id, _worker)),
    ~sa.exists().where(job.c.tenant_id == tenant.c.id, job.c.finished_at.is_(None)),
    worker_id=_worker,
)
# Most tenants are where they were, and then there is nothing to write.
_SET_REVISION = Statement[Any](
    sa.update(tenant)
    .values(schema_revision=sa.bindparam("revision"))
    .where(by_id, tenant.c.schema_revision.is_distinct_from(sa.bindparam("revision")))
)
# A job names the database that it fills, drops or adopts; that of a ready tenant is another one.
_is_of_job = sa.and_(
    by_id,
    _is_unready,
    tenant.c.state != TenantState.DELETED.value,
    tenant.c.server_name == sa.bindparam("server"),
    tenant.c.database_name == sa.bindparam("database"),
)
_CONDEMN = updating(
    _is_of_job,
    state=sa.case((_is_adopting, TenantState.ADOPTING.value), else_=TenantState.DELETING.value),
    # A unique value: the name becomes available.
    canonical_name=sa.cast(tenant.c.id, sa.String),
)
_REMOVE = Statement[Any](sa.delete(tenant).where(_is_of_job))


async def add(
    session: CatalogSession, added: Tenant, *, worker_id: UUID, owner_email: str | None = None
) -> None:
    """Insert a tenant that *worker_id* is about to create; this reserves its name.

    Raises:
        TenantNameInUse: The name is taken.
        TenantIdInUse: A tenant with this id is in any state.
        DatabaseInUse: Another tenant has the database.
    """
    await session.execute(
        _ADD,
        worker_id=worker_id,
        owner_email=None if owner_email is None else canonical(owner_email),
        canonical_name=canonical(added.name),
        drift=None,
        sealed_url=None,
        **msgspec.structs.asdict(added),
    )


async def find(session: CatalogSession, tenant_id: UUID) -> Tenant | None:
    """Return the ready tenant with this id, if there is one."""
    return await session.fetch_one(_FIND, tenant=tenant_id)


async def get(session: CatalogSession, tenant_id: UUID) -> Tenant:
    """Return the ready tenant with this id.

    Raises:
        TenantNotFound: There is none.
    """
    return await fetch_or_raise(session, _FIND, TenantNotFound, tenant=tenant_id)


async def lock(session: CatalogChange, tenant_id: UUID) -> Tenant:
    """Lock a ready tenant until the transaction ends, and return it.

    Raises:
        TenantNotFound: There is none.
    """
    return await fetch_or_raise(session, _LOCK, TenantNotFound, tenant=tenant_id)


async def get_by_name(session: CatalogSession, name: str) -> Tenant:
    """Return the ready tenant of this name.

    Raises:
        TenantNotFound: There is none.
    """
    return await fetch_or_raise(session, _FIND_BY_NAME, TenantNotFound, name=canonical(name))


async def after(
    session: CatalogSession,
    after_id: UUID | None,
    *,
    limit: int,
    where: str | None = None,
    only_served: bool = False,
) -> list[Tenant]:
    """Return up to *limit* ready tenants created after the one with the id *after_id*, in order.

    With *where*, only those that it selects; with *only_served*, no attached databases.

    Raises:
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    statement = _after(where, only_served)
    return await session.fetch_all(statement, after=after_id or UUID(int=0), limit=limit)


async def check_selects(
    session: CatalogSession, where: str | None, *, only_served: bool = False
) -> None:
    """Check that *where* selects a ready tenant, unless it is None.

    With *only_served*, attached databases do not count.

    Raises:
        NoTenantMatches: It selects no tenant.
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    if where is None or await after(session, None, limit=1, where=where, only_served=only_served):
        return
    what = "nothing that is served" if only_served else "nothing"
    raise NoTenantMatches(f"`{shown(where)}` selects {what}. Check its labels and values.")


@functools.lru_cache(maxsize=64)
def _after(where: str | None, only_served: bool) -> Statement[Tenant]:  # noqa: FBT001 - cached
    kinds = [~tenant.c.is_attached] if only_served else []
    return Statement(
        _ready.where(tenant.c.id > sa.bindparam("after"), *kinds, *conditions_of(where))
        .order_by(tenant.c.id)
        .limit(LIMIT),
        Tenant,
    )


async def database_names(session: CatalogSession, *, server_name: str) -> set[str]:
    """Return the names of the databases of all ready tenants on a server, without attached ones."""
    return set(await fetch_values(session, _DATABASES, server=server_name))


async def update(session: CatalogChange, tenant_id: UUID, **values: Unpack[TenantValues]) -> Tenant:
    """Set the values of a tenant that are not None, and return it.

    Raises:
        TenantNotFound: There is no such tenant.
        TenantNameInUse: The name is taken.
    """
    name = values.get("name")
    every = {**dict.fromkeys(_UPDATED), **values}
    every["canonical_name"] = None if name is None else canonical(name)
    return await fetch_or_raise(session, _UPDATE, TenantNotFound, tenant=tenant_id, **every)


async def set_ready(
    session: CatalogChange, tenant_id: UUID, *, worker_id: UUID, revision: str
) -> Tenant | None:
    """Make a tenant visible; return None if *worker_id* no longer holds it."""
    return await session.fetch_one(
        _SET_READY, tenant=tenant_id, worker=worker_id, revision=revision
    )


async def set_deleting(
    session: CatalogChange, tenant_id: UUID, *, worker_id: UUID
) -> Tenant | None:
    """Make an inactive tenant invisible; return None if it is active, or missing."""
    return await session.fetch_one(_SET_DELETING, tenant=tenant_id, worker=worker_id)


async def take_abandoned(session: CatalogSession, *, worker_id: UUID) -> list[Tenant]:
    """Claim the tenants of dead workers that are in creation or removal, and have no job."""
    return await session.fetch_all(_TAKE_ABANDONED, worker=worker_id)


async def set_revision(session: CatalogSession, tenant_id: UUID, revision: str) -> None:
    """Store the last seen revision of a tenant's database."""
    await session.execute(_SET_REVISION, tenant=tenant_id, revision=revision)


async def condemn(session: CatalogSession, of: Job) -> Tenant | None:
    """Prevent the tenant of a failed job from becoming ready; its name becomes available.

    Returns:
        None if no tenant in creation or removal has the database of the job.
    """
    return await session.fetch_one(_CONDEMN, **_place(of))


async def remove_unseen(session: CatalogSession, of: Job) -> None:
    """Delete the row of a tenant in creation or removal, after a job has dropped its database."""
    await session.execute(_REMOVE, **_place(of))


def _place(of: Job) -> dict[str, object]:
    is_adopted = of.database_name is None
    return {
        "tenant": of.tenant_id,
        "server": of.source_server_name if is_adopted else of.server_name,
        "database": of.source_database_name if is_adopted else of.database_name,
    }
