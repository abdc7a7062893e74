"""Lists and searches of tenants: the results of an index are those of a scan."""

import pytest

from tenantry.catalog import deleted_tenants, tenant_list
from tenantry.catalog.tenant_counts import Filters
from tenantry.catalog.tenant_list import TrigramLimits
from tenantry.catalog.tenants import Tenant
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser
from tests.conftest import PASSWORD

NAMES = (
    'Quote "North" Ltd',
    "NORTHWIND",
    "100% Größe",
    "under_score",
    "O'Neill AND",
    "ab",
    "🦊🦊🦊",
)


async def create(services: Services, name: str, email: str = "o@example.com") -> Tenant:
    owner = NewUser(email=email, full_name="Owner", password=PASSWORD)
    made = await services.lifecycle.provision(system_context("ada"), name=name, owner=owner)
    return made.tenant


async def found(
    services: Services,
    search: str,
    limits: TrigramLimits = tenant_list.TRIGRAM_LIMITS,
    **filters: bool,
) -> set[str]:
    page = await tenant_list.page(
        services.catalog, Window(1, 100), search=search, filters=Filters(**filters), limits=limits
    )
    assert page.total_count == len(page.items)
    return {one.name for one in page.items}


class TestSearch:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "limits", [TrigramLimits(), TrigramLimits(names_max=1), TrigramLimits(chars_max=0)]
    )
    async def test_finds_the_names_that_contain_a_text(
        self, settings: Settings, limits: TrigramLimits
    ):
        """Also texts with the syntax of a query, and texts shorter or longer than what is indexed.

        If more names match than are sorted, the names are read in their order.
        """
        async with open_services(settings) as services:
            for name in NAMES:
                await create(services, name)

            named = await create(services, "Zed")
            for exact in (str(named.id), f" {named.database_name} "):
                assert await found(services, exact, limits) == {"Zed"}
                assert await found(services, exact, limits, is_active=True) == {"Zed"}
                assert await found(services, exact, limits, is_active=False) == set()
            for text in (
                *("north", "NORTH", '"north"', "wind", "0% g", "größe", "r_s", "r%s", "o'n"),
                *("eill and", "and", "a", "ab", "_", "%", '"', "🦊", "🦊🦊🦊", "rthn", "", "abc"),
                *("' or 1=1", "north*", "nor AND th", "(", "\\", "canonical_name:nor"),
            ):
                wanted = {name for name in (*NAMES, "Zed") if text.lower() in name.lower()}
                assert await found(services, text, limits) == wanted, text

    async def test_finds_the_tenants_of_an_owner_by_the_whole_address(self, settings: Settings):
        async with open_services(settings) as services:
            await create(services, "Northwind", "Ann@Example.com")
            await create(services, "ann@example.com backup", "bob@example.com")
            await create(services, "Globex", "joann@example.com")

            assert await found(services, " ann@example.COM ") == {"Northwind"}
            assert await found(services, "ann@example.com") == {
                "Northwind",
                "ann@example.com backup",
            }
            assert await found(services, "bob@example.com") == {"ann@example.com backup"}
            assert await found(services, "@example.com") == {"ann@example.com backup"}

    @pytest.mark.slow
    @pytest.mark.parametrize("limits", [TrigramLimits(), TrigramLimits(names_max=0)])
    async def test_divides_every_list_into_pages(self, settings: Settings, limits: TrigramLimits):
        """The pages of the second half are read from the end."""
        names = [f"Tenant {number}" for number in range(7)]
        async with open_services(settings) as services:
            for name in names:
                await create(services, name)

            for search, active in ((None, None), (None, True), ("tenant", None), ("tenant", True)):
                for size in (1, 2, 3, 7, 10):
                    read = []
                    for number in range(1, 10):
                        page = await tenant_list.page(
                            services.catalog,
                            Window(number, size),
                            search=search,
                            filters=Filters(is_active=active),
                            limits=limits,
                        )
                        assert page.total_count == 7
                        assert len(page.items) == len(names[(number - 1) * size :][:size])
                        read += [one.name for one in page.items]
                    assert read == names

    async def test_follows_renamed_deleted_and_undeleted_tenants(self, settings: Settings):
        ctx = system_context("ada")
        async with open_services(settings) as services:
            update, deletion = services.lifecycle.update, services.deletion
            first = await create(services, "Northwind")
            other = await create(services, "Globex North")
            renamed = await update(ctx, first, name="Southwind", is_active=False)

            assert await found(services, "north") == {"Globex North"}
            assert await found(services, "wind") == {"Southwind"}
            assert await found(services, "wind", is_active=True) == set()
            assert await found(services, "wind", is_active=False) == {"Southwind"}

            await deletion.delete(ctx, renamed, name=renamed.name)
            assert await found(services, "wind") == set()
            deleted = await deleted_tenants.get_by_name(services.catalog, "Southwind")
            await deletion.undelete(ctx, deleted)
            assert await found(services, "wind") == {"Southwind"}

            await update(ctx, other, is_active=False)
            await deletion.delete(ctx, other, name=other.name)
            gone = await deleted_tenants.get_by_name(services.catalog, "Globex North")
            await deletion.purge(ctx, gone, name=gone.name)
            assert await found(services, "globex") == set()
