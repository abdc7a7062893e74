"""The health of the service, as admins see it."""

from datetime import datetime
from uuid import UUID

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


class ServiceHealthResponse(Schema, frozen=True):
    """The release of the answering process, and the workers and tenant servers."""

    release: str
    now: datetime
    workers: list[WorkerResponse]
    servers: list[ServerResponse]
