"""The page of one-time links: an invited person chooses a password, and a user a new one."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.checks import tab_faults, too_wide, violations
from tests.e2e.conftest import Fleet, Take, Watched

PASSWORD = "a new password nobody has guessed"
BOB = "bob@invited.example.com"
SIZES = {"light": (1280, 800), "dark": (360, 740)}


@pytest.fixture(name="tenant")
def _tenant(fleet: Fleet, api: httpx.Client) -> Iterator[str]:
    """The path of a tenant; users that a test has added are deleted."""
    path = f"/api/admin/tenants/{fleet.tenants[-1].id}"
    yield path
    for one in api.get(f"{path}/users", params={"pageSize": 100}).json()["data"]["items"]:
        if one["email"] == BOB:
            assert api.delete(f"{path}/users/{one['id']}").is_success


@pytest.fixture(name="page", params=SIZES)
def _page(browser: Browser, fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page in one of the two themes, which asks no other host."""
    width, height = SIZES[request.param]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=request.param
    )
    watched = Watched(context.new_page(), fleet.url)
    yield watched.page
    watched.check(may_be_refused=True)
    secrets = ("tni_", "tnr_")
    assert not [url for url in watched.requests if any(one in url for one in secrets)]
    context.close()


def faults_of(page: Page) -> list[str]:
    faults = violations(page)
    return [*faults, "is too wide"] if too_wide(page) else faults


def test_an_invited_person_chooses_name_and_password(
    page: Page, api: httpx.Client, tenant: str, take: Take
):
    made = api.post(f"{tenant}/invitations", json={"email": BOB, "role": "reader"}).json()["data"]

    page.goto(made["url"])

    expect(page.get_by_role("heading", level=1)).to_contain_text("You are invited to")
    expect(page.get_by_role("heading", level=1)).to_contain_text("as a reader")
    assert page.url == made["url"].partition("#")[0]
    expect(page.get_by_label("E-mail address")).to_have_value(BOB)
    take(page, "invitation")
    assert [*faults_of(page), *tab_faults(page)] == []
    page.get_by_label("Full name").fill("Bob")
    page.get_by_label("New password").fill("password1")
    page.get_by_role("button", name="Create your account").click()
    expect(page.get_by_role("alert")).to_contain_text("one of the most common passwords")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Create your account").click()
    expect(page.get_by_role("heading", name="Done")).to_be_focused()
    expect(page.get_by_role("status").filter(has_text=BOB)).to_be_visible()
    assert faults_of(page) == []
    users = api.get(f"{tenant}/users", params={"pageSize": 100}).json()["data"]["items"]
    assert [one["fullName"] for one in users if one["email"] == BOB] == ["Bob"]

    page.goto(made["url"])

    expect(page.get_by_role("alert")).to_contain_text("The link does not work")
    assert faults_of(page) == []


def test_a_user_sets_a_new_password(page: Page, api: httpx.Client, tenant: str):
    user = {"email": BOB, "fullName": "Bob", "password": "the old one, which is forgotten"}
    user_id = api.post(f"{tenant}/users", json=user).json()["data"]["id"]
    made = api.post(f"{tenant}/users/{user_id}/reset-link").json()["data"]
    page.goto(made["url"].partition("#")[0])
    expect(page.get_by_role("alert")).to_contain_text("The link is not complete")

    page.goto(made["url"])

    expect(page.get_by_role("heading", name="Set a new password")).to_be_visible()
    expect(page.get_by_label("Full name")).to_have_count(0)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("New password").press("Enter")
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    key = api.post(f"{tenant}/api-keys").json()["data"]["key"]
    login = {"email": BOB, "password": PASSWORD}
    answer = api.post("/api/tenant/auth/login", json=login, headers={"X-Api-Key": key})
    assert answer.is_success, answer.text
