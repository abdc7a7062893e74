"""``tenantry fleet``: databases that are not Tenantry's, migrated with a team's own project."""

import secrets

import pytest

from tenantry.cli.fleet_place import LIST_CHARS_MAX
from testkit import raw_sql
from tests.acceptance.commands import Commands
from tests.acceptance.fleets import LOG, Fleet, statuses, version
from tests.acceptance.test_fleet_runs import add_slow
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.projects import HEAD

NAMES = ("a1_create_customers", "a2_create_orders", "a3_add_email", "a4_fill_email")
PASSWORD = "hunter2-of-the-fleet"
OF_TENANTRY = "This is the state of a fleet, or a database of a Tenantry service"


class TestMigrate:
    def test_leaves_what_alembic_leaves_and_one_table(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")
        plain = fleet.make_url("plain")
        fleet.project.alembic("upgrade", "head", url=plain)

        run = fleet.migrate()

        assert statuses(run) == {"acme": "success", "globex": "success"}
        assert fleet.applied() == {",".join(NAMES)}
        for url in urls.values():
            assert set(raw_sql.tables(url)) == {*raw_sql.tables(plain), LOG}
            assert raw_sql.rows(url, "SELECT * FROM customer") == raw_sql.rows(
                plain, "SELECT * FROM customer"
            )
            assert version(url) == version(plain) == [(HEAD,)]

    def test_without_a_log_leaves_no_table(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]

        run = fleet.migrate("--no-log")

        assert statuses(run) == {"acme": "success"}
        assert LOG not in raw_sql.tables(url)

    def test_goes_on_where_alembic_has_stopped_and_alembic_goes_on_after_it(self, fleet: Fleet):
        url = fleet.add("acme")["acme"]
        fleet.project.alembic("upgrade", "a2", url=fleet.absolute(url))

        fleet.migrate()
        first = fleet.applied()
        fleet.project.alembic("stamp", "a3", url=fleet.absolute(url))
        fleet.migrate()
        second = fleet.applied()
        fleet.project.alembic("upgrade", "head", url=fleet.absolute(url))

        assert first == {"a3_add_email,a4_fill_email"}
        assert second == {"a4_fill_email"}
        assert version(url) == [(HEAD,)]

    def test_names_the_cause_of_a_failure_and_retries_it(self, fleet: Fleet):
        urls = fleet.add("acme", "globex")
        with raw_sql.connected(urls["globex"]) as query:
            query("CREATE TABLE customer (id INTEGER)")

        first = fleet("migrate")
        shown = fleet("show", "--json", has_list=False)
        with raw_sql.connected(urls["globex"]) as query:
            query("DROP TABLE customer")
        retried = fleet("retry", shown.data["id"], "--json")

        assert first.status == 1
        assert "customer" in first.stdout
        assert f"tenantry fleet migrate --urls databases.txt --retry {shown.data['id']}" in (
            first.stderr
        )
        assert statuses(shown.data) == {"acme": "success", "globex": "failed"}
        assert statuses(retried.data) == {"globex": "success"}

    def test_is_shown_by_status_and_history(self, fleet: Fleet):
        fleet.add("acme", "globex")
        run = fleet.migrate()

        status = fleet("status", "--json", has_list=False).data
        history = fleet("history", "--json", has_list=False).data

        assert (status["head"], status["total"], status["upToDate"]) == (HEAD, 2, 2)
        assert [one["id"] for one in history["items"]] == [run["runId"]]


class TestWords:
    @on_sqlite
    def test_are_those_of_databases_and_of_a_state(self, fleet: Fleet):
        fleet.add("a", "b")
        fleet("migrate")
        commands = {
            "status": "2 of 2 active databases at the head",
            "show": "databases  2 of 2, 0 failed",
            "history": "Databases",
            "plan": "0 of 2 databases pending",
        }

        texts = {one: fleet(one, has_list=one == "plan") for one in commands}
        wrong = fleet("migrate", "--database", "nothing")
        help_text = fleet("migrate", "--help", has_list=False)

        for name, said in commands.items():
            assert said in texts[name].stdout
            assert "tenant" not in texts[name].stdout.replace("tenantry", "").lower()
        assert "There is no such database. Your list names them." in wrong.stderr
        assert "--database" in help_text.stdout
        assert "nly the tenants" not in help_text.stdout
        assert "nly the databases" in help_text.stdout


class TestList:
    @on_sqlite
    def test_of_files_is_a_pattern_that_leaves_out_the_state(self, fleet: Fleet):
        fleet.add("b", "a")

        for _ in range(2):
            ended = fleet("migrate", "--glob", "*.db", "--json", has_list=False)

            assert sorted(statuses(ended.data)) == ["a", "b"]

    def test_is_read_from_standard_input_with_labels(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        lines = f"# ours\na {urls['a']} plan=free\n\nb {urls['b']} plan=pro\n"

        ended = fleet.tenantry(
            "fleet", "migrate", "--urls", "-", "--where", "plan=pro", "--json", stdin=lines
        )

        assert statuses(ended.data) == {"b": "success"}

    def test_is_a_query_with_labels(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        control = fleet.make_url("control")
        with raw_sql.connected(control) as query:
            query("CREATE TABLE customers (name TEXT, url TEXT, plan TEXT)")
            for name, url in urls.items():
                query(f"INSERT INTO customers VALUES ('{name}', '{url}', '{name}1')")
        asked = ("--from", control, "--query", "SELECT name, url, plan FROM customers")

        ended = fleet("migrate", *asked, "--where", "plan=b1", "--json", has_list=False)

        assert statuses(ended.data) == {"b": "success"}

    def test_of_a_query_with_two_columns_of_a_name_is_refused(self, fleet: Fleet):
        url = fleet.add("a")["a"]
        query = f"SELECT '{url}' AS url, 'sqlite:///other.db' AS url"

        ended = fleet("plan", "--from", fleet.make_url("control"), "--query", query, has_list=False)

        assert ended.status == 2
        assert "The list has the column url twice." in ended.stderr

    def test_of_a_query_with_a_wrong_row_starts_nothing(self, fleet: Fleet):
        urls = fleet.add("a")
        control = fleet.make_url("control")
        with raw_sql.connected(control) as query:
            query("CREATE TABLE customers (url TEXT, n INTEGER)")
            query(f"INSERT INTO customers VALUES ('{urls['a']}', 1), ('oops', 0)")
        asked = ("--from", control, "--query", "SELECT url FROM customers ORDER BY n DESC")

        ended = fleet("migrate", *asked, has_list=False)

        assert ended.status == 2
        assert "Row 2 of the list" in ended.stderr
        assert not (fleet.project.folder / "tenantry-fleet.db").exists()
        assert not raw_sql.tables(urls["a"])

    def test_of_a_query_that_fails_in_the_middle_starts_nothing(self, fleet: Fleet, engine: str):
        """The databases that left the list would be those that were not read."""
        urls = fleet.add("a", "b")
        assert fleet("migrate", "--where", "plan=none").status == 2
        control = fleet.make_url("control")
        with raw_sql.connected(control) as query:
            query("CREATE TABLE customers (name TEXT, url TEXT, n TEXT)")
            for number, (name, url) in enumerate(urls.items()):
                query(f"INSERT INTO customers VALUES ('{name}', '{url}', '{number}x')")
        # It can be computed in the first row only.
        checked = {
            "sqlite": "CASE n WHEN '0x' THEN '' ELSE json(n) END",
            "postgresql": "CASE n WHEN '0x' THEN '' ELSE CAST(n AS integer)::text END",
        }[engine]
        asked = ("--from", control, "--query", f"SELECT name, url, {checked} AS n FROM customers")

        ended = fleet("migrate", *asked, has_list=False)
        status = fleet("status", "--json", has_list=False).data

        assert ended.status == 2
        assert "The query of the list failed" in ended.stderr
        assert (status["total"], status["suspended"]) == (2, 0)
        assert not raw_sql.tables(urls["a"])

    def test_adds_what_is_new_and_names_what_has_left(self, fleet: Fleet):
        fleet.add("a", "b")
        fleet.migrate()
        (fleet.project.folder / "databases.txt").write_text("")
        fleet.add("c")

        ended = fleet("migrate", "--json")
        status = fleet("status", "--json", has_list=False).data

        assert statuses(ended.data) == {"c": "success"}
        assert "1 new in the list: c." in ended.stderr
        assert "2 known and not in the list, so not migrated: a, b." in ended.stderr
        assert (status["total"], status["suspended"]) == (1, 2)

    def test_keeps_a_database_that_has_another_url_and_the_same_name(self, fleet: Fleet):
        fleet.add("a")
        first = fleet.migrate()
        (fleet.project.folder / "databases.txt").write_text("")
        fleet.add("a")

        second = fleet("migrate", "--json")

        assert "new in the list" not in second.stderr
        ids = {one["customerId"] for run in (first, second.data) for one in run["details"]}
        assert len(ids) == 1

    @on_sqlite
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("mysql://a/b", "must begin with sqlite:/// or postgresql://"),
            ("postgresql://h", "must name a database"),
            ("a b sqlite:///x.db", "must be `[NAME] URL"),
            ("sqlite:///x.db Plan=1", "cannot be the key of a label"),
            ("sqlite:///x.db\nsqlite:///x.db", "twice"),
            ("sqlite:///x.db\nx sqlite:///y.db", "and contains that one without a name"),
            ("", "contains no database"),
        ],
    )
    def test_with_a_mistake_starts_nothing(self, fleet: Fleet, line: str, said: str):
        listed = fleet.project.folder / "databases.txt"
        listed.write_text("sqlite:///x.db\n")
        fleet("plan")
        listed.write_text(f"{line}\n")

        ended = fleet("migrate")

        assert ended.status == 2
        assert said in ended.stderr

    def test_with_a_database_of_tenantry_leaves_that_as_it_is(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        fleet.migrate()
        urls |= fleet.add("c")
        for name in ("b", "c"):
            raw_sql.run(urls[name], "CREATE TABLE tenantry_version (version_num VARCHAR)")
        add_slow(fleet, 0)

        run = fleet.migrate()

        assert statuses(run) == {"a": "success", "b": "failed", "c": "failed"}
        assert [(one["error"] or "").partition(":")[0] for one in run["details"]] == [
            "",
            *[OF_TENANTRY] * 2,
        ]
        assert version(urls["b"]) == [(HEAD,)]
        assert raw_sql.tables(urls["c"]) == {"tenantry_version"}

    @on_sqlite
    def test_that_is_too_long_is_not_cut_off(self, fleet: Fleet):
        with (fleet.project.folder / "databases.txt").open("w") as file:
            file.write("sqlite:///x.db\n#")
            file.truncate(LIST_CHARS_MAX + 1)

        ended = fleet("migrate")

        assert ended.status == 2
        assert "A list has at most 256,000,000 characters" in ended.stderr

    @on_sqlite
    def test_of_a_pattern_that_the_shell_has_expanded_says_to_quote_it(self, fleet: Fleet):
        ended = fleet("migrate", "--glob", "acme.db", "globex.db", has_list=False)

        assert ended.status == 2
        assert "(globex.db). Put a pattern in quotes: --glob 'data/*.db'." in ended.stderr

    def test_with_nothing_to_retry_says_so(self, fleet: Fleet):
        fleet.add("acme")
        run = fleet.migrate()

        retried = fleet("retry", run["runId"])

        assert retried.status == 0
        assert retried.stdout.startswith("There is no database to migrate.")

    @on_sqlite
    def test_is_needed(self, fleet: Fleet):
        assert "Name the databases" in fleet("migrate", has_list=False).stderr

    @on_postgresql
    def test_leaves_no_password_anywhere(self, fleet: Fleet):
        url = fleet.add("a")["a"]
        role = f"test_{secrets.token_hex(4)}"
        name = url.rpartition("/")[2]
        raw_sql.run(url, f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
        secret = url.replace("//postgres@", f"//{role}:{PASSWORD}@")
        assert secret != url
        other = secret.replace(name, "nowhere")
        text = f"a {secret}\nb {other}?sslpassword={PASSWORD}\n"
        (fleet.project.folder / "databases.txt").write_text(text)

        ended = fleet("migrate")
        shown = fleet("show", "--json", has_list=False)
        raw_sql.run(url, f"ALTER ROLE {role} NOLOGIN NOSUPERUSER")

        assert statuses(shown.data) == {"a": "success", "b": "failed"}
        said = ended.stdout + ended.stderr + shown.stdout
        assert PASSWORD not in said
        assert role in said
        for one in fleet.project.folder.glob("tenantry-fleet.db*"):
            assert PASSWORD.encode() not in one.read_bytes()


class TestState:
    def test_is_not_migrated_itself(self, fleet: Fleet):
        state = fleet.make_url("state")
        fleet.add("a")
        fleet.migrate("--state", state)
        before = raw_sql.tables(state)

        (fleet.project.folder / "databases.txt").write_text(f"state {state}\n")
        [result] = fleet.migrate("--state", state)["details"]

        assert result["status"] == "failed"
        assert "This is the state of a fleet" in result["error"]
        assert raw_sql.tables(state) == before

    @pytest.mark.parametrize("command", ["history", "status", "migrate"])
    def test_is_no_database_of_another_program(self, fleet: Fleet, command: str):
        fleet.add("a")
        other = fleet.make_url("other")
        raw_sql.run(fleet.absolute(other), "CREATE TABLE customers (id INTEGER)")

        ended = fleet(command, "--state", other, has_list=command == "migrate")

        assert ended.status == 3
        assert "The database has tables of another program: use an empty one" in ended.stderr
        assert raw_sql.tables(fleet.absolute(other)) == {"customers"}

    @on_sqlite
    def test_is_named_when_it_is_missing(self, fleet: Fleet):
        ended = fleet("status", has_list=False)

        assert ended.status == 3
        assert "There is no state of a fleet here yet" in ended.stderr

    def test_is_no_catalog_of_a_service(self, fleet: Fleet):
        fleet.add("a")
        fleet.migrate()
        state = f"sqlite:///{fleet.project.folder / 'tenantry-fleet.db'}"

        served = fleet.tenantry("tenant", "suspend", "a", TENANTRY_CATALOG_URL=state)

        assert served.status == 2
        assert "This is the state of a fleet" in served.stderr

    def test_is_not_the_catalog_of_a_service(self, fleet: Fleet, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        fleet.add("a")
        catalog = tenantry.settings.catalog

        ended = fleet("migrate", "--state", catalog)

        assert ended.status == 2
        assert "and no state of a fleet" in ended.stderr
        [tenant] = tenantry("tenant", "list", "--json").data["items"]
        assert tenant["isActive"]


class TestProject:
    def test_is_found_by_its_configuration(self, fleet: Fleet):
        fleet.add("a")
        (fleet.project.folder / "alembic.ini").unlink()

        without = fleet("migrate")
        named = fleet("migrate", "--migrations", "migrations", "--json")

        assert without.status == 3
        assert "There is no Alembic project here" in without.stderr
        assert statuses(named.data) == {"a": "success"}

    def test_names_its_version_table_in_env_py(self, fleet: Fleet):
        url = fleet.add("a")["a"]
        env = fleet.project.migrations / "env.py"
        env.write_text(
            env.read_text().replace("context.configure(", "context.configure(version_table='ours',")
        )

        assert statuses(fleet.migrate()) == {"a": "success"}
        assert raw_sql.rows(url, "SELECT version_num FROM ours") == [(HEAD,)]
