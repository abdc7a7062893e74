"""The commands that manage tenants, users, credentials, admins and the audit log."""

import asyncio
import json
import os
import pty
import pwd
import re
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.app import app_over
from tenantry.kit.context import system_context
from tenantry.schemas.credentials import configurations
from tenantry.services import open_services
from testkit.forked import run_module
from testkit.programs import environment_of, only_line, running
from testkit.raw_sql import rows, run
from tests.acceptance.commands import (
    ADA,
    CREATE_WIDGETS,
    OTHER_KEY,
    PAGE,
    SLOWLY,
    TENANT,
    UNREACHABLE,
    Commands,
    at_a_terminal,
    wait_until,
)
from tests.conftest import PASSWORD, client_of

ROOT = Path(__file__).parents[2]
UNKNOWN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
OWNER = "owner@example.com"
BOB = "bob@example.com"
ANOTHER = "another fine password"
ENTRY = {
    "id",
    "at",
    "lastAt",
    "count",
    "actor",
    "action",
    "target",
    "tenantId",
    "address",
    "command",
    "changes",
    "requestId",
}
NAMING = {
    "tenant create": ("tenant", "create", "{}", "--owner-email", OWNER),
    "tenant rename": ("tenant", "rename", "acme", "{}"),
    "user create": ("user", "create", "acme", BOB, "--full-name", "{}"),
    "user e-mail": ("user", "create", "acme", "bob{}@example.com", "--full-name", "Bob"),
    "token issue": ("token", "issue", "acme", "--name", "{}"),
    "migrate all": ("migrate", "all", "--label", "{}"),
    "admin create": ("admin", "create", "bob{}@example.com"),
}
ME = f"cli:{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"
USER = {"id", "email", "fullName", "isActive", "createdAt", "role"}
KEY = {"id", "prefix", "createdAt", "lastUsedAt", "expiresAt"}
LINK = {"id", "userId", "email", "role", "createdAt", "expiresAt"}
TOKEN = KEY | {"name", "userId", "scopes"}
POSTS = "/api/public/blog/posts"
PROFILE = "/api/tenant/auth/profile"
NAME_ASKED = "The tenant can be undeleted for 7 days. Type `acme` to confirm: "
PURGE_ASKED = (
    "This removes the tenant and its database and cannot be undone. Type `acme` to confirm: "
)


class TestLabels:
    def test_are_set_and_removed_one_by_one(self, tenantry: Commands):
        acme = tenantry.create_tenant("acme")["id"]
        tenantry.create_tenant("globex")

        made = tenantry("tenant", "label", "acme", "plan=free", "canary=yes", "--json").data
        assert made["labels"] == {"canary": "yes", "plan": "free"}
        made = tenantry("tenant", "label", acme, "plan=pro", "canary-", "--json").data
        assert made["labels"] == {"plan": "pro"}
        assert "labels               plan=pro\n" in tenantry("tenant", "show", "acme").stdout

        found = tenantry("tenant", "list", "--where", "plan=pro", "--json").data
        assert [one["name"] for one in found["items"]] == ["acme"]

    def test_that_are_wrong_are_refused(self, tenantry: Commands):
        tenantry.create_tenant("acme")

        for change in ("plan", "plan-", "Plan=x", "plan=", "server=eu"):
            assert tenantry("tenant", "label", "acme", change).status == 2, change
        assert tenantry("tenant", "list", "--where", "plan=").status == 2
        assert tenantry("tenant", "list", "--where", "plan=x", "--deleted").status == 2
        assert tenantry("tenant", "show", "acme", "--json").data["labels"] == {}

    def test_are_given_at_the_creation_and_imported_from_a_file(
        self, tenantry: Commands, tmp_path: Path
    ):
        labels = ("--label", "plan=free", "--label", "region=eu", "--json")
        made = tenantry("tenant", "create", "acme", "--owner-email", OWNER, *labels).data
        assert made["labels"] == {"plan": "free", "region": "eu"}
        file = tmp_path / "labels.csv"
        file.write_text("name,plan,region\nacme,pro,-\n")

        ended = tenantry("tenant", "label", "--from", str(file), "--json").data
        assert ended == {"total": 1, "changed": 1}
        again = tenantry("tenant", "label", "--from", "-", stdin=file.read_text())
        assert again.stdout == "0 of 1 tenants have other labels now.\n"
        assert tenantry("tenant", "show", "acme", "--json").data["labels"] == {"plan": "pro"}

        file.write_text("name,plan\nnobody,pro\n")
        refused = tenantry("tenant", "label", "--from", str(file))
        assert (refused.status, "Line 2: there is no tenant nobody" in refused.stderr) == (2, True)
        for wrong in (("acme",), ("acme", "plan=x", "--from", str(file)), ()):
            assert tenantry("tenant", "label", *wrong).status == 2
        assert tenantry("tenant", "label", "--from", str(tmp_path / "none.csv")).status == 3

    def test_select_the_tenants_of_a_run(self, tenantry: Commands):
        tenantry.create_admin()
        for name in ("acme", "globex"):
            tenantry.create_tenant(name)
        tenantry("tenant", "label", "acme", "plan=free")

        planned = tenantry("migrate", "plan", "--where", "plan=free", "--json").data
        ended = tenantry("migrate", "all", "--where", "plan=free", "--json").data

        assert [one["customerName"] for one in planned["details"]] == ["acme"]
        assert [one["customerName"] for one in ended["details"]] == ["acme"]


class TestTenantSuspend:
    @pytest.mark.slow
    def test_refuses_requests_until_it_is_activated(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        key = {"X-Api-Key": made["apiKey"]}

        suspended = tenantry("tenant", "suspend", "ACME", "--json").data
        while_suspended = _asked(tenantry, POSTS, key).status_code
        activated = tenantry("tenant", "activate", made["id"], "--json").data

        assert set(suspended) == TENANT
        assert (suspended["isActive"], activated["isActive"]) == (False, True)
        assert while_suspended == 403
        assert _asked(tenantry, POSTS, key).status_code == 200

    def test_prints_the_tenant(self, alone: Commands):
        alone.create_tenant("acme")

        ended = alone("tenant", "suspend", "acme")

        assert re.search(r"^state +suspended$", ended.stdout, re.MULTILINE)
        assert "tenant list" in only_line(alone("tenant", "suspend", "globex").stderr)


class TestTenantReadOnly:
    @pytest.mark.slow
    def test_rejects_writes_until_the_tenant_is_activated(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        key = {"X-Api-Key": made["apiKey"]}
        create = ("user", "create", "acme", BOB, "--full-name", "Bob")

        changed = tenantry("tenant", "read-only", "ACME", "--json").data
        read = _asked(tenantry, POSTS, key).status_code
        rejected = tenantry(*create, password=ANOTHER)
        listed = tenantry("tenant", "list")
        activated = tenantry("tenant", "activate", "acme", "--json").data

        assert (changed["isActive"], changed["isReadOnly"], read) == (True, True, 200)
        assert rejected.status == 2
        assert "tenantry tenant activate" in only_line(rejected.stderr)
        assert "read-only" in listed.stdout
        assert (activated["isActive"], activated["isReadOnly"]) == (True, False)
        assert tenantry(*create, password=ANOTHER).status == 0

    def test_makes_a_suspended_tenant_accessible(self, alone: Commands):
        alone.create_tenant("acme")
        alone("tenant", "suspend", "acme")

        ended = alone("tenant", "read-only", "acme")

        assert re.search(r"^state +read-only$", ended.stdout, re.MULTILINE)


@pytest.mark.slow
class TestTenantActivate:
    def test_brings_the_tenant_to_the_head_first(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        tenantry("tenant", "suspend", "acme")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}

        activated = tenantry("tenant", "activate", "acme", "--json", **migrations).data

        assert activated["schemaRevision"] == f"{made['schemaRevision']}/w1"

    def test_ends_with_1_when_it_cannot(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        tenantry("tenant", "suspend", "acme")
        tenantry.break_tenant(made)
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}

        ended = tenantry("tenant", "activate", "acme", **migrations)

        assert (ended.status, ended.stdout) == (1, "")
        assert "widgets" in only_line(ended.stderr)
        assert tenantry("tenant", "show", "acme", "--json").data["isActive"] is False


class TestTenantRename:
    def test_changes_the_name_alone(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")

        renamed = tenantry("tenant", "rename", "acme", "Acme Ltd", "--json").data

        assert renamed == {**_without_secrets(made), "name": "Acme Ltd"}
        assert tenantry("tenant", "show", "acme").status == 2

    def test_refuses_a_name_that_is_taken(self, alone: Commands):
        for name in ("acme", "globex"):
            alone.create_tenant(name)

        ended = alone("tenant", "rename", "acme", "GLOBEX")

        assert ended.status == 2
        only_line(ended.stderr)


class TestTenantSetModules:
    @pytest.mark.slow
    def test_activates_those_that_are_named_and_no_other(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        key = {"X-Api-Key": made["apiKey"]}

        without = tenantry("tenant", "set-modules", "acme", "mcp", "--json").data
        blocked = _asked(tenantry, POSTS, key).status_code
        none = tenantry("tenant", "set-modules", "acme", "--none", "--json").data
        both = tenantry("tenant", "set-modules", "acme", "mcp", "blog", "--json").data

        assert (without["modules"], none["modules"]) == (["mcp"], [])
        assert both["modules"] == ["blog", "mcp"]
        assert blocked == 403
        assert _asked(tenantry, POSTS, key).status_code == 200

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [((), "--none"), (("blog", "--none"), "--none"), (("x",), "blog, mcp")],
    )
    def test_needs_modules_or_none(self, alone: Commands, arguments: tuple[str, ...], said: str):
        made = alone.create_tenant("acme")

        ended = alone("tenant", "set-modules", "acme", *arguments)

        assert ended.status == 2
        assert said in only_line(ended.stderr)
        assert alone("tenant", "show", "acme", "--json").data["modules"] == made["modules"]


class TestTenantDelete:
    @pytest.mark.slow
    def test_takes_a_suspended_tenant_with_its_exact_name(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")

        active = tenantry("tenant", "delete", "acme", "--name", "acme")
        tenantry("tenant", "suspend", "acme")
        misnamed = tenantry("tenant", "delete", "acme", "--name", "ACME")
        deleted = tenantry("tenant", "delete", made["id"], "--name", "acme", "--json")

        assert (active.status, misnamed.status) == (2, 2)
        assert "tenant suspend" in only_line(active.stderr)
        assert "tenant show" in only_line(misnamed.stderr)
        assert "It can be undeleted until 20" in deleted.data["message"]
        assert _database_exists(tenantry, made["databaseName"])
        assert tenantry("tenant", "show", "acme").status == 2
        assert tenantry.create_tenant("acme")["id"] != made["id"]

    @pytest.mark.slow
    def test_refuses_an_active_tenant_before_it_asks(self, alone: Commands):
        alone.create_tenant("acme")

        shown, status = at_a_terminal(alone.folder, ["tenant", "delete", "acme"], {})

        assert status == 2
        assert "Type" not in shown
        assert "tenant suspend" in shown

    def test_needs_the_name(self, alone: Commands):
        alone.create_tenant("acme")
        alone("tenant", "suspend", "acme")

        ended = alone("tenant", "delete", "acme")

        assert ended.status == 2
        assert "--name" in only_line(ended.stderr)
        assert alone("tenant", "list", "--json").data["totalCount"] == 1

    @pytest.mark.slow
    def test_asks_at_a_terminal(self, alone: Commands):
        alone.create_tenant("acme")
        alone("tenant", "suspend", "acme")
        asked = ["tenant", "delete", "ACME"]

        refused, refused_status = at_a_terminal(alone.folder, asked, {NAME_ASKED: "ACME"})
        deleted, status = at_a_terminal(alone.folder, asked, {NAME_ASKED: "acme"})

        assert (refused_status, status) == (2, 0)
        assert "exact name" in refused
        assert "The tenant was deleted." in deleted
        assert alone("tenant", "list", "--json").data["totalCount"] == 0

    def test_with_zero_days_cannot_be_undone(self, alone: Commands):
        made = alone.create_tenant("acme")
        alone("tenant", "suspend", "acme")

        ended = alone(
            "tenant", "delete", "acme", "--name", "acme", "--json", TENANTRY_DELETED_DAYS="0"
        )

        assert ended.data == {"message": "The tenant was deleted."}
        assert not _database_exists(alone, made["databaseName"])
        assert alone("tenant", "undelete", "acme").status == 2


@pytest.mark.slow
class TestTenantUndelete:
    def test_restores_a_deleted_tenant(self, tenantry: Commands):
        made = _deleted(tenantry)
        key = {"X-Api-Key": made["apiKey"]}
        rejected = _asked(tenantry, POSTS, key).status_code
        listed = tenantry("tenant", "list", "--deleted")

        restored = tenantry("tenant", "undelete", "acme", "--json").data
        tenantry("tenant", "activate", "acme")

        assert rejected == 401
        assert made["id"] in listed.stdout
        assert (restored["id"], restored["isActive"]) == (made["id"], False)
        assert _asked(tenantry, POSTS, key).status_code == 200
        assert tenantry("tenant", "list", "--deleted", "--json").data["items"] == []

    def test_takes_a_new_name(self, alone: Commands):
        made = _deleted(alone)
        alone.create_tenant("acme")

        taken = alone("tenant", "undelete", made["id"])
        renamed = alone("tenant", "undelete", made["id"], "--name", "acme 2")

        assert taken.status == 2
        assert "--name" in only_line(taken.stderr)
        assert "acme 2" in renamed.stdout

    def test_of_an_ambiguous_name_needs_the_id(self, alone: Commands):
        first, second = _deleted(alone), _deleted(alone)

        ended = alone("tenant", "undelete", "acme")

        assert ended.status == 2
        assert "--deleted" in only_line(ended.stderr)
        listed = alone("tenant", "list", "--deleted", "--json").data
        assert {one["id"] for one in listed["items"]} == {first["id"], second["id"]}
        assert set(listed["items"][0]) == {
            "id",
            "name",
            "databaseName",
            "createdAt",
            "deletedAt",
            "purgedAfter",
        }


@pytest.mark.slow
class TestSecretRotate:
    def test_replaces_the_secret_key(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        old = tenantry.settings.secret_key.get_secret_value()
        old = old or (tenantry.settings.data_dir / "secret-key").read_text()
        both = {"TENANTRY_SECRET_KEY": OTHER_KEY, "TENANTRY_SECRET_KEY_OLD": old}

        alone_ = tenantry("secret", "rotate")
        warned = tenantry("doctor", "--json", **both).data
        rotated = tenantry("secret", "rotate", "--json", **both)
        with_new = tenantry("tenant", "show", "acme", "--json", TENANTRY_SECRET_KEY=OTHER_KEY)
        with_old = tenantry("tenant", "show", "acme")

        assert alone_.status == 2
        assert "TENANTRY_SECRET_KEY_OLD" in only_line(alone_.stderr)
        assert "tenantry secret rotate" in str(warned)
        assert rotated.data == {"resealed": 1}
        assert with_new.data["id"] == made["id"]
        assert with_old.status == 3
        assert old not in rotated.stdout + rotated.stderr


@pytest.mark.slow
class TestTenantPurge:
    def test_removes_a_deleted_tenant(self, tenantry: Commands):
        made = _deleted(tenantry)

        misnamed = tenantry("tenant", "purge", made["id"], "--name", "ACME")
        purged = tenantry("tenant", "purge", made["id"], "--name", "acme", "--json")

        assert misnamed.status == 2
        assert purged.data == {"message": "The tenant was purged."}
        assert not _database_exists(tenantry, made["databaseName"])
        assert tenantry("tenant", "undelete", made["id"]).status == 2

    def test_removes_also_what_a_killed_one_has_left(self, alone: Commands):
        """No other process is there to clean up."""
        made = _deleted(alone)
        purge = ["tenant", "purge", "acme", "--name", "acme"]
        place = ("tenantry.fleet.deletion", "clear")
        killed = run_module(
            *("tests.acceptance.killed", "before", *place, *purge),
            folder=ROOT,
            environment=environment_of(TENANTRY_DATA_DIR=str(alone.settings.data_dir)),
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        left = _database_exists(alone, made["databaseName"])
        run(alone.settings.catalog, "DELETE FROM worker")  # as after some seconds of silence

        repeated = alone(*purge)

        assert left
        assert repeated.status == 2, "there is nothing to purge any more"
        assert not _database_exists(alone, made["databaseName"])

    def test_asks_at_a_terminal(self, alone: Commands):
        _deleted(alone)

        purged, status = at_a_terminal(
            alone.folder, ["tenant", "purge", "acme"], {PURGE_ASKED: "acme"}
        )

        assert status == 0
        assert "The tenant was purged." in purged


class TestTenantCreate:
    @pytest.mark.slow
    def test_needs_only_a_name_and_an_address(self, tenantry: Commands):
        made = tenantry("tenant", "create", "acme", "--owner-email", "o.wner@example.com", "--json")

        assert made.data["owner"]["fullName"] == "o.wner"
        assert len(made.data["ownerPassword"]) >= 20
        password = made.data["ownerPassword"]
        assert _logs_in(tenantry, made.data, "o.wner@example.com", password)

    @pytest.mark.parametrize("words", ["create", "adopt"])
    def test_can_be_repeated_after_it_was_killed(self, alone: Commands, words: str, tmp_path: Path):
        """No other process is there to clean up."""
        asked = ["tenant", words, "acme", "--owner-email", OWNER]
        asked += ["--database", _file(tmp_path), "--stamp", "base"] if words == "adopt" else []
        place = ("tenantry.tenant.users", "create" if words == "adopt" else "add")
        killed = run_module(
            *("tests.acceptance.killed", "before", *place, *asked),
            folder=ROOT,
            environment=environment_of(TENANTRY_DATA_DIR=str(alone.settings.data_dir)),
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        run(alone.settings.catalog, "DELETE FROM worker")  # as after some seconds of silence

        repeated = alone(*asked, "--json")

        assert repeated.status == 0, repeated.stderr
        assert repeated.data["name"] == "acme"

    def test_takes_the_server_that_is_named(self, alone: Commands):
        owner = ("--owner-email", OWNER, "--owner-name", "The Owner")
        servers = {"TENANTRY_TENANT_SERVERS": json.dumps({"eu": f"sqlite:///{alone.folder}/eu"})}
        asked = ("tenant", "create", "acme", *owner, "--json")

        made = alone(*asked, "--server", "eu", password=PASSWORD, **servers).data
        unknown = alone(*asked, "--server", "us", password=PASSWORD, **servers)

        assert list(Path("eu").rglob(f"{made['databaseName']}.db"))
        assert unknown.status == 2
        assert "TENANTRY_TENANT_SERVERS" in only_line(unknown.stderr)


def _file(folder: Path) -> str:
    """Return the path of a SQLite file with a table."""
    path = folder / "existing.db"
    path.touch()
    run(f"sqlite:///{path}", "CREATE TABLE thing (id INTEGER PRIMARY KEY)")
    return str(path)


@pytest.mark.slow
class TestNames:
    def test_have_no_invisible_characters(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")

        for what, arguments in NAMING.items():
            named = [one.format("A\u200bB") for one in arguments]
            takes_password = what.endswith(("create", "e-mail"))
            ended = tenantry(*named, password=ANOTHER if takes_password else None)

            assert ended.status == 2, (what, ended)
            assert "U+200B" in ended.stderr or "e-mail" in ended.stderr, (what, ended)


class TestUser:
    @pytest.mark.slow
    def test_is_created_and_listed(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")

        bob = _create_bob(tenantry)
        page = tenantry("user", "list", made["id"], "--json").data
        second = tenantry("user", "list", "acme", "--page", "2", "--page-size", "1", "--json").data

        assert set(bob) == USER
        assert (bob["email"], bob["fullName"], bob["isActive"]) == (BOB, "Bob", True)
        assert set(page) == PAGE
        assert page["items"] == [{**made["owner"], "role": "owner"}, bob]
        assert second["items"] == [bob]
        assert _logs_in(tenantry, made, BOB, PASSWORD)
        inside = ("audit", "list", "--inside", "acme", "--action", "user.create", "--json")
        audited = tenantry(*inside).data["items"]
        assert [one["target"] for one in audited] == [bob["id"], made["owner"]["id"]]
        assert audited[0]["command"] == "tenantry user create"

    @pytest.mark.slow
    @pytest.mark.parametrize("email", [BOB.upper(), None])
    def test_gets_a_new_password(self, tenantry: Commands, email: str | None):
        made = tenantry.create_tenant("acme")
        bob = _create_bob(tenantry)

        changed = tenantry(
            "user", "reset-password", "acme", email or bob["id"], "--json", password=ANOTHER
        ).data

        assert changed == bob
        assert not _logs_in(tenantry, made, BOB, PASSWORD)
        assert _logs_in(tenantry, made, BOB, ANOTHER)
        inside = ("audit", "list", "--inside", "acme", "--action", "user.update", "--json")
        [audited] = tenantry(*inside).data["items"]
        assert audited["changes"] == [{"field": "password"}]

    def test_is_shown_as_text(self, alone: Commands):
        alone.create_tenant("acme")

        made = alone("user", "create", "acme", BOB, "--full-name", "Bob", password=PASSWORD)
        listed = alone("user", "list", "acme").stdout

        assert made.status == 0
        assert BOB in made.stdout
        assert PASSWORD not in made.stdout + made.stderr
        assert all(text in listed for text in (OWNER, BOB, "The Owner", "Bob"))

    def test_has_the_role_that_is_set(self, alone: Commands):
        alone.create_tenant("acme")
        new = ("user", "create", "acme", BOB, "--full-name", "Bob", "--json")
        author = alone(*new, "--role", "author", password=PASSWORD).data

        reader = alone("user", "set-role", "acme", BOB, "reader", "--json")
        unknown = alone("user", "set-role", "acme", BOB, "admin")
        last = alone("user", "set-role", "acme", OWNER, "editor")

        assert (author["role"], reader.data["role"]) == ("author", "reader")
        assert "reader" in alone("user", "list", "acme").stdout
        assert (unknown.status, last.status) == (2, 2)
        assert "last active owner" in last.stderr

    @pytest.mark.slow
    def test_is_deactivated_and_activated(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        bob = _create_bob(tenantry)

        off = tenantry("user", "deactivate", "acme", BOB, "--json").data
        while_off = _logs_in(tenantry, made, BOB, PASSWORD)
        on = tenantry("user", "activate", "acme", bob["id"], "--json").data

        assert (off["isActive"], on) == (False, bob)
        assert not while_off
        assert _logs_in(tenantry, made, BOB, PASSWORD)
        assert re.search(
            r"^active +no$", tenantry("user", "deactivate", "acme", BOB).stdout, re.MULTILINE
        )

    @pytest.mark.slow
    def test_is_deleted_after_a_confirmation(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        _create_bob(tenantry)

        unconfirmed = tenantry("user", "delete", "acme", BOB)
        misnamed = tenantry("user", "delete", "acme", BOB, "--email", OWNER)
        deleted = tenantry("user", "delete", "acme", BOB, "--email", BOB.upper(), "--json")

        assert (unconfirmed.status, misnamed.status) == (2, 2)
        assert "--email" in only_line(unconfirmed.stderr)
        assert "e-mail address" in only_line(misnamed.stderr)
        assert deleted.data == {"message": "The user was deleted."}
        assert not _logs_in(tenantry, made, BOB, PASSWORD)
        [left] = tenantry("user", "list", "acme", "--json").data["items"]
        assert left == {**made["owner"], "role": "owner"}

    @pytest.mark.parametrize("verb", ["deactivate", "activate", "delete"])
    def test_must_exist_to_be_changed(self, alone: Commands, verb: str):
        alone.create_tenant("acme")

        ended = alone("user", verb, "acme", BOB)

        assert ended.status == 2
        assert "user list" in only_line(ended.stderr)

    @pytest.mark.slow
    def test_is_deleted_at_a_terminal(self, alone: Commands):
        alone.create_tenant("acme")
        _create_bob(alone)
        question = f"This cannot be undone. Type `{BOB}` to delete the user: "

        shown, status = at_a_terminal(
            alone.folder, ["user", "delete", "acme", BOB], {question: BOB}
        )

        assert status == 0
        assert "The user was deleted." in shown

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("create", "acme", OWNER.upper(), "--full-name", "O"), "user list"),
            (("create", "acme", "nobody", "--full-name", "O"), "email"),
            (("create", "acme", BOB, "--full-name", " "), "fullName"),
            (("create", "globex", BOB, "--full-name", "Bob"), "tenant list"),
            (("reset-password", "acme", BOB), "user list"),
            (("reset-password", "acme", UNKNOWN_ID), "user list"),
        ],
    )
    def test_is_refused_in_one_line(self, alone: Commands, arguments: tuple[str, ...], said: str):
        alone.create_tenant("acme")

        ended = alone("user", *arguments, password=PASSWORD)

        assert (ended.status, ended.stdout) == (2, "")
        assert said in only_line(ended.stderr)


class TestKey:
    @pytest.mark.slow
    def test_is_created_listed_and_revoked(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")

        issued = tenantry(
            "key", "create", "acme", "--expires-at", "2100-01-31T12:00:00+02:00", "--json"
        ).data
        key = {"X-Api-Key": issued["key"]}
        alive = _asked(tenantry, POSTS, key).status_code
        listed = tenantry("key", "list", made["id"], "--json").data["items"]
        revoked = tenantry("key", "revoke", "acme", issued["id"].upper(), "--json").data

        assert set(issued) == KEY | {"key"}
        assert issued["expiresAt"] == "2100-01-31T10:00:00Z"
        assert alive == 200
        assert [set(one) for one in listed] == [KEY, KEY]
        assert listed[1]["id"] == issued["id"]
        assert revoked == {"message": "The API key was revoked."}
        assert _asked(tenantry, POSTS, key).status_code == 401

    @pytest.mark.slow
    def test_is_rotated(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        old = tenantry("key", "list", "acme", "--json").data["items"][0]

        new = tenantry("key", "rotate", "acme", old["id"], "--json").data
        newest = tenantry(
            "key", "rotate", "acme", new["id"], "--grace-period-seconds", "0", "--json"
        ).data

        first, second, third = tenantry("key", "list", "acme", "--json").data["items"]
        lived = datetime.fromisoformat(first["expiresAt"]) - datetime.now(UTC)  # noqa: TID251
        assert timedelta(hours=23) < lived < timedelta(hours=24)
        assert (second["id"], third["id"], third["expiresAt"]) == (new["id"], newest["id"], None)
        secrets = (made["apiKey"], new["key"], newest["key"])
        answers = [_asked(tenantry, POSTS, {"X-Api-Key": one}).status_code for one in secrets]
        assert answers == [200, 401, 200]

    def test_is_shown_once(self, alone: Commands):
        alone.create_tenant("acme")

        ended = alone("key", "create", "acme")
        secret = ended.stdout.split()[2]

        assert secret.startswith("tnk_")
        assert "not shown again" in ended.stderr
        assert secret not in ended.stderr + alone("key", "list", "acme").stdout

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("create", "globex"), "tenant list"),
            (("create", "acme", "--expires-at", "2001-01-31T12:00:00Z"), "future"),
            (("create", "acme", "--expires-at", "2100-01-31T12:00:00"), "offset"),
            (("create", "acme", "--expires-at", "tomorrow"), "offset"),
            (("create", "acme", "--expires-at", "9999-12-31T23:59:59-01:00"), "offset"),
            (("rotate", "acme", UNKNOWN_ID), "key list"),
            (("revoke", "acme", UNKNOWN_ID), "key list"),
            (("revoke", "acme", "nonsense"), "key list"),
        ],
    )
    def test_is_refused_in_one_line(self, alone: Commands, arguments: tuple[str, ...], said: str):
        alone.create_tenant("acme")

        ended = alone("key", *arguments)

        assert (ended.status, ended.stdout) == (2, "")
        assert said in only_line(ended.stderr)

    def test_of_another_tenant_is_none(self, alone: Commands):
        alone.create_tenant("acme")
        alone.create_tenant("globex")
        key = alone("key", "list", "globex", "--json").data["items"][0]["id"]

        assert alone("key", "revoke", "acme", key).status == 2
        assert alone("key", "rotate", "acme", key).status == 2
        assert len(alone("key", "list", "globex", "--json").data["items"]) == 1


class TestLink:
    @pytest.mark.slow
    def test_lets_a_person_choose_a_password(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")

        invitation = tenantry("user", "invite", "acme", BOB, "--role", "author", "--json").data
        chosen = {"secret": _secret(invitation), "password": PASSWORD, "fullName": "Bob"}
        used = _asked(tenantry, "/api/links/use", body=chosen)
        reset = tenantry("user", "reset-link", "acme", BOB.upper(), "--json").data
        page = tenantry("user", "links", "acme", "--json").data
        again = _asked(tenantry, "/api/links/use", body={**chosen, "secret": _secret(reset)})

        assert set(invitation) == set(reset) == LINK | {"url"}
        assert set(page) == PAGE
        assert page["items"] == [{name: reset[name] for name in LINK}]
        assert (used.status_code, again.status_code) == (200, 200)
        assert (invitation["role"], reset["role"]) == ("author", None)
        users = tenantry("user", "list", "acme", "--json").data["items"]
        assert [one["role"] for one in users] == ["owner", "author"]
        assert _logs_in(tenantry, made, BOB, PASSWORD)
        inside = ("audit", "list", "--inside", "acme", "--action", "link.issue", "--json")
        audited = tenantry(*inside).data["items"]
        assert [one["command"] for one in audited] == [
            "tenantry user reset-link",
            "tenantry user invite",
        ]

    def test_is_shown_once_and_revoked(self, alone: Commands):
        alone.create_tenant("acme")

        ended = alone("user", "invite", "acme", BOB)
        secret = ended.stdout.partition("#")[2].split()[0]
        listed = alone("user", "links", "acme")
        link_id = alone("user", "links", "acme", "--json").data["items"][0]["id"]
        revoked = alone("user", "revoke-link", "acme", link_id, "--json").data

        assert secret.startswith("tni_")
        assert "not shown again" in ended.stderr
        assert BOB in listed.stdout
        assert "a new editor" in listed.stdout
        assert secret not in ended.stderr + listed.stdout
        assert revoked == {"message": "The link was revoked."}
        assert alone("user", "links", "acme", "--json").data["items"] == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("invite", "globex", BOB), "tenant list"),
            (("invite", "acme", "bob"), "e-mail"),
            (("invite", "acme", OWNER), "already in use"),
            (("reset-link", "acme", BOB), "user list"),
            (("revoke-link", "acme", UNKNOWN_ID), "no such link"),
            (("revoke-link", "acme", "nonsense"), "no such link"),
        ],
    )
    def test_is_refused_in_one_line(self, alone: Commands, arguments: tuple[str, ...], said: str):
        alone.create_tenant("acme")

        ended = alone("user", *arguments)

        assert (ended.status, ended.stdout) == (2, "")
        assert said in only_line(ended.stderr)


class TestToken:
    @pytest.mark.slow
    def test_acts_as_its_user_until_it_is_revoked(self, tenantry: Commands):
        tenantry.create_tenant("acme")
        bob = _create_bob(tenantry)

        issued = tenantry(
            *("token", "issue", "acme", "--name", "assistant", "--user", BOB.upper()),
            *("--scope", "profile:read", "--scope", "content:read", "--json"),
        ).data
        token = {"X-Mcp-Token": issued["token"]}
        profile = _asked(tenantry, PROFILE, token)
        modules = _asked(tenantry, "/api/tenant/modules", token)
        listed = tenantry("token", "list", "acme", "--json").data["items"]
        revoked = tenantry("token", "revoke", "acme", issued["id"], "--json").data

        assert set(issued) == TOKEN | {"token", "clientConfigurations"}
        assert (issued["name"], issued["userId"]) == ("assistant", bob["id"])
        assert issued["scopes"] == ["content:read", "profile:read"]
        assert {**profile.json()["data"], "role": "owner"} == bob
        assert modules.status_code == 403
        assert [(one["id"], set(one)) for one in listed] == [(issued["id"], TOKEN)]
        assert revoked == {"message": "The McpToken was revoked."}
        assert _asked(tenantry, PROFILE, token).status_code == 401

    def test_comes_with_configurations_to_paste(self, alone: Commands):
        alone.create_tenant("acme")
        url = {"TENANTRY_PUBLIC_URL": "https://cms.example.com"}

        printed = alone("token", "issue", "acme", "--name", "assistant", **url).stdout

        token = re.search(r"tnm_[\w-]+", printed)
        assert token is not None
        for one in configurations("https://cms.example.com", token[0]):
            assert f"\n{one.client}, in {one.place}:\n\n{one.text}\n" in printed

    def test_only_reads_and_has_no_user_by_default(self, alone: Commands):
        alone.create_tenant("acme")

        issued = alone("token", "issue", "acme", "--name", "assistant", "--json").data
        ended = alone("token", "issue", "acme", "--name", "another")
        listed = alone("token", "list", "acme").stdout

        lives = datetime.fromisoformat(issued["expiresAt"]) - datetime.now(UTC)  # noqa: TID251
        assert timedelta(days=29) < lives < timedelta(days=30)
        assert issued["userId"] is None
        assert issued["scopes"] == ["content:read", "modules:read", "profile:read"]
        assert "tnm_" in ended.stdout
        assert "assistant" in listed
        assert "tnm_" not in listed

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("issue", "globex", "--name", "n"), "tenant list"),
            (("issue", "acme", "--name", " "), "name"),
            (("issue", "acme", "--name", "n", "--user", BOB), "user list"),
            (("issue", "acme", "--name", "n", "--user", UNKNOWN_ID), "user list"),
            (("issue", "acme", "--name", "n", "--expires-at", "2100-01-31T12:00:00Z"), "365"),
            (("revoke", "acme", UNKNOWN_ID), "token list"),
            (("revoke", "acme", "nonsense"), "token list"),
        ],
    )
    def test_is_refused_in_one_line(self, alone: Commands, arguments: tuple[str, ...], said: str):
        alone.create_tenant("acme")

        ended = alone("token", *arguments)

        assert (ended.status, ended.stdout) == (2, "")
        assert said in only_line(ended.stderr)

    def test_refuses_unknown_scopes(self, alone: Commands):
        ended = alone("token", "issue", "acme", "--name", "n", "--scope", "nonsense")

        assert (ended.status, ended.stdout) == (2, "")
        assert "content:read" in ended.stderr


class TestAdmin:
    @pytest.mark.slow
    def test_is_switched_off_and_on_again(self, tenantry: Commands):
        made = tenantry.create_admin()
        tenantry.create_admin(BOB)

        disabled = tenantry("admin", "disable", ADA.upper(), "--json").data
        while_disabled = _admin_logs_in(tenantry, PASSWORD)
        enabled = tenantry("admin", "enable", ADA, "--json").data

        assert disabled == {**made, "isActive": False}
        assert enabled == made
        assert not while_disabled
        assert _admin_logs_in(tenantry, PASSWORD)

    def test_gets_a_new_password(self, tenantry: Commands):
        made = tenantry.create_admin()

        changed = tenantry("admin", "reset-password", ADA, "--json", password=ANOTHER).data

        assert changed == made
        assert not _admin_logs_in(tenantry, PASSWORD)
        assert _admin_logs_in(tenantry, ANOTHER)

    def test_stays_when_it_is_the_last(self, tenantry: Commands):
        tenantry.create_admin()

        ended = tenantry("admin", "disable", ADA)

        assert ended.status == 2
        assert "last" in only_line(ended.stderr)
        assert _admin_logs_in(tenantry, PASSWORD)

    @pytest.mark.parametrize("command", ["disable", "enable", "reset-password"])
    def test_must_exist(self, alone: Commands, command: str):
        password = PASSWORD if command == "reset-password" else None

        ended = alone("admin", command, ADA, password=password)

        assert ended.status == 2
        assert "admin list" in only_line(ended.stderr)


class TestSigningKeyRotate:
    def test_publishes_a_key_a_minute_before_it_signs(self, tenantry: Commands):
        tenantry.create_admin()

        added = tenantry("signing-key", "rotate", "--json").data
        published = _asked(tenantry, "/.well-known/jwks.json").json()["keys"]

        assert set(added) == {"id", "createdAt", "signsFrom", "signsUntil"}
        created, signs = (datetime.fromisoformat(added[one]) for one in ("createdAt", "signsFrom"))
        assert signs - created == timedelta(seconds=60)
        assert len(published) == 2
        assert added["id"] in {key["kid"] for key in published}
        assert _admin_logs_in(tenantry, PASSWORD)

    def test_prints_when_the_key_signs(self, alone: Commands):
        ended = alone("signing-key", "rotate")

        assert ended.status == 0
        assert "signs from" in ended.stdout


@pytest.mark.slow
class TestUnlock:
    def test_needs_an_existing_account(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        owner = tenantry("user", "list", "acme", "--json").data["items"][0]["email"]

        for account in (("admin", "unlock", ADA), ("user", "unlock", "acme", owner)):
            assert tenantry(*account).status == 0
            assert tenantry(*account, "--address", "2001:db8::1").status == 0
            assert tenantry(*account, "--address", "nowhere").status == 2
        assert tenantry("admin", "unlock", "nobody@example.com").status == 2
        assert tenantry("user", "unlock", "acme", "nobody@example.com").status == 2


class TestSigningKeyList:
    def test_prints_when_each_key_signs(self, tenantry: Commands):
        added = tenantry("signing-key", "rotate", "--json").data

        [first, second] = tenantry("signing-key", "list", "--json").data["items"]

        assert first["signsUntil"] == second["signsFrom"] == added["signsFrom"]
        assert second["signsUntil"] is None
        assert added["id"] in tenantry("signing-key", "list").stdout


class TestSigningKeyRevoke:
    def test_ends_what_the_key_has_signed_and_another_signs(self, tenantry: Commands):
        tenantry.create_admin()
        [only] = tenantry("signing-key", "list", "--json").data["items"]

        ended = tenantry("signing-key", "revoke", only["id"])

        assert ended.status == 0
        [left] = tenantry("signing-key", "list", "--json").data["items"]
        assert left["id"] != only["id"]
        assert _admin_logs_in(tenantry, PASSWORD)

    def test_must_exist(self, alone: Commands):
        for key_id in ("nonsense", "01890a5d-ac96-774b-bcce-b302099a8057"):
            assert alone("signing-key", "revoke", key_id).status == 2


class TestAudit:
    def test_is_a_page_of_changes_the_newest_first(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        tenantry("tenant", "suspend", "acme")

        page = tenantry("audit", "list", "--page-size", "2", "--json").data

        assert set(page) == PAGE
        assert [(one["action"], one["target"], one["actor"]) for one in page["items"]] == [
            ("tenant.update", made["id"], ME),
            ("tenant.create", made["id"], ME),
        ]
        assert [one["command"] for one in page["items"]] == [
            "tenantry tenant suspend",
            "tenantry tenant create",
        ]
        assert page["items"][0]["changes"] == [{"field": "isActive", "old": True, "new": False}]
        assert all(set(one) == ENTRY for one in page["items"])

    @pytest.mark.slow
    def test_is_exported_as_lines(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        tenantry("tenant", "suspend", "acme")

        lines = tenantry("audit", "export", "--tenant", "acme").stdout.splitlines()
        none = tenantry("audit", "export", "--since", "2999-01-01T00:00:00Z").stdout

        entries = [json.loads(line) for line in lines]
        assert [one["action"] for one in entries] == ["tenant.update", "tenant.create"]
        assert {one["tenantId"] for one in entries} == {made["id"]}
        assert all(set(one) == ENTRY for one in entries)
        assert none == ""

    def test_of_a_tenant_is_read_from_its_own_database(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")
        bob = _create_bob(tenantry)

        listed = tenantry("audit", "list", "--inside", "acme", "--json").data
        lines = tenantry("audit", "export", "--inside", made["id"]).stdout.splitlines()
        both = tenantry("audit", "list", "--inside", "acme", "--tenant", "acme")

        assert [(one["action"], one["actor"]) for one in listed["items"]] == [
            ("user.create", ME),
            ("user.create", ME),
        ]
        assert listed["items"][0]["target"] == bob["id"]
        assert all(set(one) == ENTRY for one in listed["items"])
        assert [json.loads(line) for line in lines] == listed["items"]
        assert "--inside" in only_line(both.stderr)

    def test_finds_the_entries_of_a_deleted_tenant_by_its_id(self, alone: Commands):
        made = alone.create_tenant("acme")
        alone("tenant", "suspend", "acme")
        alone("tenant", "delete", "acme", "--name", "acme")

        found = alone("audit", "list", "--tenant", made["id"], "--json").data["items"]

        assert found[0]["action"] == "tenant.delete"
        assert {"field": "name", "old": "acme", "new": None} in found[0]["changes"]
        assert "tenant list" in only_line(alone("audit", "list", "--tenant", "acme").stderr)

    def test_has_the_action_and_the_id_of_an_entry_on_one_line(self, alone: Commands):
        """So that `grep` finds both."""
        made = alone.create_admin()

        lines = alone("audit", "list").stdout.splitlines()

        (found,) = (line for line in lines if "admin.create" in line)
        assert made["id"] in found
        assert len([line for line in lines if line.startswith("20")]) == 2


class TestOpenapi:
    def test_is_the_description_of_the_service(self, alone: Commands):
        printed = alone("openapi")

        assert not alone.settings.data_dir.exists()
        assert json.loads(printed.stdout) == _asked(alone, "/openapi.json").json()

    def test_is_written_to_a_file_without_a_database(self, alone: Commands):
        ended = alone("openapi", "-o", "openapi.json", TENANTRY_CATALOG_URL=UNREACHABLE)

        assert (ended.status, ended.stdout) == (0, "")
        assert Path("openapi.json").read_text() == alone("openapi", "--json").stdout

    def test_says_why_a_file_cannot_be_written(self, alone: Commands):
        ended = alone("openapi", "-o", "nowhere/openapi.json")

        assert ended.status == 3
        assert "nowhere" in only_line(ended.stderr)


class TestWorker:
    def test_is_not_needed_on_sqlite(self, alone: Commands):
        ended = alone("worker")

        assert (ended.status, ended.stdout) == (3, "")
        assert "PostgreSQL" in only_line(ended.stderr)
        assert not alone.settings.data_dir.exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_works_on_runs_until_a_signal(self, tenantry: Commands):
        """What the first worker leaves at the signal, the second one continues."""
        for number in range(6):
            tenantry.create_tenant(f"tenant {number}")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(SLOWLY)}
        environment = {**tenantry.environment, **migrations, "TENANTRY_MIGRATE_CONCURRENCY": "1"}
        run_id = _planned(tenantry)

        with running(tenantry.folder, "worker", "--json", **environment) as first:
            working = json.loads(first.wait_for(r"(?s)\{.*\}")[0])
            wait_until(lambda: _run(tenantry, run_id)[0] > 0)
            interrupted = first.end(signal.SIGINT)
        left = _run(tenantry, run_id)
        held = rows(
            tenantry.settings.catalog,
            "SELECT count(*) FROM tenant_migration WHERE state = 'Pending' AND worker_id IS NULL",
        )

        assert set(working) == {"workerId", "migrateConcurrency"}
        assert interrupted == 130
        assert 0 < left[0] < 6
        assert held == [(6 - left[0],)]

        with running(tenantry.folder, "worker", **environment) as second:
            second.wait_for("works on migration runs")
            wait_until(lambda: _run(tenantry, run_id)[1])
            status = second.end()

        assert status == 0
        assert _run(tenantry, run_id) == (6, True)
        assert "Traceback" not in first.stderr + second.stderr


def _create_bob(tenantry: Commands) -> Any:
    asked = ("user", "create", "acme", BOB, "--full-name", "Bob", "--json")
    return tenantry(*asked, password=PASSWORD).data


def _secret(issued: dict[str, Any]) -> str:
    return str(issued["url"].partition("#")[2])


def _asked(
    tenantry: Commands, path: str, headers: dict[str, str] | None = None, body: object = None
) -> httpx.Response:
    """Return the response of a service that has just started."""

    async def ask() -> httpx.Response:
        async with (
            open_services(tenantry.settings) as services,
            client_of(app_over(services)) as client,
        ):
            method = "GET" if body is None else "POST"
            return await client.request(method, path, headers=headers, json=body)

    return asyncio.run(ask())


def _without_secrets(created: Any) -> dict[str, Any]:
    return {name: one for name, one in created.items() if name not in {"apiKey", "owner"}}


def _logs_in(tenantry: Commands, tenant: Any, email: str, password: str) -> bool:
    body = {"email": email, "password": password}
    key = {"X-Api-Key": tenant["apiKey"]}
    return _asked(tenantry, "/api/tenant/auth/login", key, body).status_code == 200


def _admin_logs_in(tenantry: Commands, password: str) -> bool:
    body = {"email": ADA, "password": password}
    return _asked(tenantry, "/api/admin/auth/login", body=body).status_code == 200


def _deleted(tenantry: Commands) -> Any:
    """Create a tenant, delete it, and return it."""
    made = tenantry.create_tenant("acme")
    tenantry("tenant", "suspend", "acme")
    tenantry("tenant", "delete", "acme", "--name", "acme")
    return made


def _database_exists(tenantry: Commands, name: str) -> bool:
    if tenantry.settings.catalog.startswith("sqlite"):
        return bool(list(tenantry.settings.data_dir.rglob(f"{name}*")))
    sql = f"SELECT 1 FROM pg_database WHERE datname = '{name}'"
    return bool(rows(tenantry.settings.catalog, sql))


def _planned(tenantry: Commands) -> UUID:
    """Return a run that no process works on."""
    settings = tenantry.settings.model_copy(
        update={"tenant_migrations": tenantry.folder / "migrations"}
    )

    async def plan() -> UUID:
        async with open_services(settings, works=False) as services:
            return await services.fleet.plan(system_context("test"), triggered_by=ADA)

    return asyncio.run(plan())


def _run(tenantry: Commands, run_id: UUID) -> tuple[int, bool]:
    """Return how many tenants of a run have succeeded, and whether it has ended."""
    sql = f"SELECT success_count, finished_at IS NOT NULL FROM migration_run WHERE id = '{run_id}'"
    ((count, has_ended),) = rows(tenantry.settings.catalog, sql)
    return count, has_ended


@pytest.mark.parametrize("waits_for", ["confirmation", "password"])
def test_ctrl_c_ends_a_command_that_waits_for_input(tenantry: Commands, waits_for: str):
    """At once: the first one, without the end of the line."""
    tenantry.create_tenant("acme")
    command = ["tenant", "purge", "acme"]
    if waits_for == "confirmation":
        tenantry("tenant", "suspend", "acme")
        assert tenantry("tenant", "delete", "acme", "--name", "acme").status == 0
    else:
        command = ["admin", "create", "grace@example.com"]
    parent, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tenantry", *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tenantry.folder,
        env=environment_of(**tenantry.environment),
        start_new_session=True,
    ) as process:
        os.close(terminal)
        shown = b""
        while not re.search(rb"to confirm: |Password: ", shown):
            shown += os.read(parent, 1024)
        process.send_signal(signal.SIGINT)
        status = process.wait(timeout=60)
    os.close(parent)

    assert status == 130
    assert b"Traceback" not in shown
