"""Who is signed in, for how long, and where the token is."""

from playwright.sync_api import BrowserContext, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.stage import ADMIN, PASSWORD
from tests.e2e.steps import go, sign_in


class TestSession:
    def test_needs_the_right_password(self, context: BrowserContext, fleet: Fleet):
        """A refusal is shown as a message next to the form, which stays."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        page.goto(f"{fleet.url}/console")
        page.get_by_label("E-mail address").fill(ADMIN)
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")

        expect(page.get_by_role("alert")).to_contain_text("wrong")
        assert violations(page) == []
        watched.check(may_be_refused=True)

    def test_that_has_expired_resumes_on_the_same_page(self, context: BrowserContext, fleet: Fleet):
        """After the next sign-in, the user is on the same page."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/tenants?search=bakery", "Tenants")
        page.evaluate(
            """() => {
              const kept = JSON.parse(sessionStorage.getItem("tenantry.session"));
              const dead = { ...kept, token: `${kept.token}x` };
              sessionStorage.setItem("tenantry.session", JSON.stringify(dead));
            }"""
        )
        page.get_by_role("link", name="Audit log").click()
        expect(page.get_by_role("status").first).to_contain_text("Your session has ended")
        page.get_by_label("E-mail address").fill(ADMIN)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()

        expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
        watched.check(may_be_refused=True)

    def test_is_over_when_it_is_ended(self, watched: Watched, fleet: Fleet):
        """The token is nowhere: not in the tab's storage, not in a cookie, not in the address."""
        page = watched.page
        sign_in(page, fleet.url)
        token = page.evaluate("JSON.parse(sessionStorage.getItem('tenantry.session')).token")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()

        kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
        assert token not in kept + page.url + page.content() + str(page.context.cookies())
        assert not any(token in url for url in watched.requests)
