"""Clone a tenant: a new tenant with a snapshot of its data, for staging or a rehearsal."""

import msgspec

from tenantry.backup import dumps, loading
from tenantry.backup.jobs import Copying, Progress
from tenantry.backup.restoring import Restored, create_tenant
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.lifecycle import UnknownServer, new_tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.migration.errors import explain

SQL_BYTES_MAX = 16 * 2**20


class AnonymisationFailed(Conflict):
    """The SQL of --anonymise has failed; the clone was removed."""


class BadAnonymisation(Invalid):
    """The file of --anonymise must be UTF-8 text of at most 16 MiB."""


async def clone(
    ctx: OperationContext,
    copying: Copying,
    source: Tenant,
    *,
    name: str,
    server_name: str | None = None,
    anonymise: str | None = None,
    progress: Progress,
    with_key: bool = True,
) -> Restored:
    """Copy a tenant, which is served during the copy, to a new one.

    The clone has another id, one new API key and no sessions, and is at the head. It is on the
    server *server_name*, of the same engine; None for that of *source*. The SQL *anonymise* is
    executed in it before it is listed. Without *with_key*, it has no API key: an admin adds one
    later.

    Raises:
        TenantNameInUse, BadText: The name cannot be used.
        UnknownServer, WrongEngine: The server cannot be used.
        AnonymisationFailed, CopyDiffers: The clone was removed.
        DatabaseUnavailable: A database cannot be reached.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
    """
    server_name = source.server_name if server_name is None else server_name
    if server_name not in copying.databases.server_names:
        raise UnknownServer
    server = copying.databases.server(server_name)
    url = copying.databases.server(source.server_name).url(source.database_name)
    engine = dumps.engine_of(url)
    if loading.engine_of(server) != engine:
        raise loading.WrongEngine(
            f"The data are of {engine}, and the tenant server is of the other engine."
        )
    tenant = msgspec.structs.replace(
        new_tenant(ctx, name, sorted(source.modules), server_name),
        requests_per_minute=source.requests_per_minute,
        size_bytes_max=source.size_bytes_max,
    )

    async def fill() -> None:
        target = server.url(tenant.database_name)
        await loading.create_empty(server, tenant.database_name)
        contents = await dumps.copy(url, target, progress.add, tools=copying.tools)
        await dumps.check_loaded(target, contents, is_foreign=False)
        if anonymise is not None:
            await _anonymise(target, anonymise)

    return await create_tenant(
        ctx, copying, tenant, fill, kind="clone", progress=progress, with_key=with_key
    )


async def _anonymise(url: str, sql: str) -> None:
    try:
        await dumps.execute(url, sql)
    except Exception as error:
        cause = error.__cause__ or error
        raise AnonymisationFailed(
            f"The SQL of --anonymise has failed; the clone was removed: "
            f"{explain(cause) if isinstance(cause, Exception) else cause}"
        ) from error
