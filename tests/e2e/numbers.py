"""Every number of every page, beside what the API and the databases say at the same moment."""

import contextlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Fleet
from tests.e2e.steps import go

ADMIN = "/api/admin"
TENANTS = f"{ADMIN}/tenants"
RUNS = f"{ADMIN}/migration-runs"
HEAD = "0002"
CAUSES_SHOWN_MAX = 3

Numbers = dict[str, int]
Read = Callable[[Page], Numbers]
Ask = Callable[[httpx.Client], Numbers]

# All at one moment: the page may change between two questions.
MAIN = "document.querySelector('main').innerText"
TOTALS = "[...document.querySelectorAll('[aria-label=Totals] button')].map((one) => one.ariaLabel)"
CELLS = """(label) => [...document.querySelectorAll('table')]
  .filter((one) => one.caption.textContent === label)
  .flatMap((one) => [...one.tBodies[0].rows])
  .map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"""
LISTED_MAX = 10
"""The rows of a page of the lists of a tenant."""
SIZE = re.compile(r"\d+ B|[\d.]+ [kMG]B")


def data(client: httpx.Client, path: str, **query: object) -> Any:
    return client.get(path, params=query or None).raise_for_status().json()["data"]  # type: ignore[arg-type]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def found(pattern: str, text: str) -> int:
    """Return the number in a text; 0 if it is not there."""
    match = re.search(pattern, text)
    return 0 if match is None else number(match[1])


def at_head(fleet: Fleet) -> int:
    """Return how many databases are at the head, by their own tables."""
    return sum(revision_of(fleet, place) == HEAD for place in range(len(fleet.tenants)))


def revision_of(fleet: Fleet, place: int) -> str | None:
    file = fleet.tenants[place].file
    if not file.exists():
        return None
    with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as raw:
        return str(raw.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def counts(run: dict[str, Any]) -> Numbers:
    """Return the numbers of a run by the API."""
    failed = run["failedCount"] - run["notAttemptedCount"]
    attempted = run["successCount"] + failed
    numbers = {"attempted": attempted, "total": run["totalCount"]}
    return numbers | {"succeeded": run["successCount"], "failed": failed}


def outcomes(page: Page) -> Numbers:
    """Return the numbers of a run's page, by their words."""
    items = page.get_by_role("list", name="Tenants by outcome").get_by_role("listitem")
    texts = [" ".join(one.split()) for one in items.all_inner_texts()]
    ended = re.search(r"([\d,]+) of ([\d,]+) tenants", texts[0])
    assert ended is not None
    shown = {"attempted": number(ended[1]), "total": number(ended[2])}
    return shown | {text.split(" ", 1)[1]: number(text.split(" ", 1)[0]) for text in texts[1:]}


def fleet_shown(page: Page) -> Numbers:
    """Return the numbers of the first page: the totals, and the panels above them."""
    totals, text = page.evaluate(f"[{TOTALS}, {MAIN}]")
    pairs = [one.split(" ", 1) for one in totals]
    shown = {words: number(first) for first, words in pairs if words != "migrating"}
    return shown | {
        "not at head": found(r"([\d,]+) of [\d,]+ tenants? not at the head", text),
        "of": found(r"[\d,]+ of ([\d,]+) tenants? not at the head", text),
        "run": found(r"Of ([\d,]+) tenants: ", text),
        "run succeeded": found(r"Of .*?([\d,]+) succeeded", text),
        "run failed": found(r"Of .*? ([\d,]+) failed", text),
        "left": found(r"([\d,]+) left\.", text),
        "by cause": sum(map(number, re.findall(r"^([\d,]+) \u00d7 ", text, re.MULTILINE))),
        "workers": found(r"([\d,]+) workers? alive", text),
        "without a backup": found(r"([\d,]+) tenants? without a backup", text),
    }


def fleet_asked(client: httpx.Client) -> Numbers:
    status = data(client, f"{TENANTS}/schema-status")
    run = data(client, RUNS, pageSize=1)["items"][0]
    backups = data(client, f"{ADMIN}/backups")
    workers = data(client, f"{ADMIN}/health")["workers"]
    numbers = counts(run)
    left = status["behind"] + status["unknown"]
    failing = {"failing": status["failing"], "by cause": _by_cause(client)}
    places = _places(status)
    return (
        places
        | failing
        | {
            "tenants": status["total"] + status["suspended"] + status["readOnly"],
            "suspended": status["suspended"],
            "not at head": left,
            "of": status["total"] if left else 0,
            "run": run["totalCount"],
            "run succeeded": numbers["succeeded"],
            "run failed": numbers["failed"],
            "left": run["totalCount"] - run["successCount"] - run["failedCount"],
            "workers": sum(one["isAlive"] for one in workers),
            "without a backup": backups["withoutCount"] if backups["oldestAt"] else 0,
        }
    )


def _by_cause(client: httpx.Client) -> int:
    """Return how many tenants fail for the causes that are shown: the largest groups."""
    tenants = data(client, f"{TENANTS}/map")["items"]
    failing = [one for one in tenants if one["failingRunId"] and one["isActive"]]
    groups = Counter((one["failingRunId"], one["cause"]) for one in failing)
    return sum(count for _, count in groups.most_common(CAUSES_SHOWN_MAX))


def _places(status: dict[str, Any]) -> Numbers:
    """A tenant that is failing is shown as that, wherever it is."""
    numbers = {"at head": 0, "behind": 0, "unknown": 0}
    for one in status["revisions"]:
        name = {"head": "at head"}.get(one["place"], one["place"])
        numbers[name] += one["count"] - one["failing"] - one["drifted"]
    return numbers


def run_row(page: Page, label: str) -> Numbers:
    """Return the numbers of a run in the list of runs."""
    rows = [one for one in page.evaluate(CELLS, "History") if one[0] == label]
    total, failed, left = (number(one) for one in rows[0][3:6])
    return {"total": total, "failed": failed, "not attempted": left}


def run_row_asked(client: httpx.Client, run_id: str) -> Numbers:
    run = data(client, f"{RUNS}/{run_id}")
    numbers = counts(run)
    left = run["notAttemptedCount"]
    return {"total": run["totalCount"], "failed": numbers["failed"], "not attempted": left}


def plans(page: Page) -> Numbers:
    """Return the numbers of the newest stored plan, in the list of plans."""
    [first, *_] = page.evaluate(CELLS, "Stored plans")
    return {"pending": number(first[2]), "failed": number(first[3])}


def plans_asked(client: httpx.Client) -> Numbers:
    plan = data(client, f"{ADMIN}/plans", pageSize=1)["items"][0]
    return {"pending": plan["pendingCount"], "failed": plan["failedCount"]}


def listed(page: Page, table: str) -> int:
    """Return how many rows a list has, by its pages, or by its rows if it has one page."""
    pager = page.get_by_role("navigation", name=f"Pages of {table}")
    if pager.count() > 0:
        return found(r"of ([\d,]+)", pager.first.inner_text())
    return len(page.evaluate(CELLS, table))


def size_of(size: int) -> str:
    """Return a number of bytes as the console writes it."""
    power = min(3, (len(str(max(1, size))) - 1) // 3)
    amount = size / 1000**power
    shown = str(round(amount)) if power == 0 or amount >= 100 else f"{amount:.1f}"
    return f"{shown} {('B', 'kB', 'MB', 'GB')[power]}"


def between(before: Numbers, shown: Numbers, after: Numbers) -> None:
    """Check that each number was so between two answers of the API."""
    assert shown.keys() == before.keys()
    for name, value in shown.items():
        least, most = sorted((before[name], after[name]))
        assert least <= value <= most, (name, before, shown, after)


class Pages:
    """The pages of a fleet, each opened afresh.

    Args:
        page: Of the browser.
        client: The API.
        fleet: Its databases.
        run_id: The newest run, with the label *label*.
        tenant: The place of a tenant with users.
    """

    def __init__(
        self, page: Page, client: httpx.Client, fleet: Fleet, run: tuple[str, str], tenant: int
    ) -> None:
        self._page, self._client, self._fleet = page, client, fleet
        self._run_id, self._label = run
        self._tenant = fleet.tenants[tenant]

    def check(self) -> None:
        """Open every page that has numbers, and compare them."""
        self._check("#/fleet", "Fleet", fleet_shown, fleet_asked, ".total")
        status = data(self._client, f"{TENANTS}/schema-status")
        assert status["upToDate"] <= at_head(self._fleet)
        self._check(
            "#/runs",
            "Runs",
            lambda page: run_row(page, self._label),
            lambda client: run_row_asked(client, self._run_id),
            "[aria-label=History] tbody",
        )
        if data(self._client, f"{ADMIN}/plans")["items"]:
            expect(self._page.locator("[aria-label='Stored plans'] tbody")).to_be_visible()
            between(plans_asked(self._client), plans(self._page), plans_asked(self._client))
        for query in ("isFailing=true", f"revision={status['head']}", "where=not+failing"):
            self._list(f"#/tenants?{query}", "Tenants", TENANTS, "Tenants", query)
        self._list("#/audit", "Audit log", f"{ADMIN}/audit-log", "Audit log")
        self._list("#/backups", "Backups", f"{ADMIN}/jobs", "Jobs")
        self._list("#/backups", "Backups", f"{ADMIN}/archives", "Archives")
        self._admins()
        self._health()
        self._one_tenant()

    def _check(self, fragment: str, heading: str, read: Read, ask: Ask, until: str) -> None:
        before = ask(self._client)
        self._open(fragment, heading)
        expect(self._page.locator(until).first).to_be_visible()
        expect(self._page.locator("main").locator(".skeleton, [aria-busy=true]")).to_have_count(0)
        shown = read(self._page)
        between(before, shown, ask(self._client))

    def _open(self, fragment: str, heading: str) -> None:
        """Open a page, also if it is shown already."""
        go(self._page, "#/tenants/new", "New tenant")
        go(self._page, fragment, heading)

    def _list(self, fragment: str, heading: str, path: str, table: str, query: str = "") -> None:
        def ask(client: httpx.Client) -> Numbers:
            return {"listed": data(client, f"{path}?{query}")["totalCount"]}

        self._check(
            fragment,
            heading,
            lambda page: {"listed": listed(page, table)},
            ask,
            "h1",
        )

    def _admins(self) -> None:
        self._open("#/admins", "Admins")
        expect(self._page.locator("tbody")).to_be_visible()
        admins = data(self._client, f"{ADMIN}/admins")["items"]
        assert len(self._page.evaluate(CELLS, "Admins")) == len(admins)

    def _health(self) -> None:
        self._open("#/health", "Health")
        text = self._page.evaluate(MAIN)
        workers = data(self._client, f"{ADMIN}/health")["workers"]
        assert found(r"(\d+) alive", text) == sum(one["isAlive"] for one in workers)
        shown = [row[4:] for row in self._page.evaluate(CELLS, "Notifications")]
        hooks = data(self._client, f"{ADMIN}/hooks")["items"]
        names = ("queued", "delivered", "failed", "dropped")
        assert [len(row) for row in shown] == [len(names)] * len(hooks)
        for row, hook in zip(shown, hooks, strict=True):
            ended = sum(number(one) for one in row)
            assert ended <= sum(hook[f"{name}Count"] for name in names)

    def _one_tenant(self) -> None:
        path = f"{TENANTS}/{self._tenant.id}"
        self._open(f"#/tenants/{self._tenant.id}", self._tenant.name)
        page = self._page
        expect(page.get_by_role("region", name="Posts")).to_contain_text("no posts")
        size = page.locator(".facts div").filter(has_text="Size")
        expect(size).to_contain_text(SIZE)
        contents = data(self._client, f"{path}/overview")["contents"]
        assert SIZE.findall(size.inner_text())[0] == size_of(contents["sizeBytes"])
        assert contents["postCount"] == 0
        for name, part in (("Users", "users"), ("API keys", "api-keys"), ("Migrations", "")):
            region = page.get_by_role("region", name=name, exact=True)
            expect(region.locator("tbody")).to_be_visible()
            items = data(self._client, f"{path}/{part or 'migrations'}")["items"]
            assert len(page.evaluate(CELLS, name)) == min(len(items), LISTED_MAX), name
