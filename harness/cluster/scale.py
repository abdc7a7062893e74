"""How much is done."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The size of the installation, and how often each outage is repeated.

    Attributes:
        tenants: Spread evenly over the tenant servers.
        plain_servers: PostgreSQL servers without a standby, in addition to the one with Patroni.
        api_processes: Processes of `tenantry serve`.
        workers: Processes of `tenantry worker`.
        times: Kills and switchovers of each leader.
        away_seconds: How long a tenant server is away.
        etcd_seconds: How long etcd is away.
        requests_per_second: The traffic during each run.
    """

    tenants: int
    plain_servers: int
    api_processes: int
    workers: int
    times: int
    away_seconds: float = 30
    etcd_seconds: float = 20
    requests_per_second: int = 20

    @property
    def text(self) -> str:
        """The size, for the table."""
        return (
            f"{self.tenants} tenants on {self.plain_servers + 1} tenant servers, "
            f"{self.api_processes} API processes, {self.workers} worker{'s'[: self.workers > 1]}, "
            f"{self.requests_per_second} requests a second"
        )


WHOLE = Scale(tenants=1000, plain_servers=9, api_processes=4, workers=4, times=20)
SHORT = Scale(
    tenants=24,
    plain_servers=1,
    api_processes=2,
    workers=1,
    times=1,
    away_seconds=8,
    requests_per_second=10,
)
