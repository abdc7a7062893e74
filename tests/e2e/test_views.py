"""Every view, light and dark, narrow and wide: accessible, and as wide as the screen."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tenantry.api.table import ENDPOINTS
from tests.e2e.checks import tab_faults, too_wide, violations
from tests.e2e.conftest import Fleet, Take, Watched
from tests.e2e.steps import go, keeps_focus, sign_in

pytestmark = pytest.mark.timeout(300)

VIEWS = {
    "fleet": ("#/fleet", "Fleet"),
    "runs": ("#/runs", "Runs"),
    "plan": ("#/runs/plan", "Plan a run"),
    "tenants": ("#/tenants", "Tenants"),
    "new-tenant": ("#/tenants/new", "New tenant"),
    "backups": ("#/backups", "Backups"),
    "admins": ("#/admins", "Admins"),
    "audit": ("#/audit", "Audit log"),
    "health": ("#/health", "Health"),
}
# What is reached by the first link in a table of another view.
INNER = {"run": "runs", "tenant": "tenants"}
SCREENS = {
    "light-wide": ("light", 1440, 900),
    "dark-wide": ("dark", 1440, 900),
    "light-medium": ("light", 768, 1024),
    "light-narrow": ("light", 360, 740),
    "dark-narrow": ("dark", 360, 740),
}


@pytest.fixture(name="kind", scope="module", params=sorted(SCREENS))
def _kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="screen", scope="module")
def _screen(kind: str, browser: Browser, fleet: Fleet) -> Iterator[Page]:
    """The console on one kind of screen, with a user signed in."""
    scheme, width, height = SCREENS[kind]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    watched = Watched(context.new_page(), fleet.url)
    sign_in(watched.page, fleet.url)
    # Firefox does not emulate a colour scheme, so the theme is chosen, too.
    watched.page.evaluate("theme => localStorage.setItem('tenantry.theme', theme)", scheme)
    watched.page.reload()
    watched.page.get_by_role("heading", name="Fleet", level=1).wait_for()
    yield watched.page
    watched.check()
    context.close()


def show(page: Page, view: str) -> None:
    """Show a view, whole."""
    go(page, *VIEWS[INNER.get(view, view)])
    if view in INNER:
        page.locator("td a").first.click()
        page.get_by_role("region", name="API keys" if view == "tenant" else "Tenants").wait_for()
    # Views that poll never leave the network idle.
    expect(page.locator(".skeleton, [aria-busy=true]")).to_have_count(0)


class TestView:
    @pytest.mark.parametrize("view", sorted([*VIEWS, *INNER]))
    def test_is_accessible(self, screen: Page, kind: str, view: str, take: Take):
        """Names, contrast, headings, landmarks and focus are in order; nothing is cut off."""
        show(screen, view)
        keeps_focus(screen)
        take(screen, f"{kind}-{view}")

        assert violations(screen) == []
        assert not too_wide(screen)
        assert tab_faults(screen) == []


class TestDocs:
    def test_is_accessible(self, screen: Page, kind: str, fleet: Fleet, take: Take):
        """The page of the API, with an endpoint unfolded."""
        screen.goto(f"{fleet.url}/docs#listTenantsTenants")
        screen.locator("details[open] table").first.wait_for()
        take(screen, f"{kind}-docs")

        assert violations(screen) == []
        assert not too_wide(screen)

    def test_sends_a_request(self, watched: Watched, fleet: Fleet):
        """With the token of the user who is signed in; the command that is shown has none."""
        page = watched.page
        sign_in(page, fleet.url)
        token = page.evaluate("JSON.parse(sessionStorage.getItem('tenantry.session')).token")
        page.goto(f"{fleet.url}/docs#listTenantsTenants")
        tried = page.locator("details[open]")
        tried.get_by_label("pageSize (query)").fill("1")
        tried.get_by_role("button", name="Send GET").click()

        expect(tried.get_by_text("200 OK, ").last).to_contain_text(" ms")
        expect(tried.locator("pre").last).to_contain_text('"pageSize": 1')
        command = tried.get_by_text("curl -X GET")
        expect(command).to_contain_text("Authorization: Bearer $TOKEN")
        assert token not in page.content()

    def test_lists_every_endpoint(self, watched: Watched, fleet: Fleet):
        """An entry for each operation of the description, below its level of access."""
        page = watched.page
        page.goto(f"{fleet.url}/docs")
        page.locator(".operation").first.wait_for()

        assert page.locator(".operation").count() == len(ENDPOINTS) - 1
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        expect(page.get_by_role("button", name="Send")).to_have_count(len(ENDPOINTS) - 1)
        levels = page.get_by_role("heading", level=2).all_inner_texts()
        assert {"Open", "Admin", "Tenant", "Tenant login", "Public"} <= set(levels)
