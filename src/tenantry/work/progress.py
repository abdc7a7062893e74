"""The progress of a job that runs in this process."""

from uuid import UUID

from tenantry.kit.ids import new_id


class Progress:
    """Counts the bytes of one job; another thread may read it at any time.

    Args:
        queued_id: The job, if it was queued and is claimed; None for a new one.
        total: Also counts them: of several jobs together.

    Attributes:
        is_final: Whether the job has begun what it must not report as cancelled.
        is_cancelled: Whether an admin has cancelled it.
        report: What the job has found so far; its text becomes the note of the job.
    """

    def __init__(self, queued_id: UUID | None = None, *, total: "Progress | None" = None) -> None:
        self.job_id = new_id() if queued_id is None else queued_id
        self.is_queued = queued_id is not None
        self.bytes_done = 0
        self.is_final = False
        self.is_cancelled = False
        self.report: object = None
        self._total = total

    @property
    def note(self) -> str | None:
        """The text of the report, if there is one."""
        return None if self.report is None else str(self.report)

    def add(self, count: int) -> None:
        """Count so many bytes."""
        self.bytes_done += count
        if self._total is not None:
            self._total.add(count)
