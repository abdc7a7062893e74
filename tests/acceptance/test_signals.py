"""A SIGTERM ends the process in bounded time, whatever it is working on."""

import signal
import subprocess
import sys

import pytest

from tenantry.cli.serving.signals import EXIT_SECONDS_MAX, EXIT_STATUS_KILLED
from testkit.programs import END_SECONDS_MAX, running
from tests.acceptance.commands import Commands, wait_until
from tests.own_time import own_seconds

pytestmark = pytest.mark.slow

# A migration that does not end, and holds its thread.
ENDLESS = """
import pathlib, time

revision = "w1"
down_revision = None
online = True

def upgrade(op):
    op.execute("CREATE TABLE widgets (id INTEGER PRIMARY KEY)")
    pathlib.Path({path!r}).touch()
    time.sleep(600)
"""

STUCK = """
import asyncio, os, signal, threading, time
from tenantry.cli.serving import signals

signals.INTERRUPT_SECONDS, signals.EXIT_SECONDS_MAX = 0.3, 0.6

async def serve() -> None:
    with signals.handled(lambda: None):
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
        {runs}

asyncio.run(serve())
"""


class TestSigterm:
    @pytest.mark.parametrize(
        "runs",
        [
            "await asyncio.sleep(0.2); time.sleep(600)",
            "threading.Thread(target=time.sleep, args=(600,)).start(); await asyncio.sleep(600)",
            "await asyncio.to_thread(time.sleep, 600)",
        ],
    )
    def test_ends_a_process_that_is_stuck(self, runs: str) -> None:
        """In the event loop, in a thread, or in a thread that the loop waits for."""
        with own_seconds() as seconds:
            ended = subprocess.run(
                [sys.executable, "-c", STUCK.format(runs=runs)],
                capture_output=True,
                text=True,
                timeout=END_SECONDS_MAX,
                check=False,
            )
            took = seconds()

        assert ended.returncode == EXIT_STATUS_KILLED, ended.stderr
        assert "rolled back" in ended.stderr
        assert took < 10

    def test_ends_a_migration_that_does_not_end(self, tenantry: Commands) -> None:
        """The tenant is where it was, and the run goes on with the next process."""
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        began_file = tenantry.folder / "began"
        revision = ENDLESS.format(path=str(began_file))
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(revision)}

        with running(
            tenantry.folder, "migrate", "all", **{**tenantry.environment, **migrations}
        ) as program:
            wait_until(began_file.exists)
            with own_seconds() as seconds:
                program.process.send_signal(signal.SIGTERM)
                status = program.process.wait(END_SECONDS_MAX)
                took = seconds()

        assert took < EXIT_SECONDS_MAX + 1
        assert status in {130, EXIT_STATUS_KILLED}
        run = tenantry("migrate", "history", "--json").data["items"][0]
        assert (run["finishedAt"], run["successCount"], run["failedCount"]) == (None, 0, 0)

        tenantry.migrations(revision.replace("time.sleep(600)", "pass"))
        assert tenantry("migrate", "all", **migrations).status == 0
