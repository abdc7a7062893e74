"""The outages: each in the middle of a migration run, with traffic."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from harness.cluster import moves, planting
from harness.cluster.installation import Installation, Outage
from harness.cluster.patroni import Cluster
from harness.cluster.runs import Runs, faults_of_states, lost_writes
from harness.finding import Finding
from harness.traffic import Seen

# From the moment at which the server accepts writes again to the next finished tenant. The
# health check of HAProxy takes up to 1 s of it, the pause between two probes of Tenantry 2 s.
RESUMED_SECONDS_MAX = 5.0
BEGUN = 2
MOVING_SECONDS = 2.0
"""From the start of a command that moves tenants until a leader is killed."""
MUST = (
    "no tenant failed or between two revisions, the failure budget unspent, no acknowledged write "
    "lost, each post linearizable, no response except 2xx and 503 with Retry-After"
)
MUST_RESUME = f"{MUST}, continued within {RESUMED_SECONDS_MAX:g} s"
Progress = Callable[[str], None]


@dataclass
class Tally:
    """What was found in all rounds of a scenario."""

    faults: list[str] = field(default_factory=list)
    resumed: list[float] = field(default_factory=list)
    unavailable: list[float] = field(default_factory=list)
    statuses: Seen = field(default_factory=Seen)
    tenants: int = 0
    operations: int = 0
    posts: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def _once(place: Installation, scenario: "Scenario", tally: Tally) -> None:
    """Start a run, cause the outage in its middle, and check what it has left behind."""
    runs = place.runs
    place.traffic.may_be_read_only = place.posts.may_be_read_only = scenario.moves
    seconds = scenario.seconds + scenario.seconds_each * len(place.service.processes)
    # The traffic of earlier rounds has created tenants.
    runs.add_revision(seconds * place.concurrency / len(runs.places()))
    with place.traffic.running() as seen, place.posts.running():
        run_id = scenario.begin(runs)
        runs.await_done(run_id, BEGUN)
        outage = scenario.cause(place)
        outcome = runs.await_end(run_id)
        time.sleep(1)  # some requests after the outage
    tenants = place.tenants
    tally.tenants += len(outcome.items)
    tally.faults += [*outcome.faults(), *seen.faults, *place.service.check(), *outage.faults]
    tally.counts.update(outage.counts)
    tally.faults += faults_of_states(tenants, runs.heads)
    if seen.unanswered and not outage.may_be_unanswered:
        tally.faults.append(f"{seen.unanswered} requests have no response")
    for tenant_id, titles in seen.posts.items():
        place.acknowledged.setdefault(tenant_id, []).extend(titles)
    tally.faults += lost_writes(tenants, place.acknowledged)
    tally.faults += place.traffic.missing(seen.api_keys)
    _check_history(place, tally)
    tally.statuses.statuses += seen.statuses
    tally.statuses.unanswered += seen.unanswered
    tally.statuses.read_only += seen.read_only
    if outage.over_at is not None:
        _note_resumed(tally, outage, outcome.seconds_to_resume(outage.server, outage.over_at), seen)


def _check_history(place: Installation, tally: Tally) -> None:
    """Check what clients have seen of each post, after a last read of each."""
    if place.is_planted:
        planting.lose_a_write(place.history, place.tenants)
    place.posts.read_all()
    changed = place.history.changed
    tally.posts += len(changed)
    tally.operations += sum(len(place.history.registers[one]) for one in changed)
    tally.faults += place.posts.faults + place.history.check()
    place.posts.faults.clear()


def _note_resumed(tally: Tally, outage: Outage, resumed: float | None, seen: Seen) -> None:
    assert outage.over_at is not None
    tally.unavailable.append(max(0.0, seen.last_unavailable_at - outage.over_at))
    if resumed is None:
        tally.faults.append("the run had ended before the outage was over")
        return
    tally.resumed.append(resumed)
    if resumed > RESUMED_SECONDS_MAX:
        tally.faults.append(f"the run continued {resumed:.1f} s after the outage")


def _kill_leader(cluster: Cluster, server: str | None) -> Outage:
    leader = cluster.leader
    other = cluster.other(leader)
    leader.kill()
    cluster.await_promotion(other)
    over_at = time.time()
    leader.start()
    return Outage(over_at, server)


def _hang_leader(cluster: Cluster, server: str | None) -> Outage:
    leader = cluster.leader
    other = cluster.other(leader)
    leader.hang()
    cluster.await_promotion(other)
    over_at = time.time()
    leader.go_on()  # it still accepts connections, until Patroni notices that it has lost the lease
    return Outage(over_at, server)


def _switch_over(cluster: Cluster, server: str | None) -> Outage:
    candidate = cluster.begin_switchover()
    cluster.await_promotion(candidate)
    return Outage(time.time(), server)


def _restart_server(place: Installation) -> Outage:
    name, server = next(iter(place.stack.plain.items()))
    server.stop("immediate")
    time.sleep(place.scale.away_seconds)
    server.start()
    return Outage(time.time(), name)


def _restart_pooler(place: Installation) -> Outage:
    place.stack.kill_pooler()
    time.sleep(2)
    place.stack.start_pooler()
    return Outage()


def _kill_processes(place: Installation) -> Outage:
    service = place.service
    for is_api in (True, False):
        process = service.first(is_api=is_api)
        service.kill(process)
        service.replace(process)
    return Outage(may_be_unanswered=True)


def _lose_etcd(place: Installation) -> Outage:
    """Without etcd, both leaders make themselves read-only, because they cannot renew the lease."""
    place.stack.kill_etcd()
    time.sleep(place.scale.etcd_seconds)
    place.stack.start_etcd()
    clusters = (place.stack.catalog, place.stack.tenants)
    for cluster in clusters:
        cluster.leader  # noqa: B018 - it waits
    return Outage(time.time(), None)


def _upgrade(place: Installation) -> Outage:
    """Replace every process by one of the next release, which has one more revision."""
    place.runs.begin_release()
    environment = {"TENANTRY_TENANT_MIGRATIONS": str(place.runs.revisions)}
    for process in list(place.service.processes):
        place.service.upgrade(process, environment)
    return Outage()


def _move_tenants(place: Installation) -> Outage:
    """Move tenants whose posts are used, online and not, to the next tenant server."""
    moved, faults = moves.move(
        place.service, place.runs, place.posts.in_use, list(place.stack.tenant_servers)
    )
    return Outage(counts=moved, faults=faults)


def _move_and_kill(place: Installation) -> Outage:
    """Kill the leader of a tenant server while tenants are moved to it, and from it."""
    with ThreadPoolExecutor(1) as thread:
        moving = thread.submit(_move_tenants, place)
        time.sleep(MOVING_SECONDS)
        outage = _kill_leader(place.stack.tenants, "default")
        moved = moving.result()
    return replace(outage, counts=moved.counts, faults=moved.faults)


def _migrate_again(place: Installation, tally: Tally) -> None:
    """Migrate what was undone, and one revision more."""
    _once(place, Scenario("", lambda _: Outage()), tally)


@dataclass(frozen=True)
class Scenario:
    """An outage, and how it is repeated.

    Attributes:
        title: What is done, for the table.
        cause: Causes it in the middle of a run.
        recover: Called after each round, before the next one.
        begin: Starts the run.
        moves: Whether tenants are moved.
        is_repeated: Whether it is done as often as `Scale.times` says.
        seconds: How long an undisturbed run takes, so that the outage is in its middle.
        seconds_each: How much longer for each process of the service.
        is_in_short: Whether it is also part of the short version.
    """

    title: str
    cause: Callable[[Installation], Outage]
    recover: Callable[[Installation, Tally], None] = lambda *_: None
    begin: Callable[[Runs], str] = Runs.begin
    moves: bool = False
    is_repeated: bool = False
    seconds: float = 4
    seconds_each: float = 0
    is_in_short: bool = True


def _await_standbys(place: Installation, _tally: Tally) -> None:
    for cluster in (place.stack.catalog, place.stack.tenants):
        cluster.await_standby()


SCENARIOS: Mapping[str, Scenario] = {
    "kill-tenants": Scenario(
        "the leader of a tenant server killed",
        lambda place: _kill_leader(place.stack.tenants, "default"),
        _await_standbys,
        is_repeated=True,
    ),
    "kill-catalog": Scenario(
        "the leader of the catalog killed",
        lambda place: _kill_leader(place.stack.catalog, None),
        _await_standbys,
        is_repeated=True,
        is_in_short=False,  # without etcd, the catalog is away, too
    ),
    "hang-tenants": Scenario(
        "the leader of a tenant server hangs, and continues after the promotion of the standby",
        lambda place: _hang_leader(place.stack.tenants, "default"),
        _await_standbys,
        is_in_short=False,
    ),
    "hang-catalog": Scenario(
        "the leader of the catalog hangs, and continues after the promotion of the standby",
        lambda place: _hang_leader(place.stack.catalog, None),
        _await_standbys,
        is_in_short=False,
    ),
    "switch-tenants": Scenario(
        "a switchover of a tenant server",
        lambda place: _switch_over(place.stack.tenants, "default"),
        _await_standbys,
        is_repeated=True,
    ),
    "switch-catalog": Scenario(
        "a switchover of the catalog",
        lambda place: _switch_over(place.stack.catalog, None),
        _await_standbys,
        is_repeated=True,
    ),
    "server": Scenario("a tenant server without a standby crashed, and away", _restart_server),
    "pooler": Scenario("PgBouncer killed, and started after 2 s", _restart_pooler),
    "processes": Scenario("an API process and a worker killed", _kill_processes, seconds=8),
    "etcd": Scenario("etcd lost", _lose_etcd, _await_standbys, seconds=12),
    "upgrade": Scenario(
        "all processes replaced one by one, by those of a release with one more revision",
        _upgrade,
        _migrate_again,
        seconds=4,
        seconds_each=2,
    ),
    "undo": Scenario(
        "a run undone, and migrated again",
        lambda _: Outage(),
        _migrate_again,
        begin=Runs.begin_undo,
        is_repeated=True,
    ),
    "moves": Scenario(
        "tenants moved between tenant servers, half of them online",
        _move_tenants,
        moves=True,
        is_repeated=True,
        seconds=8,
    ),
    "fail-moves": Scenario(
        "the leader of a tenant server killed while tenants are moved to it and from it",
        _move_and_kill,
        _await_standbys,
        moves=True,
        is_repeated=True,
        seconds=8,
        is_in_short=False,
    ),
}


def check(name: str, place: Installation, progress: Progress) -> Finding:
    """Cause an outage as often as the scale says, and return what was found."""
    scenario, scale, tally = SCENARIOS[name], place.scale, Tally()
    times = scale.times if scenario.is_repeated else 1
    for number in range(1, times + 1):
        began, known = time.monotonic(), len(tally.faults)
        _once(place, scenario, tally)
        scenario.recover(place, tally)
        for fault in tally.faults[known:]:
            progress(f"  {name}: {fault}")
        progress(f"{name} {number}/{times}: {time.monotonic() - began:.0f} s, {_found(tally)}")
    must = MUST_RESUME if tally.unavailable else MUST
    lasted = {"server": scale.away_seconds, "etcd": scale.etcd_seconds}.get(name)
    title = scenario.title + (f" for {lasted:g} s" if lasted else "")
    return Finding(
        name=name,
        check=f"{title}, {times} times" if scenario.is_repeated else title,
        must=must,
        found=_found(tally),
        faults=tally.faults,
    )


def _found(tally: Tally) -> str:
    parts = [f"{len(tally.faults)} faults", f"{tally.tenants:,} migrations"]
    parts.append(f"{tally.operations:,} operations on {tally.posts:,} posts")
    parts += [f"{count:,} {what}" for what, count in sorted(tally.counts.items())]
    if tally.resumed:
        parts.append(f"continued after {_range(tally.resumed)}")
    if tally.unavailable:
        parts.append(f"the last 503 after {_range(tally.unavailable)}")
    return f"{'; '.join(parts)}; {tally.statuses.text}"


def _range(seconds: list[float]) -> str:
    least, most = min(seconds), max(seconds)
    return f"{most:.1f} s" if len(seconds) == 1 else f"{least:.1f} to {most:.1f} s"
