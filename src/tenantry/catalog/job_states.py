"""The states of a job, as one pure function: `transition`.

A job holds at most one database that no ready tenant has. While the job runs, that is the one it
fills; if its process dies, another one drops it. After a replacement, it is the tenant's old
database, which is kept until an operator confirms the new one; after a move, it is dropped.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

CANCELLED = "It was cancelled."
INTERRUPTED = (
    "The process ended before the job did, or did not reach the catalog for some seconds. "
    "What it had begun is removed."
)


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    KEPT = "kept"  # done, and the old database is kept
    DROPPING = "dropping"


class Job(msgspec.Struct, frozen=True):
    """A piece of durable work: a backup, a restore, a move, or a new tenant.

    Attributes:
        archive: Where the archive is, if the job has one.
        database_name: A database on the server *server_name* that no ready tenant has.
        bytes_done: How much of the database was copied.
        error: Why the job failed.
        has_suspended: Whether it has suspended the tenant; if it fails, the tenant is activated.
        source_database_name: The database on the server *source_server_name* that a move copies.
            It rejects writes; if the job fails, it accepts them again, and this is None. Or the
            database that is adopted, and never dropped.
        has_made_read_only: Whether it has made the tenant read-only; if it fails, that is undone.
        note: How a move is done, and why; or what a check for drift has found so far.
        options: Of a job that was queued, as JSON: see `catalog.job_queue`.
        is_cancelled: Whether an admin has cancelled it, while a process runs it.
        worker_id: The process that holds it: see `catalog.workers`.
    """

    id: UUID
    kind: str
    tenant_id: UUID | None
    tenant_name: str | None
    actor: str
    started_at: datetime
    archive: str | None = None
    server_name: str | None = None
    database_name: str | None = None
    state: str = JobState.RUNNING.value
    finished_at: datetime | None = None
    bytes_done: int = 0
    error: str | None = None
    has_suspended: bool = False
    source_server_name: str | None = None
    source_database_name: str | None = None
    has_made_read_only: bool = False
    note: str | None = None
    options: str | None = None
    is_cancelled: bool = False
    worker_id: UUID | None = None


class Event(NamedTuple):
    """Something that happens to a job in one of *states*, and the values that it sets."""

    states: frozenset[str]
    values: Callable[[Job], Mapping[str, object]]


def transition(job: Job, event: Event) -> Job | None:
    """Return a job after an event; None if that cannot happen to it in its state."""
    if job.state not in event.states:
        return None
    return msgspec.structs.replace(job, **event.values(job))


_QUEUED = frozenset({JobState.QUEUED.value})
_RUNNING = frozenset({JobState.RUNNING.value})
_DROPPING = frozenset({JobState.DROPPING.value})
OPEN = _RUNNING | _DROPPING

_BEGUN = (
    "tenant_id",
    "tenant_name",
    "archive",
    "server_name",
    "database_name",
    "source_server_name",
    "source_database_name",
    "note",
)
_FORGET = dict.fromkeys(_BEGUN[3:])

SUSPENDED = Event(_RUNNING, lambda _: {"has_suspended": True})
"""It suspends its tenant."""
MADE_READ_ONLY = Event(_RUNNING, lambda _: {"has_made_read_only": True})
"""It makes its tenant read-only."""
ACTIVATED = Event(_DROPPING, lambda _: {"has_suspended": False})
"""It has failed, and its tenant is activated again."""
HANDED_OVER = Event(
    _RUNNING,
    lambda job: {
        "state": JobState.DROPPING.value,
        "server_name": job.source_server_name,
        "database_name": job.source_database_name,
        "has_made_read_only": False,
    },
)
"""A move drops the old database instead of the new one, which the tenant has now."""
UNDONE = Event(
    _DROPPING,
    lambda _: {
        "has_suspended": False,
        "has_made_read_only": False,
        "source_server_name": None,
        "source_database_name": None,
    },
)
"""It has failed, and has changed nothing of its tenant any longer."""
QUEUED_AGAIN = Event(
    _DROPPING,
    lambda _: {
        "state": JobState.QUEUED.value,
        "worker_id": None,
        "error": None,
        "has_made_read_only": False,
        "bytes_done": 0,
        **_FORGET,
    },
)
"""Its process is stopping, and what it had begun is removed."""
RELEASED = Event(OPEN, lambda _: {"worker_id": None})
"""Any process may clean it up."""


def fenced_late(as_: Job) -> Event:
    """Return the event that the source of a move was fenced, perhaps after that was undone."""
    names = ("source_server_name", "source_database_name")
    return Event(_DROPPING, lambda _: {name: getattr(as_, name) for name in names})


def begun(as_: Job) -> Event:
    """Return the event that a claimed job begins, with the tenant and the databases of *as_*."""
    return Event(_RUNNING, lambda _: {name: getattr(as_, name) for name in _BEGUN})


def succeeded(at: datetime, kept: tuple[str, str] | None = None) -> Event:
    """Return the event that a job has succeeded, and keeps a database (server, name)."""
    server_name, database_name = kept or (None, None)
    state = JobState.KEPT if kept else JobState.DONE
    ended = {"server_name": server_name, "database_name": database_name}
    return Event(_RUNNING, lambda _: {**_ended(state, at), **ended})


def condemned(error: str | None) -> Event:
    """Return the event that a job can no longer succeed; its database may then be dropped."""

    def values(job: Job) -> Mapping[str, object]:
        # A job that is dropping has ended otherwise: the response to its COMMIT was lost.
        why = error if job.state == JobState.RUNNING else job.error
        return {"state": JobState.DROPPING.value, "error": why}

    return Event(OPEN, values)


def cleaned(at: datetime) -> Event:
    """Return the event that nothing is left of what a job has to drop."""

    def values(job: Job) -> Mapping[str, object]:
        state = JobState.FAILED if job.error else JobState.DONE
        return {**_ended(state, at), "server_name": None, "database_name": None}

    return Event(_DROPPING, values)


def cancelled(at: datetime) -> Event:
    """Return the event that an admin cancels a job: a queued one ends; another is interrupted."""

    def values(job: Job) -> Mapping[str, object]:
        if job.state == JobState.RUNNING:
            return {"is_cancelled": True}
        return {**_ended(JobState.FAILED, at), "error": CANCELLED}

    return Event(_QUEUED | _RUNNING, values)


def wanted(*, read_only: bool, suspended: bool) -> Event:
    """Return the event that an admin wants the tenant read-only, or suspended: not undone then."""
    return Event(
        OPEN,
        lambda job: {
            "has_made_read_only": job.has_made_read_only and not read_only,
            "has_suspended": job.has_suspended and not suspended,
        },
    )


def _ended(state: JobState, at: datetime) -> dict[str, object]:
    return {"state": state.value, "finished_at": at, "worker_id": None}
