"""The health of the service, as admins see it."""

from datetime import datetime
from uuid import UUID

from msgspec import field

from tenantry.schemas.base import Schema


class WorkerResponse(Schema, frozen=True):
    """A process that works on this catalog, and its latest heartbeat."""

    id: UUID
    program: str
    seen_at: datetime
    is_alive: bool
    in_work_count: int
    is_this: bool


class ServerResponse(Schema, frozen=True):
    """A tenant server; with ``awaySince``, a worker does not reach it."""

    name: str
    away_since: datetime | None


class RecentErrorResponse(Schema, frozen=True):
    """A request that the answering process could not serve: 500 is a bug, 503 an outage."""

    at: datetime
    method: str
    path: str
    status: int = field(name="statusCode")
    error: str | None
    request_id: str


class ServiceHealthResponse(Schema, frozen=True):
    """The release of the answering process, the workers and tenant servers.

    ``errors`` are the newest of the answering process, since its start.
    """

    release: str
    now: datetime
    workers: list[WorkerResponse]
    servers: list[ServerResponse]
    errors: list[RecentErrorResponse]
