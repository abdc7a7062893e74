"""Revisions that end or block the process that runs them."""

import contextlib
import time
from uuid import UUID

import pytest

from tenantry.catalog import runs
from tenantry.catalog.runs import MigrationState, RunTenant
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.conftest import provision
from tests.integration.programs import running

pytestmark = pytest.mark.slow

# The other tenants are migrated within it, also on a busy machine.
DEADLINE_SECONDS = 8.0
# Also on a busy machine, and less than an endless revision takes.
LATE_SECONDS_MAX = 45
END_SECONDS_MAX = 100
# On one tenant alone; the others find nothing to do.
AT_VICTIM = """
me = op.get_bind().scalar(sa.text("SELECT email FROM tenantry_user"))
if me == "owner@victim.example.com":
    {body}
op.create_table("done", sa.Column("id", sa.Integer))
"""


@pytest.fixture(name="hostile")
def _hostile(settings: Settings, folder: AlembicFolder) -> Settings:
    return settings.model_copy(
        update={"tenant_migrations": folder.begin(), "tenant_deadline_s": DEADLINE_SECONDS}
    )


async def outcomes(
    hostile: Settings, folder: AlembicFolder, body: str, *, head: str = ""
) -> tuple[float, int | None, dict[str, RunTenant]]:
    """Return the duration of a run, the status of its process, and the state of each tenant."""
    async with open_services(hostile) as services:
        for name in ("first", "victim", "third", "fourth"):
            await provision(services, name)
    folder.add("u1_hostile", AT_VICTIM.format(body=body), head=head)
    status = None
    async with running("migrate", hostile) as process:
        run_id = UUID(await process.line())
        began = time.monotonic()
        said = await process.line()
        took = time.monotonic() - began
        assert said == "3 1", "the run ends, and the others are migrated"
        with contextlib.suppress(TimeoutError):
            status, _ = await process.ended(END_SECONDS_MAX)
    async with open_services(hostile) as services:
        items = await runs.ended(services.catalog, run_id)
    return took, status, {item.tenant_name: item for item in items}


class TestHostileRevision:
    @pytest.mark.parametrize(
        ("body", "head"),
        [
            ("sys.exit(3)", "import sys"),
            ("raise KeyboardInterrupt", ""),
            ("raise asyncio.CancelledError", "import asyncio"),
        ],
        ids=["sys.exit", "KeyboardInterrupt", "CancelledError"],
    )
    async def test_that_would_end_the_process_fails_its_tenant_alone(
        self, hostile: Settings, folder: AlembicFolder, body: str, head: str
    ):
        _, status, items = await outcomes(hostile, folder, body, head=head)

        assert status == 0
        victim = items.pop("victim")
        assert victim.state == MigrationState.FAILED
        assert victim.error
        assert victim.applied == ""
        assert {item.applied for item in items.values()} == {"u1_hostile"}

    async def test_that_never_ends_fails_its_tenant_at_the_deadline(
        self, hostile: Settings, folder: AlembicFolder
    ):
        """A thread cannot be killed, so there is a little patience on top."""
        took, status, items = await outcomes(hostile, folder, "while True: pass")

        victim = items.pop("victim")
        assert took < DEADLINE_SECONDS + LATE_SECONDS_MAX
        assert victim.state == MigrationState.FAILED
        assert victim.error == "The database did not answer in time."
        assert {item.applied for item in items.values()} == {"u1_hostile"}
        assert status == 0, "the process cannot end before the revision does"

    async def test_with_an_endless_statement_fails_its_tenant_at_the_deadline(
        self, hostile: Settings, folder: AlembicFolder, engine: str
    ):
        sql = (
            "SELECT pg_sleep(600)"
            if engine == "postgresql"
            else "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT max(i) FROM n"
        )

        took, status, items = await outcomes(hostile, folder, f"op.execute({sql!r})")

        assert took < DEADLINE_SECONDS + LATE_SECONDS_MAX
        assert status == 0
        assert items["victim"].error == "The database did not answer in time."
