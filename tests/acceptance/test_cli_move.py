"""``tenantry tenant move``: tenants between tenant servers."""

import asyncio
import json
from typing import Any

import pytest

from tenantry.db.factory import open_server
from tenantry.db.servers import Server
from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from tests.acceptance.commands import Commands

pytestmark = pytest.mark.slow

NEAR, FAR = "default", "far"
COUNT = "SELECT count(*) FROM note"


def server(url: str) -> Server:
    return open_server(url, connections_max=1, timeout_seconds=5, synchronous="FULL")


@pytest.fixture(name="far_url")
def _far_url(tenantry: Commands) -> str:
    """Another folder; or the same server of PostgreSQL under another name."""
    url = tenantry.settings.servers["default"].address
    return url if sqlite_path(url) is None else f"sqlite:///{tenantry.folder / 'far'}"


@pytest.fixture(name="two")
def _two(tenantry: Commands, far_url: str) -> Commands:
    """Commands with two tenant servers."""
    tenantry.environment["TENANTRY_TENANT_SERVERS"] = json.dumps({FAR: far_url})
    return tenantry


@pytest.fixture(name="shop")
def _shop(two: Commands) -> Any:
    """A tenant with a table of its own."""
    shop = two.create_tenant("Shop")
    raw_sql.run(
        server(two.settings.servers["default"].address).url(shop["databaseName"]),
        "CREATE TABLE note (id INTEGER PRIMARY KEY, body VARCHAR(100) NOT NULL)",
        "INSERT INTO note VALUES (1, 'ä, ''quoted''')",
        "INSERT INTO note VALUES (2, 'another')",
    )
    return shop


@pytest.fixture(name="reason")
def _reason(two: Commands) -> str:
    """Why no move is online here: the server of the tests keeps too little in its log."""
    if sqlite_path(two.settings.servers["default"].address) is not None:
        return "only a move between two servers of PostgreSQL can be online"
    return "wal_level of its server is replica, and must be logical"


def shown(two: Commands, name: str = "Shop") -> Any:
    return two("tenant", "show", name, "--json").data


def databases(two: Commands, far_url: str) -> set[str]:
    """Return the databases of tenants that exist on either server, listed or not."""
    names = [
        name
        for url in {two.settings.servers["default"].address, far_url}
        for name in asyncio.run(server(url).names("tenantry_"))
    ]
    return {name for name in names if "template" not in name}


class TestTenantMove:
    def test_moves_the_data_the_credentials_and_the_settings(
        self, two: Commands, shop: Any, far_url: str
    ):
        before = shown(two)

        ended = two("tenant", "move", "Shop", "--to", FAR)

        assert ended.status == 0, ended.stderr
        assert "Shop is on far; writes were rejected for" in ended.stdout
        after = shown(two)
        places = {"serverName", "databaseName"}
        assert {k: v for k, v in after.items() if k not in places} == {
            k: v for k, v in before.items() if k not in places
        }
        url = server(far_url).url(after["databaseName"])
        assert raw_sql.rows(url, "SELECT body FROM note ORDER BY id") == [
            ("ä, 'quoted'",),
            ("another",),
        ]
        raw_sql.run(url, "INSERT INTO note VALUES (3, 'written after the move')")
        (key,) = two("key", "list", "Shop", "--json").data["items"]
        assert key["prefix"] == shop["apiKey"][:12]
        assert two("user", "list", "Shop", "--json").data["items"]

    def test_shows_why_it_is_not_moved_online(self, two: Commands, shop: Any, reason: str):
        planned = two("tenant", "move", "Shop", "--to", FAR, "--dry-run")
        (plan,) = two("tenant", "move", "--all-on", NEAR, "--to", FAR, "--dry-run", "--json").data[
            "items"
        ]
        assert shown(two)["databaseName"] == shop["databaseName"]

        moved = two("tenant", "move", "Shop", "--to", FAR)

        assert planned.status == 0
        assert f"Shop: Not online, because {reason}: the tenant is read-only" in planned.stdout
        assert (plan["isOnline"], plan["obstacle"], plan["error"]) == (False, reason, None)
        assert f"(not moved online, because {reason})" in moved.stdout
        job = two("backup", "jobs", "--json").data["items"][0]
        assert reason in job["note"]

    def test_does_not_make_it_read_only_if_only_online_is_wanted(
        self, two: Commands, shop: Any, reason: str
    ):
        ended = two("tenant", "move", "Shop", "--to", FAR, "--online")
        both = two("tenant", "move", "Shop", "--to", FAR, "--online", "--dry-run")

        assert (ended.status, both.status) == (2, 1)
        assert f"The tenant cannot be moved online: {reason}." in ended.stderr
        assert f"Not moved: Shop: The tenant cannot be moved online: {reason}." in both.stderr
        assert shown(two)["databaseName"] == shop["databaseName"]
        assert two("backup", "jobs", "--json").data["items"] == []

    def test_drops_the_old_database(self, two: Commands, shop: Any, far_url: str):
        before = databases(two, far_url)

        two("tenant", "move", "Shop", "--to", FAR)

        after = databases(two, far_url)
        assert before - after == {shop["databaseName"]}
        assert after - before == {shown(two)["databaseName"]}

    def test_moves_back(self, two: Commands, shop: Any):
        del shop
        two("tenant", "move", "Shop", "--to", FAR)

        ended = two("tenant", "move", "Shop", "--to", NEAR, "--json")

        (moved,) = ended.data["items"]
        assert (moved["serverName"], moved["error"]) == (NEAR, None)
        assert moved["rejectedSeconds"] > 0
        url = server(two.settings.servers["default"].address).url(moved["databaseName"])
        assert raw_sql.rows(url, COUNT) == [(2,)]

    def test_is_a_job_and_is_in_the_audit_log(self, two: Commands, shop: Any):
        two("tenant", "move", "Shop", "--to", FAR)

        job = two("backup", "jobs", "--json").data["items"][0]
        assert (job["kind"], job["state"], job["databaseName"]) == ("move", "done", None)
        (entry,) = two("audit", "list", "--action", "tenant.move", "--json").data["items"]
        changes = {one["field"]: (one["old"], one["new"]) for one in entry["changes"]}
        assert changes["serverName"] == (NEAR, FAR)
        assert entry["tenantId"] == shop["id"]

    @pytest.mark.parametrize("command", ["suspend", "read-only"])
    def test_leaves_the_state_of_the_tenant_as_it_was(self, two: Commands, shop: Any, command: str):
        del shop
        before = two("tenant", command, "Shop", "--json").data

        assert two("tenant", "move", "Shop", "--to", FAR).status == 0

        after = shown(two)
        states = ("isActive", "isReadOnly")
        assert [after[name] for name in states] == [before[name] for name in states]

    def test_moves_every_tenant_of_a_server(self, two: Commands, shop: Any):
        del shop
        two.create_tenant("Other")

        ended = two("tenant", "move", "--all-on", NEAR, "--to", FAR, "--json")

        assert {one["tenantName"] for one in ended.data["items"]} == {"Shop", "Other"}
        assert shown(two)["serverName"] == shown(two, "Other")["serverName"] == FAR

    def test_moves_the_tenants_that_an_expression_selects(self, two: Commands, shop: Any):
        del shop
        two.create_tenant("Other")
        two("tenant", "label", "Other", "plan=free")
        moved = ("tenant", "move", "--where", "plan=free", "--to", FAR)

        assert two(*moved, "--all-on", NEAR, "--dry-run").stdout.startswith("Other: ")
        assert two(*moved).status == 0

        assert (shown(two)["serverName"], shown(two, "Other")["serverName"]) == (NEAR, FAR)
        assert "No tenants to move." in two(*moved).stderr
        assert two("tenant", "move", "--where", "plan=", "--to", FAR).status == 2

    def test_moves_the_others_if_one_cannot_be_moved(self, two: Commands, shop: Any, far_url: str):
        two.create_tenant("Other")
        two.drop_database(shop)
        before = databases(two, far_url)

        ended = two("tenant", "move", "Shop", "Other", "--to", FAR)

        assert ended.status == 1
        assert "Not moved: Shop" in ended.stderr
        assert shown(two)["serverName"] == NEAR
        assert not shown(two)["isReadOnly"]
        assert shown(two, "Other")["serverName"] == FAR
        assert len(databases(two, far_url)) == len(before)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("Shop", "--to", "nowhere"), "There is no tenant server of this name."),
            (("Shop", "--to", NEAR), "The tenant is on this tenant server already."),
            (("--all-on", "nowhere", "--to", FAR), "There is no tenant server of this name."),
            (("--all-on", FAR, "--to", FAR), "The tenant is on this tenant server already."),
            (("--to", FAR), "Name tenants, or use --all-on SERVER, --where, or both."),
            (("Shop", "--where", "plan=x", "--to", FAR), "Name tenants, or use"),
            (("--where", "plan=x", "--to", "nowhere"), "There is no tenant server of this name."),
            (
                ("Shop", "--all-on", NEAR, "--to", FAR),
                "Name tenants, or use --all-on SERVER, --where, or both.",
            ),
            (("Unknown", "--to", FAR), "There is no such tenant."),
            (("Shop", "--to", FAR, "--online", "--offline"), "Use one of --online and --offline."),
        ],
    )
    def test_rejects_what_cannot_be_moved(
        self, two: Commands, shop: Any, arguments: tuple[str, ...], message: str
    ):
        ended = two("tenant", "move", *arguments)

        assert ended.status == 2
        assert message in ended.stderr
        assert shown(two)["databaseName"] == shop["databaseName"]
