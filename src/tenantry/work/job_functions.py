"""What a kind of work is: the functions that the runner calls.

They take what they need from the row of the job alone, because another process may call them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenantry.catalog.job_queue import JobOptions
from tenantry.catalog.job_states import Job
from tenantry.kit.context import OperationContext
from tenantry.work.progress import Progress

Check = Callable[[Job, JobOptions], Awaitable[Job]]
Run = Callable[[OperationContext, Job, JobOptions, Progress], Awaitable[Job | None]]
Undo = Callable[[Job], Awaitable[None]]


async def checked(job: Job, _options: JobOptions) -> Job:
    """Check nothing."""
    return job


async def not_run(
    _ctx: OperationContext, _job: Job, _options: JobOptions, _progress: Progress
) -> None:
    """Run nothing: such a job is run by the process that begins it, and is not queued."""
    raise NotImplementedError


async def undone(_job: Job) -> None:
    """Undo nothing: its database is dropped, and that is all that a failed job leaves."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of work. All of them are listed in `tenantry.backup.job_kinds`.

    Attributes:
        check: Rejects an invalid request before it is queued; returns the job with what
            was found.
        run: Runs a claimed job in the block of `running.running`. It returns the job if that has a
            database to drop, for `end`.
        undo: Undoes what a failed job has changed, besides its database. It may be called again
            after a failure, and for a job that has changed nothing.
        end: Drops the database of a job that has succeeded, when no process uses it.
    """

    run: Run = not_run
    check: Check = checked
    undo: Undo = undone
    end: Undo = undone
