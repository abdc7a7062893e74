"""The pace of a process: how often it reads and writes the catalog."""

from dataclasses import dataclass

from tenantry.catalog.workers import SILENCE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a process reads and writes the catalog, and how much at once.

    These are no settings: the guarantees for several processes depend on them. Tests shorten them.

    Attributes:
        check_seconds: Between two readings of the epoch.
        fresh_seconds: After this time without one, the cache is not used.
        beat_seconds: Between two heartbeats.
        added_max: Items of a run that one transaction adds, or removes.
        opened_max: Items of a wave that one transaction allows to start: others are opened while
            these are migrated.
        closed_max: Items of a stopped run that one transaction ends.
        pause_seconds: Between two such transactions, so that other writers of a SQLite catalog
            have their turn.
        retry_seconds: Between two attempts to write outcomes.
        redelivery_seconds: After the first attempt to deliver a notification; then doubled.
        post_events_seconds: Between two readings of the events of a tenant's posts.
        moments_late_seconds: How much later the moment of a schedule is an event: then readers see
            it, also if the process that reads it has a clock that is as much ahead.
        last_outcomes_seconds: For the last outcomes of a process that stops; then other processes
            read them from the tenants' own databases.
        unknown_seconds: Between two looks at a run with revisions that this process does not have.
        orphaned_seconds: After this time without a heartbeat of a process that has them, such a
            run is stopped.
    """

    check_seconds: float = 0.25
    fresh_seconds: float = 0.75
    beat_seconds: float = SILENCE_MS / 1000 / 4
    added_max: int = 5_000
    opened_max: int = 2_000
    closed_max: int = 1_000
    pause_seconds: float = 0.02
    retry_seconds: float = 0.5
    redelivery_seconds: float = 5.0
    post_events_seconds: float = 2.0
    moments_late_seconds: float = 5.0
    last_outcomes_seconds: float = 20.0
    unknown_seconds: float = 5.0
    orphaned_seconds: float = 60.0

    @property
    def known_seconds(self) -> float:
        """The time within which every process sees a change: at most a second."""
        return self.check_seconds + self.fresh_seconds


PACE = Pace()
