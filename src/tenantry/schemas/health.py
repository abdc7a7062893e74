"""The health of the service, as admins see it."""

from datetime import datetime
from uuid import UUID

from msgspec import field

from tenantry.schemas.base import Schema


class WorkerResponse(Schema, frozen=True):
    """A process that works on this catalog, and its latest heartbeat.

    Attributes:
        program: Its host, process id and release, as text.
        seen_at: The time of its latest heartbeat, by the clock of the catalog's database.
        is_alive: False if it has sent no heartbeat for 5 seconds; after an hour it is not listed.
        in_work_count: How many tenants it is migrating.
        abandoned_count: How many tenants it was migrating, if it is not alive, that no other
            process has claimed since.
        is_this: Whether it is the process that answers.
    """

    id: UUID
    program: str
    seen_at: datetime
    is_alive: bool
    in_work_count: int
    abandoned_count: int
    is_this: bool


class ServerResponse(Schema, frozen=True):
    """A tenant server.

    Attributes:
        name: Its name in the settings.
        engine: ``sqlite`` or ``postgresql``.
        away_since: Since when a worker does not reach it; null if all do.
    """

    name: str
    engine: str
    away_since: datetime | None


class RecentErrorResponse(Schema, frozen=True):
    """A request that the answering process could not serve: 500 is a bug, 503 an outage.

    Attributes:
        at: When it was answered.
        method: The method of the request.
        path: The path of the request, without the query.
        status: The status of the response, 500 or above.
        error: The name of the error; null if it is not known.
        request_id: The id of the request, as in the log and in `X-Request-Id`.
    """

    at: datetime
    method: str
    path: str
    status: int = field(name="statusCode")
    error: str | None
    request_id: str


class ServiceHealthResponse(Schema, frozen=True):
    """The release of the answering process, the workers and tenant servers.

    Attributes:
        release: The version of Tenantry that runs.
        now: The time of the answering process.
        workers: The processes that work on this catalog.
        servers: The tenant servers of the settings.
        errors: The newest 20 of the answering process since its start, the newest first.
    """

    release: str
    now: datetime
    workers: list[WorkerResponse]
    servers: list[ServerResponse]
    errors: list[RecentErrorResponse]
