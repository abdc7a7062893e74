"""Everything that runs, and an outage of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.cluster.posts import PostTraffic
from harness.cluster.runs import Runs
from harness.cluster.scale import Scale
from harness.cluster.service import Service
from harness.cluster.stack import Stack
from harness.registers import History
from harness.traffic import Traffic
from harness.world import Tenant, World

CONCURRENCY = 2


@dataclass
class Installation:
    """Everything that runs.

    Attributes:
        stack: Below the service.
        service: The processes.
        runs: Its migration runs.
        traffic: Its clients.
        posts: The clients that use the same posts.
        history: What clients have seen of each post.
        world: Its tenants.
        scale: How much is done.
        acknowledged: The acknowledged posts of all scenarios, by tenant.
        is_planted: Whether an acknowledged write is lost in each round, which must be found.
    """

    stack: Stack
    service: Service
    runs: Runs
    traffic: Traffic
    posts: PostTraffic
    history: History
    world: World
    scale: Scale
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    is_planted: bool = False

    @property
    def tenants(self) -> Sequence[Tenant]:
        """The tenants, with the URLs of the databases that they have now."""
        places = self.runs.places()
        return [replace(one, url=self.stack.url_of(*places[one.id])) for one in self.world.tenants]

    @property
    def concurrency(self) -> int:
        """How many tenants are migrated at the same time: so many on each tenant server."""
        servers = self.scale.plain_servers + 1
        return CONCURRENCY * len(self.service.processes) * servers


@dataclass(frozen=True)
class Outage:
    """An outage that has ended.

    Attributes:
        over_at: When the server accepted writes again, in seconds since the epoch; None if no
            server was away.
        server: The tenant server that was away; None is all.
        may_be_unanswered: Whether a process of the API was killed.
        counts: What was done, and how often.
        faults: What went wrong.
    """

    over_at: float | None = None
    server: str | None = None
    may_be_unanswered: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    faults: Sequence[str] = ()
