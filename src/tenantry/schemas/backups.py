"""Archives, and the jobs that make and restore them."""

from datetime import datetime
from typing import Self
from uuid import UUID

from tenantry.backup.targets import Stored
from tenantry.schemas.base import ListResponse, PageResponse, Schema


class JobResponse(Schema, frozen=True):
    """A backup, a restore or a copy."""

    id: UUID
    kind: str
    tenant_id: UUID | None
    tenant_name: str | None
    archive: str | None
    server_name: str | None
    database_name: str | None
    state: str
    actor: str
    started_at: datetime
    finished_at: datetime | None
    bytes_done: int
    error: str | None


class JobPage(PageResponse[JobResponse], frozen=True):
    """One page of the jobs."""


class JobList(ListResponse[JobResponse], frozen=True):
    """The jobs of one command."""


class MovedResponse(Schema, frozen=True):
    """A tenant of a move: where it is now, and why it was not moved, if it was not."""

    tenant_id: UUID
    tenant_name: str
    server_name: str
    database_name: str
    rejected_seconds: float | None
    error: str | None


class MovedList(ListResponse[MovedResponse], frozen=True):
    """The tenants of one command."""


class ArchiveResponse(Schema, frozen=True):
    """An archive in the folder of archives.

    `fault` says why the archive cannot be used here; null if nothing is wrong.
    """

    name: str
    size: int
    kind: str | None
    tenant_id: UUID | None
    tenant_name: str | None
    created_at: datetime | None
    engine: str | None
    revision: str | None
    release: str | None
    fault: str | None

    @classmethod
    def of_stored(cls, one: Stored) -> Self:
        """Return the representation of *one*."""
        header = one.header
        return cls(
            name=one.name,
            size=one.size,
            fault=one.fault,
            **{
                name: getattr(header, name, None)
                for name in (
                    "kind",
                    "tenant_id",
                    "tenant_name",
                    "created_at",
                    "engine",
                    "revision",
                    "release",
                )
            },
        )


class ArchiveList(ListResponse[ArchiveResponse], frozen=True):
    """The archives in a folder, the newest first."""


class VerifiedResponse(Schema, frozen=True):
    """A verified archive: its rows in all, and its size."""

    name: str
    tables: int
    rows: int
    database_bytes: int
