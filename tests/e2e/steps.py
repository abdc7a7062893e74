"""What is done again and again with the console."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.stage import ADMIN, PASSWORD

LEAVE = """(fragment) => {
  if (location.hash !== fragment) {
    document.querySelectorAll("h1").forEach((one) => { one.dataset.left = ""; });
    location.hash = fragment;
  }
}"""


def sign_in(page: Page, url: str) -> None:
    """Open the console, and sign in as the admin."""
    page.goto(f"{url}/console")
    page.get_by_label("E-mail address").fill(ADMIN)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Fleet", level=1).wait_for()


def go(page: Page, fragment: str, heading: str) -> None:
    """Go to a view of the console, and wait until it is there.

    The view before can have the same heading: after a login, there is no fragment.
    """
    page.evaluate(LEAVE, fragment)
    shown = page.get_by_role("heading", name=heading, level=1)
    shown.and_(page.locator("h1:not([data-left])")).wait_for()


def choose(page: Page, thing: str, action: str) -> None:
    """Open the menu of a row or a page, and press one of its actions."""
    page.get_by_role("button", name=f"Actions for {thing}").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def wait_for_successes(page: Page) -> None:
    """Wait until a run that is watched has migrated some tenants."""
    outcomes = page.get_by_role("list", name="Tenants by outcome")
    expect(outcomes).to_contain_text(re.compile(r"[1-9]\d* succeeded"))


def focused(page: Page) -> str:
    """Return the tag that has the focus."""
    return str(page.evaluate("document.activeElement.tagName"))


def keeps_focus(page: Page) -> None:
    """Check that something has the focus."""
    assert focused(page) != "BODY"


def dialog_button(page: Page, name: str) -> None:
    """Press a button of the dialog, which then is gone."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("dialog")).to_have_count(0)


def secret_shown_once(page: Page, label: str) -> str:
    """Return the secret that a dialog shows; it is nowhere afterwards."""
    dialog = page.get_by_role("dialog")
    secret = dialog.get_by_label(label, exact=True).input_value()
    dialog.get_by_role("button", name=f"Copy: {label}").click()
    expect(dialog.get_by_role("button", name=f"Copy: {label}")).to_have_text("Copied")
    page.keyboard.press("Escape")
    dialog_button(page, "I have copied it")
    assert secret not in page.content()
    return secret
