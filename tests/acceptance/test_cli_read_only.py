"""Commands that read write nothing: the disk may be full, and the server a standby."""

import pytest

from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from tests.acceptance.commands import OTHER_KEY, Commands

READS = (
    ("admin", "list"),
    ("audit", "list"),
    ("audit", "list", "--inside", "Acme"),
    ("backup", "list"),
    ("backup", "jobs"),
    ("drift", "list"),
    ("key", "list", "Acme"),
    ("migrate", "history"),
    ("migrate", "status"),
    ("signing-key", "list"),
    ("tenant", "list"),
    ("tenant", "list", "--deleted"),
    ("tenant", "show", "Acme"),
    ("token", "list", "Acme"),
    ("user", "list", "Acme"),
)


def refuse_writes(url: str) -> None:
    """Let the catalog refuse the writes of a heartbeat."""
    if sqlite_path(url) is None:
        body = "BEGIN RAISE EXCEPTION 'full'; END"
        raw_sql.run(url, f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        event = "BEFORE INSERT OR UPDATE OR DELETE"
        raw_sql.run(url, f"CREATE TRIGGER refuse {event} ON worker EXECUTE FUNCTION refuse()")
        return
    for change in ("INSERT", "UPDATE", "DELETE"):
        trigger = f"CREATE TRIGGER refuse_{change} BEFORE {change} ON worker"
        raw_sql.run(url, f"{trigger} BEGIN SELECT RAISE(ABORT, 'full'); END")


class TestCatalogThatRejectsWrites:
    @pytest.mark.slow
    def test_can_be_read(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("Acme")
        refuse_writes(tenantry.settings.catalog)

        for command in READS:
            ended = tenantry(*command, "--json")

            assert ended.status == 0, (command, ended.stderr)
        assert tenantry("tenant", "suspend", "Acme").status != 0

    def test_is_still_checked_for_its_secret_key(self, alone: Commands):
        alone.create_admin()

        ended = alone("tenant", "list", TENANTRY_SECRET_KEY=OTHER_KEY)

        assert ended.status == 3
        assert "Set the key that the catalog was created with" in ended.stderr
