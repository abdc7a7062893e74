"""The part of the table of endpoints that is about migrations."""

from http import HTTPStatus

from tenantry.api.endpoints import Endpoint
from tenantry.api.levels import ADMIN
from tenantry.api.pieces import KEEP_ALIVE_SECONDS
from tenantry.api.routes import migrations
from tenantry.schemas.base import EventStream
from tenantry.schemas.migrations import (
    FailureCauseList,
    HistoryPageRequest,
    HistoryRequest,
    MigrateAllRequest,
    MigrationPreviewResponse,
    MigrationResultResponse,
    MigrationRunPage,
    MigrationRunResponse,
    SchemaStatusResponse,
)

NOT_FOUND = HTTPStatus.NOT_FOUND
CONFLICT = HTTPStatus.CONFLICT

_RUNS = (
    Endpoint(
        method="POST",
        path="/api/admin/tenants/migrate-all",
        level=ADMIN,
        handler=migrations.migrate_all,
        request=MigrateAllRequest,
        response=MigrationResultResponse,
        also=(
            (HTTPStatus.OK, MigrationPreviewResponse),
            (HTTPStatus.ACCEPTED, MigrationRunResponse),
        ),
        headers=("Prefer",),
        summary="Migrate every active tenant",
        errors=frozenset({NOT_FOUND}),
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/migration-history",
        level=ADMIN,
        handler=migrations.list_runs,
        request=HistoryPageRequest,
        response=MigrationRunPage,
        summary="List migration runs",
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/migration-history/{runId}",
        level=ADMIN,
        handler=migrations.show_run,
        request=HistoryRequest,
        response=MigrationRunResponse,
        summary="Show a migration run",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/migration-history/{runId}/failure-causes",
        level=ADMIN,
        handler=migrations.show_causes,
        response=FailureCauseList,
        summary="Count the failures of a run by cause",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/migration-history/{runId}/events",
        level=ADMIN,
        handler=migrations.show_events,
        response=EventStream,
        headers=("Last-Event-ID",),
        summary="Stream the events of a migration run",
        errors=frozenset({NOT_FOUND}),
        is_bare=True,
        seconds_more=None,
        goes_on=True,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/tenants/migration-history/{runId}/cancel",
        level=ADMIN,
        handler=migrations.cancel_run,
        response=None,
        summary="Cancel a migration run",
        message="The run was cancelled: no more tenants are started.",
        status=HTTPStatus.ACCEPTED,
        errors=frozenset({NOT_FOUND, CONFLICT}),
    ),
)
_STATUS = (
    Endpoint(
        method="GET",
        path="/api/admin/tenants/schema-status",
        level=ADMIN,
        handler=migrations.show_status,
        response=SchemaStatusResponse,
        summary="Count tenants by revision",
    ),
)

MIGRATION_ENDPOINTS: tuple[Endpoint, ...] = (*_RUNS, *_STATUS)
