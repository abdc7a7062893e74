"""The page of the HTTP API: what members mean, the filter, and addresses of operations."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched

pytestmark = pytest.mark.timeout(300)

LOGIN = "loginTenantAuth"
RUN = "migrateAllMigrations"


@pytest.fixture(name="shown")
def _shown(watched: Watched, fleet: Fleet) -> Page:
    """The page, with every operation closed."""
    watched.page.goto(f"{fleet.url}/docs")
    watched.page.locator(".operation").first.wait_for()
    return watched.page


def operations(page: Page) -> Locator:
    return page.locator(".operation:visible")


def opened(page: Page) -> list[str]:
    return [str(one.get_attribute("id")) for one in page.locator(".operation[open]").all()]


def at_top(page: Page, operation: str) -> None:
    """Wait until an operation is open, and its beginning is at the top of the screen."""
    expect(page.locator(f"#{operation} table").first).to_be_visible()
    page.wait_for_function(
        "id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 200",
        arg=operation,
    )


def test_it_says_what_operations_and_members_mean(shown: Page):
    shown.locator(f"#{RUN} > summary").click()
    run = shown.locator(f"#{RUN}")

    expect(run).to_contain_text("The run continues if the client disconnects")
    member = run.get_by_role("group", name="Body").get_by_role(
        "row", name=re.compile("^maxFailures")
    )
    expect(member).to_contain_text("the remaining ones are not attempted")
    expect(run.get_by_role("row", name="Prefer")).to_contain_text("return 202 with the new run")
    # Names are set as code, and no mark is left over.
    expect(run.locator("td code").get_by_text("dryRun").first).to_be_visible()
    assert "`" not in run.inner_text()


def test_a_filter_leaves_the_operations_with_all_its_words(shown: Page):
    field = shown.get_by_label("Filter")

    field.fill("DELETE tenants")
    expect(shown.get_by_text(re.compile(r"^\d+ of \d+ operations$"))).to_be_visible()
    assert operations(shown).count() >= 5
    for one in operations(shown).all():
        expect(one.locator(".method, .code").first).to_have_text("DELETE")
    expect(shown.get_by_role("heading", name="Open", exact=True)).to_be_hidden()

    field.fill("requestsPerMinute")  # a member, wherever it is
    expect(shown.locator("#updateTenantTenants")).to_be_visible()
    expect(shown.locator(f"#{LOGIN}")).to_be_hidden()

    field.fill("no such word")
    expect(operations(shown)).to_have_count(0)
    expect(shown.get_by_text(re.compile(r"^0 of \d+ operations$"))).to_be_visible()
    assert violations(shown) == []


def test_the_filter_needs_no_pointer(shown: Page):
    every = shown.locator(".operation").count()
    shown.keyboard.press("Control+k")
    shown.keyboard.type("POST tenant/auth/login")
    expect(operations(shown)).to_have_count(1)

    shown.keyboard.press("Enter")
    at_top(shown, LOGIN)
    expect(shown.locator(f"#{LOGIN} > summary")).to_be_focused()

    shown.keyboard.press("Control+k")
    shown.keyboard.press("Escape")
    expect(operations(shown)).to_have_count(every)
    expect(shown.get_by_label("Filter")).to_have_value("")


def test_an_address_names_an_operation(shown: Page, fleet: Fleet):
    """Also the last one: what it holds makes the page long enough to scroll to it."""
    last = str(shown.locator(".operation").last.get_attribute("id"))
    shown.goto("about:blank")
    shown.goto(f"{fleet.url}/docs#{last}")

    at_top(shown, last)
    assert opened(shown) == [last]


def test_going_back_shows_the_operation_before(shown: Page):
    for one in (LOGIN, RUN):
        shown.locator(f"#{one} > summary").click()
        expect(shown).to_have_url(re.compile(f"#{one}$"))
    shown.locator(f"#{LOGIN} > summary").click()
    assert opened(shown) == [RUN]

    shown.go_back()
    expect(shown).to_have_url(re.compile(f"#{LOGIN}$"))
    at_top(shown, LOGIN)


def test_an_address_shows_an_operation_that_the_filter_hides(shown: Page):
    shown.get_by_label("Filter").fill("no such word")
    shown.evaluate("id => { location.hash = id; }", LOGIN)

    at_top(shown, LOGIN)
