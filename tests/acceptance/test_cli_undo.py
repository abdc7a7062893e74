"""``tenantry migrate undo``."""

import pytest

from tests.acceptance.commands import Commands

UNDOABLE = """revision = "0001_widgets"
down_revision = None


def upgrade(op):
    op.execute("CREATE TABLE widget (id INTEGER PRIMARY KEY)")


def downgrade(op):
    op.execute("DROP TABLE widget")
"""


class TestCommand:
    @pytest.mark.slow
    def test_undo_is_planned_started_and_shown(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        mine = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(UNDOABLE)}
        tenantry("migrate", "all", "--where", "name=globex", **mine)
        run_id = tenantry("migrate", "all", "--json", **mine).data["runId"]

        dry = tenantry("migrate", "undo", run_id, "--dry-run", **mine)
        other = tenantry("migrate", "undo", run_id, "--where", "name=other", "--dry-run", **mine)
        of_acme = ("migrate", "undo", run_id, "--where", "name=acme", "--rehearse", "--json")
        rehearsed = tenantry(*of_acme, **mine).data
        result = tenantry("migrate", "undo", run_id, "--plan", rehearsed["plan"]["id"], **mine)
        twice = tenantry("migrate", "undo", run_id, **mine)
        shown = tenantry("migrate", "show", **mine)
        before = tenantry("migrate", "show", run_id, **mine)
        listed = tenantry("migrate", "history", **mine)

        assert (other.status, "selects nothing" in other.stderr) == (2, True)
        assert dry.status == 0
        assert "table widget" in dry.stdout
        assert f"tenantry migrate undo {run_id} --plan" in dry.stderr
        assert result.status == 0
        assert twice.status == 2
        assert "No active, writable and selected tenant" in twice.stderr
        assert "undoes" in shown.stdout
        assert run_id in shown.stdout
        undo_id = shown.stdout.split()[1]
        assert f"{undo_id}, success" in before.stdout
        lines = [line for line in listed.stdout.splitlines() if line[:36] in (undo_id, run_id)]
        assert ["an undo" in lines[0], "  undone  " in lines[1]] == [True, True]
