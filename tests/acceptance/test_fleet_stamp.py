"""``tenantry fleet stamp``: the schema is there, and its revision is written."""

from testkit import raw_sql
from tests.acceptance.fleets import Fleet, version
from tests.integration.projects import HEAD

REPORT = {"stamped", "unchanged", "refusedCount", "refused"}


def unversioned(fleet: Fleet, url: str, revision: str) -> None:
    """Give a database the schema of *revision*, and no version table."""
    fleet.project.alembic("upgrade", revision, url=fleet.absolute(url))
    raw_sql.run(url, "DROP TABLE alembic_version")


class TestStamp:
    def test_writes_the_revision_and_the_next_run_goes_on_from_there(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")
        for url in urls.values():
            unversioned(fleet, url, "a2")

        report = fleet("stamp", "a2", "--json").data
        status = fleet("status", "--json", has_list=False).data
        again = fleet("stamp", "a2", "--json").data
        versions = [version(url) for url in urls.values()]
        fleet.migrate()

        assert report.keys() >= REPORT
        assert (report["stamped"], report["unchanged"], report["refusedCount"]) == (2, 0, 0)
        assert (again["stamped"], again["unchanged"]) == (0, 2)
        assert [(one["revision"], one["count"]) for one in status["revisions"]] == [("a2", 2)]
        assert versions == [[("a2",)]] * 2
        assert fleet.applied() == {"a3_add_email,a4_fill_email"}
        assert version(urls["acme"]) == [(HEAD,)]

    def test_leaves_another_revision_and_an_empty_database_as_they_are(self, fleet: Fleet):
        urls = fleet.add("empty", "other", "plain")
        fleet.project.alembic("upgrade", "a3", url=fleet.absolute(urls["other"]))
        unversioned(fleet, urls["plain"], "a2")

        ended = fleet("stamp", "a2")

        assert ended.status == 1
        assert "empty: The database has no table" in ended.stdout
        assert "other: The database is at another revision" in ended.stdout
        assert "1 stamped, 0 at this revision already, 2 not stamped." in ended.stdout
        assert raw_sql.tables(urls["empty"]) == set()
        assert version(urls["other"]) == [("a3",)]
        assert version(urls["plain"]) == [("a2",)]

    def test_refuses_a_named_database_that_has_left_the_list(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")
        fleet("plan")
        listed = fleet.project.folder / "databases.txt"
        lines = listed.read_text().splitlines()
        listed.write_text("\n".join(one for one in lines if "globex" not in one) + "\n")

        ended = fleet("stamp", "a2", "--database", "globex")

        assert ended.status == 1
        assert "0 stamped, 0 at this revision already, 1 not stamped." in ended.stdout
        assert "alembic_version" not in raw_sql.tables(urls["globex"])

    def test_names_a_database_whose_revision_the_state_cannot_record(self, fleet: Fleet):
        urls = fleet.add("acme")
        unversioned(fleet, urls["acme"], "a2")
        fleet("plan")
        reject = "BEFORE UPDATE OF schema_revision ON tenant BEGIN SELECT RAISE(ABORT, 'no'); END"
        raw_sql.run(
            f"sqlite:///{fleet.project.folder / 'tenantry-fleet.db'}", f"CREATE TRIGGER t {reject}"
        )

        ended = fleet("stamp", "a2")

        assert ended.status == 1
        assert ended.stdout.startswith("acme: ")
        assert "Traceback" not in ended.stderr

    def test_takes_named_databases_alone(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")
        for url in urls.values():
            unversioned(fleet, url, "a2")

        report = fleet("stamp", "a2", "--database", "acme", "--json").data

        assert report["stamped"] == 1
        assert version(urls["acme"]) == [("a2",)]
        assert "alembic_version" not in raw_sql.tables(urls["globex"])

    def test_of_an_unknown_revision_changes_nothing(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]
        unversioned(fleet, url, "a2")

        ended = fleet("stamp", "head")

        assert ended.status == 2
        assert "The revision is not in the Alembic directory" in ended.stderr
        assert "alembic_version" not in raw_sql.tables(url)

    def test_is_recorded_and_finds_a_database_of_tenantry(self, fleet: Fleet):
        urls = fleet.add("acme", "served")
        unversioned(fleet, urls["acme"], "a2")
        raw_sql.run(urls["served"], "CREATE TABLE tenantry_version (version_num VARCHAR)")

        ended = fleet("stamp", "a2")

        assert ended.status == 1
        assert "served: This is the state of a fleet, or a database of a Tenantry" in ended.stdout
        with raw_sql.connected(f"sqlite:///{fleet.project.folder}/tenantry-fleet.db") as query:
            logged = query(
                "SELECT action, target, actor FROM audit_entry WHERE action LIKE '%stamp'"
            )
        [(action, target, actor)] = logged
        assert (action, target) == ("fleet.stamp", "a2_create_orders")
        assert actor.startswith("cli:")
