"""Alembic projects that are deployed, and processes that migrate with their files.

``python -m tests.acceptance.deployments SETTINGS`` answers over HTTP as `tenantry serve` does, but
notices other files within a tenth of a second, and prints its port.
"""

import asyncio
import itertools
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from pydantic import SecretStr

from tenantry.app import app_over
from tenantry.catalog.pace import Pace
from tenantry.kit import log
from tenantry.services import open_services
from tenantry.settings import Settings
from tests.acceptance.sockets import served

ROOT = Path(__file__).parents[2]
QUICK = Pace(unknown_seconds=0.1, beat_seconds=0.25, orphaned_seconds=1.0)
START_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 60.0
INI = """[alembic]
script_location = %(here)s/migrations
prepend_sys_path = %(here)s
path_separator = newline
version_locations =
  %(here)s/migrations/versions
"""
MORE = "  %(here)s/migrations/more\n"
EVIDENCE = "op.execute(\"INSERT INTO evidence VALUES ('{revision}', '\" + {token} + \"')\")"
GATE = """
    with open({arrived!r}, "a") as arrived:
        arrived.write("x")
    while not pathlib.Path({gate!r}).exists():
        time.sleep(0.005)
    TOKEN = pathlib.Path(__file__).parents[1].joinpath("{text}").read_text()
"""
KINDS = PLAIN, HELPER, LIVE = "plain", "helper", "live"
"""Revisions: of one file; that import a helper; and that wait at a gate, then read a file."""
_numbers = itertools.count()


def new_token() -> str:
    """Return a text that no file had before."""
    return f"token{next(_numbers)}"


@dataclass
class Project:
    """A directory with ``alembic.ini``, revisions, and modules that they import.

    Attributes:
        tokens: What each revision writes into the table `evidence`, as the files are now.
    """

    path: Path
    gate: Path
    last: str = "begin"
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def migrations(self) -> Path:
        return self.path / "migrations"

    @property
    def arrived(self) -> Path:
        """The file that is there when a tenant is at the gate, or has been."""
        return Path(f"{self.gate}.arrived")

    def has_arrived(self) -> bool:
        return self.arrived.exists()

    def close_gate(self) -> None:
        self.gate.unlink()
        self.arrived.unlink(missing_ok=True)

    def begin(self) -> None:
        """Write the first revision, which no test replaces."""
        for name in ("versions", "more"):
            (self.migrations / name).mkdir(parents=True)
        (self.path / "alembic.ini").write_text(INI)
        self._write(
            "begin", None, "op.execute('CREATE TABLE evidence (revision TEXT, token TEXT)')"
        )

    def add(self, revision: str, kind: str = PLAIN, *, below: str = "versions") -> None:
        """Add a revision after the last one."""
        self.last, down = revision, self.last
        self.tokens[revision] = new_token()
        self._fill(revision, kind, down, below)

    def replace(self, revision: str, kind: str) -> str:
        """Let a revision write another token; return the name of the file that is replaced."""
        self.tokens[revision] = new_token()
        if kind == PLAIN:
            [file] = self.migrations.glob(f"*/{revision}.py")
            down = file.read_text().split("down_revision = ")[1].partition("\n")[0]
            self._fill(revision, kind, down.strip("'"), file.parent.name)
            return revision
        file = self._beside(revision, kind)
        file.write_text(_content(kind, self.tokens[revision]))
        return file.name

    def restore(self, files: Mapping[Path, bytes]) -> None:
        """Put back the files that `files` has returned."""
        for one in self.files():
            if one not in files:
                (self.path / one).unlink()
        for one, content in files.items():
            (self.path / one).parent.mkdir(parents=True, exist_ok=True)
            (self.path / one).write_bytes(content)

    def files(self) -> dict[Path, bytes]:
        """Return the content of each file."""
        every = (one for one in self.path.rglob("*") if one.is_file() and one.suffix != ".pyc")
        return {one.relative_to(self.path): one.read_bytes() for one in every}

    def copy_to(self, path: Path) -> "Project":
        """Return a copy, which has its own files and the same gate."""
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.path, path)
        return Project(path, self.gate, self.last, dict(self.tokens))

    def _fill(self, revision: str, kind: str, down: str, below: str) -> None:
        token = {PLAIN: repr(self.tokens[revision])}.get(kind, "TOKEN")
        body, head = EVIDENCE.format(revision=revision, token=token), ""
        if kind != PLAIN:
            beside = self._beside(revision, kind)
            beside.write_text(_content(kind, self.tokens[revision]))
            if kind == HELPER:
                head = f"from {beside.stem} import TOKEN"
            else:
                head = "import pathlib, time\nonline = True"
                gate, arrived = str(self.gate), str(self.arrived)
                wait = GATE.format(arrived=arrived, gate=gate, text=beside.name)
                body = f"{wait}    {body}"
        self._write(revision, down, body.strip(), head=head, below=below)

    def _beside(self, revision: str, kind: str) -> Path:
        if kind == HELPER:
            return self.path / f"help_{revision}.py"
        return self.migrations / f"text_{revision}.sql"

    def _write(
        self, revision: str, down: str | None, body: str, *, head: str = "", below: str = "versions"
    ) -> None:
        (self.migrations / below / f"{revision}.py").write_text(
            f"from alembic import op\n{head}\nrevision = {revision!r}\n"
            f"down_revision = {down!r}\n\n\ndef upgrade():\n    {body}\n"
        )


def _content(kind: str, token: str) -> str:
    return f"TOKEN = {token!r}\n" if kind == HELPER else token


@dataclass
class Process:
    """A process that answers and migrates.

    Attributes:
        admin: A client of it.
    """

    process: asyncio.subprocess.Process
    admin: httpx.AsyncClient

    async def end(self, by: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        if self.process.returncode is None:
            self.process.send_signal(by)
        await asyncio.wait_for(self.process.wait(), START_SECONDS_MAX)
        await self.admin.aclose()


async def start(settings: Settings, project: Project, token: str) -> Process:
    """Start a process with the files of a project, for an admin with this token."""
    settings = settings.model_copy(update={"tenant_migrations": project.migrations})
    values = {
        key: value.get_secret_value() if isinstance(value, SecretStr) else value
        for key, value in settings.model_dump(exclude_unset=True).items()
    } | {"tenant_migrations": project.migrations, "log_level": "error"}
    process = await asyncio.create_subprocess_exec(
        # Bytecode of the same second and size would be a helper that no hash shows.
        *(sys.executable, "-B", "-m", "tests.acceptance.deployments"),
        json.dumps(values, default=str),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS_MAX)
    admin = httpx.AsyncClient(
        verify=False,  # noqa: S501 - it is plain HTTP, and a TLS context takes 40 ms
        trust_env=False,
        base_url=f"http://127.0.0.1:{int(line)}",
        headers={"authorization": f"Bearer {token}"},
        timeout=ANSWER_SECONDS_MAX,
    )
    return Process(process, admin)


async def _main(settings: str) -> None:
    log.configure(log_format="json", level="error")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with _serving(Settings(**json.loads(settings))) as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await stop.wait()


@asynccontextmanager
async def _serving(settings: Settings) -> AsyncIterator[int]:
    async with (
        open_services(settings, pace=QUICK) as services,
        served(app_over(services)) as one,
    ):
        yield one.port


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
