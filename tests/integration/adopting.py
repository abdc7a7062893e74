"""A program that adopts a database, and kills itself on the way.

``python -m tests.integration.adopting SETTINGS NAME DATABASE STEP`` prints how many steps it
took; with a STEP, it does not survive that one.
"""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

from pydantic import SecretStr

from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser

ROOT = Path(__file__).parents[2]
SOURCE = str(ROOT / "src" / "tenantry")
PASSWORD = "correct horse battery staple"
OWNER = NewUser(email="owner@example.com", full_name="The Owner", password=PASSWORD)


class Steps:
    """Counts what the product's code calls, and returns from, and kills the process at one.

    Args:
        last: The step that is not survived; 0 when all are.
    """

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def start(self) -> None:
        """Count from now on, in this thread and in those that begin later."""
        sys.setprofile(self._step)
        threading.setprofile(self._step)

    def _step(self, frame: FrameType, _event: str, _arg: object) -> None:
        if frame.f_code.co_filename.startswith(SOURCE):
            self.count += 1
            if self.count == self._last:
                # Not with `os.kill`, which is refused while a revision is recorded.
                signal.raise_signal(signal.SIGKILL)


def start(settings: Settings, name: str, database: str, step: int = 0) -> "subprocess.Popen[str]":
    """Start the program."""
    values = {
        key: value.get_secret_value() if isinstance(value, SecretStr) else value
        for key, value in settings.model_dump(exclude_unset=True).items()
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.integration.adopting"),
            *(json.dumps(values, default=str), name, database, str(step)),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


async def _main(settings: str, name: str, database: str, step: str) -> None:
    async with open_services(Settings(**json.loads(settings))) as services:
        await services.worker.stop()
        steps = Steps(int(step))
        steps.start()
        await services.adoption.adopt(
            system_context("test"), name=name, database=database, owner=OWNER
        )
        sys.setprofile(None)
        sys.stdout.write(f"{steps.count}\n")


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
