"""The tenant server of a new tenant: by weight, among those that have room."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tenantry.catalog import tenant_counts
from tenantry.cli.doctor.capacity import check_fill
from tenantry.cli.doctor.findings import State
from tenantry.fleet.placement import NoServerHasRoom
from tenantry.kit.context import system_context
from tenantry.kit.server_settings import TenantServer
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser


def with_servers(settings: Settings, folder: Path, **servers: dict[str, int]) -> Settings:
    """Return *settings* with these servers, each a folder of its own, besides the default one."""
    named = {
        name: TenantServer.model_validate({"url": f"sqlite:///{folder / name}", **more})
        for name, more in servers.items()
    }
    return settings.model_copy(update={"tenant_servers": named})


async def create(services: Services, name: str, server: str | None = None) -> str:
    """Create a tenant, and return the name of its server."""
    owner = NewUser(email="o@example.com", full_name="Owner", password="correct horse battery")
    made = await services.lifecycle.provision(
        system_context("ada"), name=name, owner=owner, server_name=server
    )
    return made.tenant.server_name


class TestNewTenant:
    async def test_is_placed_by_weight(self, settings: Settings, tmp_path: Path):
        chosen = with_servers(settings, tmp_path, a={"weight": 1}, b={"weight": 2})
        async with open_services(chosen) as services:
            placed = [await create(services, f"tenant{number}") for number in range(6)]
            counts = await tenant_counts.by_server(services.catalog)

        assert Counter(placed) == {"a": 2, "b": 4}
        assert counts == {"a": 2, "b": 4}

    async def test_is_on_a_server_without_a_weight_only_by_name(
        self, settings: Settings, tmp_path: Path
    ):
        async with open_services(with_servers(settings, tmp_path, eu={})) as services:
            assert await create(services, "one") == "default"
            assert await create(services, "two", "eu") == "eu"
            assert await create(services, "three") == "default"

    async def test_is_on_no_full_server_except_by_name(self, settings: Settings, tmp_path: Path):
        """A deleted tenant has its database still, so it counts."""
        servers = {"a": {"weight": 9, "max_tenants": 1}, "b": {"weight": 1, "max_tenants": 1}}
        ctx = system_context("ada")
        async with open_services(with_servers(settings, tmp_path, **servers)) as services:
            owner = NewUser(
                email="o@example.com", full_name="Owner", password="correct horse battery"
            )
            first = await services.lifecycle.provision(ctx, name="first", owner=owner)
            suspended = await services.lifecycle.update(ctx, first.tenant, is_active=False)
            await services.deletion.delete(ctx, suspended, name="first")

            placed = await create(services, "second")
            with pytest.raises(NoServerHasRoom, match="max_tenants"):
                await create(services, "third")
            named = await create(services, "fourth", "a")
            findings = await check_fill(services.settings, services.catalog)

        assert (first.tenant.server_name, placed, named) == ("a", "b", "a")
        assert [(one.check, one.state) for one in findings] == [
            ("tenants on default", State.OK),
            ("tenants on a", State.WARNING),
            ("tenants on b", State.WARNING),
        ]
        assert findings[1].detail == "2 of at most 1, weight 9."

    async def test_exceeds_a_limit_only_among_concurrent_ones(
        self, settings: Settings, tmp_path: Path
    ):
        servers = {"a": {"weight": 1, "max_tenants": 1}}
        async with open_services(with_servers(settings, tmp_path, **servers)) as services:
            ended = await asyncio.gather(
                *(create(services, f"tenant{number}") for number in range(3)),
                return_exceptions=True,
            )
            counts = await tenant_counts.by_server(services.catalog)
            with pytest.raises(NoServerHasRoom):
                await create(services, "later")

        assert {type(one) for one in ended} <= {str, NoServerHasRoom}
        assert 1 <= counts["a"] == sum(isinstance(one, str) for one in ended)
