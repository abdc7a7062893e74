"""Limits on all connections of a process are fair to each address."""

from dataclasses import dataclass

from tenantry.api.http.connections import ConnectionLimits, Connections, NoFreeConnection
from tenantry.kit.metrics import Metrics


@dataclass(eq=False)
class Held:
    """A connection that holds what its client has not read, and may wait for its client."""

    unread_bytes: int = 0
    is_waiting: bool = True
    is_aborted: bool = False

    def abort(self) -> None:
        self.is_aborted = True

    def check(self, now: float) -> None:
        """It has no deadline."""


def test_a_large_response_is_not_ended_for_many_small_ones_of_another_client():
    connections = Connections(ConnectionLimits(unread_bytes=100), Metrics())
    large, small = Held(50), [Held(20) for _ in range(5)]
    connections.admit(large, "192.0.2.1")
    for one in small:
        connections.admit(one, "192.0.2.2")

    for one in (large, *small):
        connections.limit_unread(one)

    assert not large.is_aborted
    assert sum(one.unread_bytes for one in small if not one.is_aborted) <= 40


def test_clients_behind_a_proxy_are_not_one_client():
    connections = Connections(ConnectionLimits(unread_bytes=100), Metrics())
    proxied, direct = [Held(20) for _ in range(3)], Held(50)
    for one in proxied:
        connections.admit(one, "")
    connections.admit(direct, "192.0.2.1")

    for one in (*proxied, direct):
        connections.limit_unread(one)

    assert direct.is_aborted
    assert not any(one.is_aborted for one in proxied)


def test_a_connection_that_is_answered_is_not_closed_for_another():
    connections = Connections(ConnectionLimits(total=3), Metrics())
    held = [Held(is_waiting=False), Held(), Held(is_waiting=False)]
    for one in held:
        assert connections.admit(one, "192.0.2.1") is None

    assert connections.admit(Held(is_waiting=False), "192.0.2.2") is None
    assert isinstance(connections.admit(Held(), "192.0.2.2"), NoFreeConnection)

    assert [one.is_aborted for one in held] == [False, True, False]


def test_a_client_with_as_many_connections_gets_none_of_another():
    connections = Connections(ConnectionLimits(total=2), Metrics())
    held = [Held(), Held()]
    for number, one in enumerate(held):
        connections.admit(one, f"192.0.2.{number}")

    assert isinstance(connections.admit(Held(), "192.0.2.9"), NoFreeConnection)
    assert not any(one.is_aborted for one in held)
