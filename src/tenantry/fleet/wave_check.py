"""The operator's check of a wave: a command, or an HTTP endpoint, that decides about the next one.

Only the operator's settings name it. What it prints is not trusted, and bounded.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from dataclasses import dataclass

from tenantry.catalog.runs import MigrationRun
from tenantry.kit import attached
from tenantry.kit.errors import Conflict

# What a program needs to run and to verify certificates; nothing else of ours, which has secrets.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
SHOWN_CHARS_MAX = 300
KILLED_SECONDS_MAX = 5.0


class WaveCheckFailed(Conflict):
    """The check of a wave has failed; the message says how."""


@dataclass(frozen=True)
class WaveCheck:
    """Runs the check.

    Attributes:
        command: A command with its arguments, as in a shell, but run without one; or an
            ``http(s)`` URL, which gets a POST with the variables as JSON. Empty: there is none.
        seconds: How long it may take.
    """

    command: str
    seconds: float

    @property
    def is_set(self) -> bool:
        """Whether there is a check."""
        return bool(self.command)

    async def __call__(self, run: MigrationRun) -> None:
        """Check the wave after which *run* holds.

        All processes of the check are killed at the end, and also if this process dies.

        Raises:
            WaveCheckFailed: It has failed, or has taken too long.
        """
        if not self.is_set:
            raise WaveCheckFailed("the process that ran it has no TENANTRY_WAVE_CHECK.")
        is_url = self.command.startswith(("http://", "https://"))
        arguments = [] if is_url else shlex.split(self.command)
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}  # noqa: TID251
        environment |= variables(run)
        if is_url:
            environment["WAVE_CHECK_URL"] = self.command
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", attached.__file__, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        assert child.stdout is not None
        try:
            async with asyncio.timeout(self.seconds):
                said = await child.stdout.read()  # `attached` prints little
                status = await child.wait()
        except TimeoutError:
            raise WaveCheckFailed(f"it took longer than {self.seconds:g} s.") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), KILLED_SECONDS_MAX)
        if status:
            failed = "no response with a status of 2xx" if is_url else f"exit status {status}"
            raise WaveCheckFailed(f"{failed}. {shown(said)}".strip())


NO_CHECK = WaveCheck("", seconds=0)


def variables(run: MigrationRun) -> dict[str, str]:
    """Return what the check is told about a run that holds."""
    told = {
        "RUN_ID": run.id,
        "NUMBER": run.holding_wave,
        "COUNT": len(run.waves or ()),
        "TENANTS": run.total_count,
        "SUCCEEDED": run.success_count,
        "FAILED": run.failed_count,
    }
    return {f"WAVE_{name}": str(value) for name, value in told.items()}


def shown(output: bytes) -> str:
    """Return the end of an output in a form that may be shown."""
    text = "".join(one if one.isprintable() else " " for one in output.decode(errors="replace"))
    return " ".join(text.split())[-SHOWN_CHARS_MAX:]
