"""``tenantry tenant attach`` and ``detach``: what they ask for, and what they say."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.settings import Settings
from testkit import raw_sql
from testkit.forked import run
from testkit.programs import variables
from testkit.revisions import AlembicFolder
from tests.acceptance.commands import ADA, TENANT
from tests.conftest import HEAD
from tests.conftest import PASSWORD as ADMIN_PASSWORD

pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]
PASSWORD = "not-to-be-seen"


@pytest.fixture(name="tenantry")
def _tenantry(settings: Settings, tmp_path: Path) -> Command:
    """Runs ``tenantry`` with a project of one table; its standard input is a text."""
    folder = AlembicFolder(tmp_path / "alembic")
    folder.add("u1_note", "op.create_table('note', sa.Column('id', sa.Integer))")

    def attaching(*arguments: str, said: str = "") -> "subprocess.CompletedProcess[str]":
        given = {**variables(settings), "TENANTRY_TENANT_MIGRATIONS": str(folder.path)}
        return run(tmp_path, *arguments, stdin=said, **given)

    return attaching


def test_attach_migrate_show_and_detach(tenantry: Command, new_database: Callable[[], str]):
    url = new_database()
    secret = url.replace("postgres@", f"postgres:{PASSWORD}@")
    admin = tenantry("admin", "create", ADA, "--password-stdin", said=f"{ADMIN_PASSWORD}\n")
    said = [admin]
    if secret != url:
        refused = tenantry("tenant", "attach", "legacy", "--url", secret)
        assert (refused.returncode, "--url -" in refused.stderr) == (2, True)
        said.append(refused)
    attach = ("tenant", "attach", "legacy", "--url", "-", "--label", "ring=last")
    added = tenantry(*attach, said=f"{secret}\n")
    assert "attached, active" in added.stdout, added.stderr
    replaced = tenantry(*attach[:5], "--replace", said=f"{secret}\n")
    assert replaced.stdout == "The URL of legacy was replaced.\n", replaced.stderr
    labelled = tenantry(*attach, "--replace", said=f"{secret}\n")
    assert "tenantry tenant label" in labelled.stderr
    migrated = tenantry("migrate", "all", "--where", "ring = last")
    assert migrated.returncode == 0, migrated.stderr
    shown = tenantry("tenant", "show", "legacy", "--json")
    found = json.loads(shown.stdout)
    assert found.keys() >= TENANT
    assert (found["isAttached"], found["schemaRevision"]) == (True, f"{HEAD}/u1")
    key = tenantry("key", "create", "legacy")
    assert "attached database" in key.stderr
    suspended = tenantry("tenant", "suspend", "legacy")
    assert "attached, suspended" in suspended.stdout
    deleted = tenantry("tenant", "delete", "legacy", "--name", "legacy")
    assert "tenantry tenant detach" in deleted.stderr
    detached = tenantry("tenant", "detach", "legacy")
    assert detached.stdout == "legacy is detached; its database is unchanged.\n"
    said += [added, replaced, labelled, migrated, shown, key, suspended, deleted, detached]
    assert PASSWORD not in "".join(one.stdout + one.stderr for one in said)
    assert "note" in raw_sql.tables(url)


def test_without_revisions_it_says_what_to_do(
    settings: Settings, tmp_path: Path, new_database: Callable[[], str]
):
    attach = ("tenant", "attach", "x", "--url", new_database())
    done = run(tmp_path, *attach, **variables(settings))
    assert done.returncode != 0
    assert "TENANTRY_TENANT_MIGRATIONS" in done.stderr
    assert "tenantry fleet" in done.stderr
