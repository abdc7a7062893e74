"""How much is done."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """How much is done.

    Attributes:
        kills: On each engine.
        lanes: Fleets in which processes are killed at the same time, on each engine.
        kill_tenants: Of each of these fleets.
        crowds: Rounds of simultaneous calls, on each engine.
        crowd_tenants: Of those fleets.
        broken_tenants: Of the fleets where some are broken.
        deadline_s: Of one of those.
        lock_timeout_ms: How long their migrations wait for a lock.
        idle_lock_ms: Likewise, of the tenant with the open transaction.
        traffic_seconds: Of requests, on each engine.
        traffic_tenants: That are asked and migrated.
        hangups: Callers who hang up, on each engine.
        restarts: Of the catalog, in the middle of a run of `kill_tenants`.
        copies: Kills of backups, restores, clones, adoptions and moves, on each engine.
        catalog_moves: Kills of moves of the catalog, of a first one on each engine.
        fleet_kills: Of `fleet migrate`, on each engine, in so many `lanes`.
        fleet_databases: Of each of these fleets.
        machines: Rounds of three machines that share a state, of which one is killed or cut off.
    """

    kills: int
    lanes: int
    kill_tenants: int
    crowds: int
    crowd_tenants: int
    broken_tenants: int
    deadline_s: float
    lock_timeout_ms: int
    idle_lock_ms: int
    traffic_seconds: float
    traffic_tenants: int
    hangups: int
    restarts: int
    copies: int
    catalog_moves: int
    fleet_kills: int
    fleet_databases: int
    machines: int


WHOLE = Scale(
    kills=200,
    lanes=4,
    kill_tenants=50,
    crowds=100,
    crowd_tenants=20,
    broken_tenants=100,
    deadline_s=20,
    lock_timeout_ms=3000,
    idle_lock_ms=3000,
    traffic_seconds=30,
    traffic_tenants=20,
    hangups=100,
    restarts=10,
    copies=100,
    catalog_moves=100,
    fleet_kills=152,
    fleet_databases=16,
    machines=50,
)
SHORT = Scale(
    kills=2,
    lanes=2,
    kill_tenants=12,
    crowds=2,
    crowd_tenants=6,
    broken_tenants=12,
    deadline_s=8,
    lock_timeout_ms=500,
    idle_lock_ms=1500,
    traffic_seconds=2,
    traffic_tenants=4,
    hangups=8,
    restarts=1,
    copies=3,
    catalog_moves=3,
    fleet_kills=2,
    fleet_databases=5,
    machines=2,
)
