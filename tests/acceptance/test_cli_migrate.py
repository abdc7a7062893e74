"""``tenantry migrate``."""

import json
import re
import signal
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from testkit.programs import only_line, run, running
from tests.acceptance.commands import (
    ADA,
    CREATE_WIDGETS,
    PAGE,
    PASSWORD,
    RUN,
    RUN_DETAIL,
    SLOWLY,
    Commands,
    ended_count,
    wait_until,
)

OURS = {"TENANTRY_TENANT_MIGRATIONS": "ours"}
# It logs, starts a program, and writes to the file descriptor as native code does.
NOISY = CREATE_WIDGETS.replace(
    "def upgrade(op):",
    """import atexit, logging, os, subprocess, sys
logging.getLogger("noisy").addHandler(logging.StreamHandler(sys.stdout))
logging.getLogger("noisy").warning("loud at import")
atexit.register(print, "loud at exit")

def upgrade(op):
    os.write(1, b"loud natively\\n")
    subprocess.run(["echo", "loud program"], check=True)
    print("loud upgrade")""",
)


class TestMigrateAll:
    @pytest.mark.slow
    def test_brings_every_tenant_to_the_head(self, tenantry: Commands):
        tenantry.create_admin()
        made = [tenantry.create_tenant(name) for name in ("acme", "globex")]
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}

        behind = tenantry("migrate", "status", "--json", **migrations).data
        result = tenantry("migrate", "all", "--json", **migrations)
        after = tenantry("migrate", "status", "--json", **migrations).data

        assert (behind["total"], behind["upToDate"], behind["behind"]) == (2, 0, 2)
        assert result.status == 0
        data = result.data
        assert tenantry("migrate", "show", data.pop("runId"), "--json").status == 0
        assert data == {
            "total": 2,
            "success": 2,
            "failed": 0,
            "details": [
                {
                    "customerId": one["id"],
                    "customerName": one["name"],
                    "status": "success",
                    "error": None,
                }
                for one in made
            ],
        }
        assert (after["upToDate"], after["behind"], after["unknown"]) == (2, 0, 0)
        assert after["revisions"] == [
            {"revision": after["head"], "place": "head", "count": 2, "failing": 0, "drifted": 0}
        ]
        assert after["running"] == []

    @pytest.mark.slow
    def test_ends_with_1_when_a_tenant_failed(self, tenantry: Commands):
        tenantry.create_admin()
        broken = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.break_tenant(broken)

        as_json = tenantry("migrate", "all", "--json", **migrations)
        as_text = tenantry("migrate", "all", **migrations)

        assert as_json.status == as_text.status == 1
        data = as_json.data
        assert (data["total"], data["success"], data["failed"]) == (2, 1, 1)
        failed = next(one for one in data["details"] if one["status"] == "failed")
        assert failed["customerId"] == broken["id"]
        assert "widgets" in failed["error"]
        assert "acme" in as_text.stdout
        assert "widgets" in as_text.stdout
        assert "globex" not in as_text.stdout
        assert "1 of 2 tenants are at the head" in as_text.stdout
        assert "Traceback" not in as_text.stderr

    def test_migrates_nothing_without_tenants(self, alone: Commands):
        alone.create_admin()

        result = alone("migrate", "all", "--json").data

        assert result.pop("runId")
        assert result == {
            "total": 0,
            "success": 0,
            "failed": 0,
            "details": [],
        }

    def test_leaves_standard_output_to_the_command(self, alone: Commands):
        alone.create_admin()
        environment = alone.environment | {"TENANTRY_TENANT_MIGRATIONS": alone.migrations(NOISY)}
        owner = ("--owner-email", "o@example.com", "--owner-name", "O", "--password-stdin")

        plan = run(alone.folder, "migrate", "plan", "--json", **environment)
        created = run(
            alone.folder, "tenant", "create", "a", *owner, "--json", stdin=PASSWORD, **environment
        )
        again = run(alone.folder, "migrate", "all", "--json", **environment)

        for ended in (plan, created, again):
            assert ended.returncode == 0, ended.stderr
            assert json.loads(ended.stdout)
        for loud in ("at import", "natively", "program", "upgrade", "at exit"):
            assert f"loud {loud}" in created.stderr

    def test_names_the_only_admin_or_the_one_that_is_named(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry("migrate", "all")
        tenantry.create_admin("bo@example.com")
        tenantry("migrate", "all", "--by", "BO@example.com")

        history = tenantry("migrate", "history", "--json").data

        assert [one["triggeredBy"] for one in history["items"]] == ["bo@example.com", ADA]

    def test_needs_an_admin_to_name(self, alone: Commands):
        without = alone("migrate", "all")
        alone.create_admin()
        stranger = alone("migrate", "all", "--by", "stranger@example.com")
        alone.create_admin("bo@example.com")
        several = alone("migrate", "all")

        assert [one.status for one in (without, stranger, several)] == [2, 2, 2]
        assert "admin create" in only_line(without.stderr)
        assert "admin list" in only_line(stranger.stderr)
        assert "--by" in only_line(several.stderr)
        assert alone("migrate", "history", "--json").data["totalCount"] == 0

    @pytest.mark.parametrize("what", ["all", "plan"])
    def test_begins_nothing_when_the_revisions_cannot_be_read(self, alone: Commands, what: str):
        alone.create_admin()
        alone.create_tenant("acme")

        ended = alone("migrate", what, TENANTRY_TENANT_MIGRATIONS="nowhere")
        _write_two_heads(alone)
        forked = alone("migrate", what, **OURS)

        assert (ended.status, forked.status) == (3, 3)
        only_line(ended.stderr)
        assert "2 heads" in only_line(forked.stderr)
        assert alone("migrate", "history", "--json").data["totalCount"] == 0

    @pytest.mark.slow
    def test_stops_at_a_signal_and_leaves_the_rest_to_the_next(self, tenantry: Commands):
        tenantry.create_admin()
        for number in range(12):
            tenantry.create_tenant(f"tenant {number:02}")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(SLOWLY)}
        environment = {**tenantry.environment, **migrations, "TENANTRY_MIGRATE_CONCURRENCY": "1"}

        with running(tenantry.folder, "migrate", "all", "--json", **environment) as program:
            wait_until(lambda: ended_count(tenantry) > 0)
            status = program.end(signal.SIGINT)
        left = tenantry("migrate", "history", "--json").data["items"][0]

        assert status == 130
        assert program.stdout == ""
        assert left["id"] in only_line(program.stderr)
        assert left["finishedAt"] is None
        assert 0 < left["successCount"] < 12
        assert len(left["details"]) == left["successCount"]

        status = tenantry("migrate", "all", **migrations).status

        ended = tenantry("migrate", "show", left["id"], "--json").data
        assert status == 0
        assert ended["finishedAt"] is not None
        assert (ended["totalCount"], ended["successCount"]) == (12, 12)


@pytest.mark.slow
class TestMigrateResult:
    def test_as_json_has_the_id_that_retry_needs(self, tenantry: Commands):
        tenantry.create_admin()
        broken = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.break_tenant(broken)

        first = tenantry("migrate", "all", "--json", **migrations)
        retried = tenantry("migrate", "all", "--json", "--retry", first.data["runId"], **migrations)

        assert (first.status, retried.status) == (1, 1)
        assert [one["customerId"] for one in retried.data["details"]] == [broken["id"]]
        assert retried.data["runId"] != first.data["runId"]

    def test_counts_the_tenants_that_were_not_changed(self, alone: Commands):
        alone.create_admin()
        alone.create_tenant("acme")

        assert "1 of 1 tenant is at the head, 1 unchanged (" in alone("migrate", "all").stdout

    def test_fits_a_width_in_a_pipe_and_loses_nothing(self, alone: Commands):
        alone.create_admin()
        alone.create_tenant("acme")
        word = "x" * 300
        failing = CREATE_WIDGETS.replace(
            'op.create_table("widgets", sa.Column("id", sa.Integer, primary_key=True))',
            f'raise ValueError("{word}")',
        )
        migrations = {"TENANTRY_TENANT_MIGRATIONS": alone.migrations(failing)}

        ended = alone("migrate", "all", **migrations)
        shown = alone("migrate", "show")

        for printed in (ended.stdout, shown.stdout):
            assert max(len(line) for line in printed.splitlines()) <= 120
            assert not any(line.endswith(" ") for line in printed.splitlines())
        error = alone("migrate", "show", "--json").data["details"][0]["errorMessage"]
        assert _letters(error) in _letters(ended.stdout)


class TestMigrateHistory:
    @pytest.mark.slow
    def test_is_a_page_of_runs(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        for _ in range(3):
            tenantry("migrate", "all")

        page = tenantry("migrate", "history", "--page-size", "2", "--json").data
        rest = tenantry("migrate", "history", "--page", "2", "--page-size", "2", "--json").data

        assert set(page) == PAGE
        assert (page["pageSize"], page["totalCount"], page["totalPages"]) == (2, 3, 2)
        ids = [UUID(one["id"]) for one in (*page["items"], *rest["items"])]
        assert ids == sorted(ids, reverse=True)
        assert all(set(run) == RUN for run in page["items"])
        assert all(set(part) == RUN_DETAIL for run in page["items"] for part in run["details"])

    def test_prints_a_line_for_each_run(self, alone: Commands):
        alone.create_admin()
        alone("migrate", "all")

        ended = alone("migrate", "history")

        assert len(ended.stdout.splitlines()) == 2
        assert ADA in ended.stdout


class TestMigrateShow:
    @pytest.mark.slow
    def test_shows_one_run_with_its_tenants(self, tenantry: Commands):
        tenantry.create_admin()
        broken = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.break_tenant(broken)
        tenantry("migrate", "all", **migrations)
        run_id = tenantry("migrate", "history", "--json").data["items"][0]["id"]

        shown = tenantry("migrate", "show", run_id.upper(), "--json").data
        printed = tenantry("migrate", "show", run_id).stdout

        assert set(shown) == RUN
        statuses = [tenantry("migrate", "show", *one).status for one in ((), ("--watch",))]
        assert statuses == [1, 1]
        parts = {part["customerName"]: part for part in shown["details"]}
        assert parts["acme"]["status"] == "Failed"
        assert parts["acme"]["appliedMigrations"] == ""
        assert parts["globex"]["status"] == "Success"
        assert parts["globex"]["appliedMigrations"] == "0001_create_widgets"
        assert all(text in printed for text in (run_id, "acme", "globex", "0001_create_widgets"))

    @pytest.mark.parametrize("run_id", ["nonsense", "01890a5d-ac96-774b-bcce-b302099a8057"])
    def test_refuses_an_unknown_run(self, alone: Commands, run_id: str):
        alone.create_admin()

        ended = alone("migrate", "show", run_id)

        assert ended.status == 2
        assert "migrate history" in only_line(ended.stderr)

    def test_shows_the_newest_unless_one_is_named(self, alone: Commands):
        alone.create_admin()
        before = alone("migrate", "show")
        for _ in range(2):
            alone("migrate", "all")

        shown = alone("migrate", "show", "--json").data

        assert before.status == 2
        assert shown["id"] == alone("migrate", "history", "--json").data["items"][0]["id"]


class TestMigratePlan:
    @pytest.mark.slow
    def test_prints_what_is_pending_and_changes_nothing(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.create_tenant("globex")

        planned = tenantry("migrate", "plan", "--json", **migrations)
        printed = tenantry("migrate", "plan", "--rehearse", **migrations)
        again = tenantry("migrate", "plan", "--json", **migrations).data

        assert planned.status == printed.status == 0
        assert (planned.data["total"], planned.data["pending"]) == (2, 2)
        for one in planned.data["details"]:
            assert one["pendingMigrations"] == "0001_create_widgets"
            assert one["error"] is None
        assert "2 tenants rehearsed at " in printed.stdout
        assert "UTC, and rolled back: 2 passed, 0 at the head, 0 failed." in printed.stdout
        assert again["plan"]["digest"] == planned.data["plan"]["digest"]
        assert {**again, "plan": None} == {**planned.data, "plan": None}
        assert tenantry("migrate", "history", "--json").data["totalCount"] == 0

    def test_warns_of_statements(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        source = CREATE_WIDGETS.replace(
            "    op.create_table", "    op.execute('DELETE FROM gadgets')\n    op.create_table"
        )
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(source)}

        printed = tenantry("migrate", "plan", **migrations)
        (revision,) = tenantry("migrate", "plan", "--json", **migrations).data["revisions"]

        (found,) = revision["findings"]
        assert (found["rule"], found["statementNumber"]) == ("delete-without-where", 1)
        (line,) = [one for one in printed.stdout.splitlines() if "0001_create_widgets  " in one]
        assert line.split()[:2] == ["0001_create_widgets", "1"]
        assert found["message"] in " ".join(printed.stdout.split())
        assert printed.status == 0

    @pytest.mark.slow
    def test_ends_with_1_when_a_rehearsal_fails(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.break_tenant(tenantry.create_tenant("acme"))
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}

        ended = tenantry("migrate", "plan", "--rehearse", **migrations)

        assert ended.status == 1
        assert "acme" in ended.stdout
        assert "widgets" in ended.stdout
        assert ": 1 passed, 0 at the head, 1 failed." in ended.stdout
        assert "Add --passed-only to migrate the 1 that passed." in ended.stderr

    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_does_not_count_what_cannot_be_rehearsed_as_failed(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        source = CREATE_WIDGETS.replace(
            "    op.create_table",
            "    with op.get_context().autocommit_block():\n"
            "        op.execute('CREATE TABLE gadgets (id INTEGER)')\n"
            "    op.create_table",
        )
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(source)}

        ended = tenantry("migrate", "plan", "--rehearse", **migrations)
        data = tenantry("migrate", "plan", "--rehearse", "--json", **migrations).data

        assert ended.status == 0
        assert "Not rehearsed" in ended.stdout
        assert ": 0 passed, 0 at the head, 0 failed, 1 not rehearsed." in ended.stdout
        assert (data["pending"], data["failed"]) == (1, 0)
        assert "rehearsed" in data["details"][0]["error"]

    def test_inspects_only_the_named_tenants(self, alone: Commands):
        made = alone.create_tenant("acme")
        alone.create_tenant("globex")

        planned = alone("migrate", "plan", "--tenant", "ACME", "--json").data
        stranger = alone("migrate", "plan", "--tenant", "nobody")

        assert [one["customerId"] for one in planned["details"]] == [made["id"]]
        assert stranger.status == 2
        assert "tenant list" in only_line(stranger.stderr)


class TestMigrateWithPlan:
    @pytest.mark.slow
    def test_runs_what_was_planned_and_nothing_else(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.break_tenant(tenantry.create_tenant("acme"))
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        plan = ("migrate", "plan", "--rehearse", "--label", "trial", "--json")
        planned = tenantry(*plan, **migrations).data["plan"]
        file = Path(migrations["TENANTRY_TENANT_MIGRATIONS"], "versions/0001_create_widgets.py")
        file.write_text(CREATE_WIDGETS.replace("widgets", "gadgets"))

        start = ("migrate", "all", "--plan", planned["id"])
        changed = tenantry(*start, **migrations)
        file.write_text(CREATE_WIDGETS)
        passed = tenantry(*start, "--passed-only", "--json", **migrations)
        listed = tenantry("migrate", "plans")
        (item,) = tenantry("migrate", "plans", "--json").data["items"]
        shown = tenantry("migrate", "plans", planned["id"])
        detail = tenantry("migrate", "plans", planned["id"], "--json").data
        run = tenantry("migrate", "show", "--json").data

        assert (changed.status, "user:0001_create_widgets has changed" in changed.stderr) == (
            2,
            True,
        )
        assert (passed.status, passed.data["total"], passed.data["success"]) == (0, 1, 1)
        assert planned["id"] in listed.stdout
        assert (item["digest"], item["passedCount"], item["failedCount"]) == (
            planned["digest"],
            1,
            1,
        )
        assert item["runId"] == run["id"] == passed.data["runId"]
        assert ": 1 passed, 0 at the head, 1 failed" in shown.stdout
        assert "By this rehearsal, one process needs about" in shown.stdout
        assert {one["tenant"] for one in detail["slowest"]} == {"acme", "globex"}
        assert [one["customerName"] for one in detail["details"]] == ["acme", "globex"]
        assert (detail["causes"][0]["count"], run["planId"]) == (1, planned["id"])
        assert f"plan     {planned['id']}" in tenantry("migrate", "show").stdout

    def test_is_refused_without_one_that_exists_or_is_needed(self, alone: Commands):
        alone.create_admin()
        unknown = alone("migrate", "all", "--plan", str(UUID(int=1)))
        needed = alone("migrate", "all", TENANTRY_REQUIRE_PLAN="1")

        assert "There is no plan with this id" in only_line(unknown.stderr)
        assert "TENANTRY_REQUIRE_PLAN" in only_line(needed.stderr)
        assert unknown.status == needed.status == 2


class TestMigrateOptions:
    @pytest.mark.slow
    def test_skips_tenants_that_are_seen_at_the_head(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.break_tenant(tenantry.create_tenant("acme"))

        planned = tenantry("migrate", "plan", "--only-behind", "--json")
        ended = tenantry("migrate", "all", "--only-behind", "--json")

        assert (planned.status, planned.data["total"]) == (0, 0)
        assert (ended.status, ended.data["total"]) == (0, 0)

    @pytest.mark.slow
    def test_retries_those_that_failed(self, tenantry: Commands):
        tenantry.create_admin()
        broken = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.break_tenant(broken)
        tenantry("migrate", "all", **migrations)
        run_id = tenantry("migrate", "history", "--json").data["items"][0]["id"]

        again = tenantry("migrate", "all", "--retry", run_id, "--json", **migrations)

        assert again.status == 1
        assert [one["customerId"] for one in again.data["details"]] == [broken["id"]]

    @pytest.mark.slow
    def test_stops_between_waves_when_too_many_failed(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.break_tenant(tenantry.create_tenant("acme"))
        for number in range(3):
            tenantry.create_tenant(f"tenant {number}")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}

        ended = tenantry(
            *("migrate", "all", "--wave", "1", "--wave", "100%", "--max-failures", "0"),
            *("--label", "widgets for all"),
            **migrations,
        )
        shown = tenantry("migrate", "show").stdout

        assert ended.status == 1
        assert "0 of 4 tenants are at the head, 4 failed" in ended.stdout
        assert "not attempted: " in ended.stdout
        lines = [line.split() for line in ended.stdout.splitlines()]
        assert [line[0] for line in lines if line and line[0].isdigit()][:2] == ["1", "3"]
        assert all(
            one in shown
            for one in ("widgets for all", "1 (0 may fail) 4", "failures allowed", "stopped")
        )

    @pytest.mark.slow
    def test_stops_after_a_failed_canary_by_default(self, tenantry: Commands):
        """Also after an amount that is the first of several waves, unless more may fail."""
        tenantry.create_admin()
        for number in range(3):
            tenantry.create_tenant(f"tenant {number}")
        tenantry.break_tenant(tenantry.create_tenant("Canary"))
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        migrate = partial(tenantry, "migrate", "all", **migrations)

        named = migrate("--wave", "name=canary", "--wave", "100%")
        shown = tenantry("migrate", "show").stdout
        amount = migrate("--order", "name", "--wave", "1", "--wave", "100%", "--max-failures", "9")
        waves = ("--wave", "1", "--wave", "100%", "--wave-max-failures", "100%")
        kept = migrate("--order", "-size", *waves)

        assert named.status == amount.status == kept.status == 1
        assert "0 of 4 tenants are at the head, 4 failed" in named.stdout
        assert "1 (name=canary, 0 may fail) 4" in shown
        assert "one of wave 1 (name=canary) failed" in shown
        assert "one of wave 1 failed" in amount.stdout
        assert "3 of 4 tenants are at the head, 1 failed" in kept.stdout

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("--wave", "size>1"), "`waves`"),
            (("--order", "largest", "--wave", "1"), "`order`"),
            (("--wave-max-failures", "0"), "`waveMaxFailures`"),
            (("--wave", "0"), "`waves`"),
            (("--wave", "2", "--wave", "1"), "`waves`"),
            (("--wave", "many"), "`waves`"),
            (("--max-failures", "-1"), "`maxFailures`"),
            (("--max-failures", "101%"), "`maxFailures`"),
            (("--label", "two\nlines"), "`label`"),
            (("--retry", "nonsense"), "migrate history"),
            (("--retry", "01890a5d-ac96-774b-bcce-b302099a8057"), "migrate history"),
            (("--tenant", "nobody"), "tenant list"),
        ],
    )
    def test_must_keep_the_rules(self, alone: Commands, arguments: tuple[str, ...], said: str):
        alone.create_admin()

        ended = alone("migrate", "all", *arguments)

        assert ended.status == 2
        assert said in only_line(ended.stderr)
        assert alone("migrate", "history", "--json").data["totalCount"] == 0


class TestMigrateCancel:
    @pytest.mark.slow
    def test_starts_no_further_tenant(self, tenantry: Commands):
        tenantry.create_admin()
        for number in range(12):
            tenantry.create_tenant(f"tenant {number:02}")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(SLOWLY)}
        environment = {**tenantry.environment, **migrations, "TENANTRY_MIGRATE_CONCURRENCY": "1"}

        with running(tenantry.folder, "migrate", "all", "--json", **environment) as program:
            wait_until(lambda: ended_count(tenantry) > 0)
            run_id = tenantry("migrate", "history", "--json").data["items"][0]["id"]
            cancelled = tenantry("migrate", "cancel", run_id)
            watched = tenantry("migrate", "show", "--watch", "--json")
            status = program.process.wait(40)

        assert cancelled.status == 0
        assert status == watched.status == 1
        assert watched.data["id"] == run_id
        errors = {one["errorMessage"] for one in watched.data["details"]}
        assert errors == {None, "not attempted: run cancelled"}
        again = tenantry("migrate", "cancel", run_id)
        assert again.status == 2
        assert "ended" in only_line(again.stderr)

    @pytest.mark.parametrize("run_id", ["nonsense", "01890a5d-ac96-774b-bcce-b302099a8057"])
    def test_refuses_an_unknown_run(self, alone: Commands, run_id: str):
        ended = alone("migrate", "cancel", run_id)

        assert ended.status == 2
        assert "migrate history" in only_line(ended.stderr)


class TestMigrateContinue:
    @pytest.mark.slow
    def test_starts_the_next_wave_and_says_what_to_do_next(self, tenantry: Commands):
        tenantry.create_admin()
        for name in ("acme", "globex", "hooli"):
            tenantry.create_tenant(name)
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        waves = ("--wave", "1", "--wave", "2", "--wave", "100%")

        both = tenantry("migrate", "all", *waves, "--hold", "--hold-check", **migrations)
        held = tenantry("migrate", "all", *waves, "--hold", **migrations)
        run_id = tenantry("migrate", "history", "--json").data["items"][0]["id"]
        other = tenantry("migrate", "all", **migrations)
        shown = tenantry("migrate", "show")
        status = tenantry("migrate", "status", **migrations)
        first = tenantry("migrate", "continue", run_id, "--wave", "1", "--json", **migrations)
        again = tenantry("migrate", "continue", run_id, "--wave", "1", **migrations)
        last = tenantry("migrate", "continue", run_id, "--wave", "2", **migrations)

        assert (both.status, other.status, again.status) == (2, 2, 2)
        assert f"waits in the migration run {run_id}" in only_line(other.stderr)
        assert held.status == first.status == 4
        assert "1 of 3 tenants are at the head. The run is holding: Wave 1 of 3" in held.stdout
        assert f"Continue: `tenantry migrate continue {run_id} --wave 1`." in held.stderr
        assert f"Stop: `tenantry migrate cancel {run_id}`." in held.stderr
        assert "holding" in shown.stdout
        assert f"Holding: {run_id}, 1 of 3 tenants" in status.stdout
        assert (first.data["success"], first.data["holdingWave"]) == (2, 2)
        assert "not holding after this wave" in only_line(again.stderr)
        assert "`tenantry migrate continue RUN` does" in again.stderr
        assert (last.status, "3 of 3 tenants" in last.stdout) == (0, True)


class TestPageSize:
    def test_above_the_maximum_means_the_maximum(self, alone: Commands):
        alone.create_admin()

        page = alone("migrate", "history", "--page-size", "101", "--json").data

        assert page["pageSize"] == 100


class TestMigrateNew:
    def test_begins_a_history(self, alone: Commands):
        made = alone("migrate", "new", "-m", "Create the orders", "--json", **OURS).data

        path = alone.folder / "ours" / "versions" / "0001_create_the_orders.py"
        assert made == {
            "revision": "0001",
            "name": "0001_create_the_orders",
            "path": str(path.relative_to(alone.folder)),
        }
        assert '"""Create the orders"""' in path.read_text()
        assert "down_revision = None" in path.read_text()

    def test_goes_on_where_the_newest_one_is(self, alone: Commands):
        first = Path(alone("migrate", "new", "-m", "first", **OURS).stdout.strip())
        (first.parent / "2026").mkdir()
        first.rename(first.parent / "2026" / first.name)

        shown = alone("migrate", "new", "-m", "second: more!", **OURS)

        assert shown.stdout == "ours/versions/2026/0002_second_more.py\n"
        assert 'down_revision = "0001"' in Path(shown.stdout.strip()).read_text()

    def test_names_as_alembic_does_where_alembic_has_named(self, alone: Commands):
        versions = alone.folder / "ours" / "versions"
        versions.mkdir(parents=True)
        (versions / "a1b2c3d4e5f6_x.py").write_text(
            'revision = "a1b2c3d4e5f6"\ndown_revision = None\ndef upgrade(): pass\n'
        )

        made = alone("migrate", "new", "-m", "next", "--json", **OURS).data

        assert re.fullmatch(r"[0-9a-f]{12}", made["revision"])
        assert 'down_revision = "a1b2c3d4e5f6"' in Path(made["path"]).read_text()

    def test_is_a_file_of_sql_where_the_others_are(self, alone: Commands):
        (alone.folder / "ours").mkdir()
        (alone.folder / "ours" / "0001_orders.sql").write_text("CREATE TABLE orders (id integer);")

        checked = alone("doctor", "--json", **OURS).data
        shown = alone("migrate", "new", "-m", "second: more!", **OURS)

        details = {one["check"]: one["detail"] for one in checked["items"]}
        assert details["your revisions"] == "1, the head is 0001."
        assert details["your project"] == "Plain SQL: its *.sql files are the revisions."
        assert shown.stdout == "ours/0002_second_more.sql\n"
        assert Path(shown.stdout.strip()).read_text() == "-- second: more!\n"
        ended = alone("migrate", "new", "-m", "third", **OURS)
        assert "0002_second_more.sql, line 1: it has no statement." in ended.stderr

    @pytest.mark.slow
    def test_fails_every_tenant_until_it_is_filled_in(self, tenantry: Commands):
        """An empty revision must not count as applied."""
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        tenantry("migrate", "new", "-m", "orders", **OURS)

        empty = tenantry("migrate", "all", "--json", **OURS).data
        path = tenantry.folder / "ours" / "versions" / "0001_orders.py"
        path.write_text(
            path.read_text().replace(
                "raise NotImplementedError",
                'op.create_table("orders", sa.Column("id", sa.Integer, primary_key=True))',
            )
        )
        filled = tenantry("migrate", "all", "--json", **OURS).data

        assert "0001_orders" in empty["details"][0]["error"]
        assert (filled["success"], filled["failed"]) == (1, 0)

    @pytest.mark.parametrize(
        "message", ["", "!", "two\nlines", 'a "quoted" one', "back\\slash", "雨"]
    )
    def test_needs_a_message_that_names_a_file(self, alone: Commands, message: str):
        ended = alone("migrate", "new", "-m", message, **OURS)

        assert ended.status == 2
        assert "message" in only_line(ended.stderr)
        assert not (alone.folder / "ours").exists()

    def test_needs_to_know_where(self, alone: Commands):
        ended = alone("migrate", "new", "-m", "orders")

        assert ended.status == 2
        assert "TENANTRY_TENANT_MIGRATIONS" in only_line(ended.stderr)

    def test_follows_one_head(self, alone: Commands):
        _write_two_heads(alone)

        ended = alone("migrate", "new", "-m", "orders", **OURS)

        assert ended.status == 3
        assert "merge" in only_line(ended.stderr)


def _letters(text: str) -> str:
    """Return *text* without the spaces at which a table breaks it."""
    return "".join(text.split())


def _write_two_heads(tenantry: Commands) -> None:
    versions = tenantry.folder / "ours" / "versions"
    versions.mkdir(parents=True)
    for name in ("0001", "0002"):
        (versions / f"{name}.py").write_text(
            f'revision = "{name}"\ndown_revision = None\ndef upgrade(): pass\n'
        )
