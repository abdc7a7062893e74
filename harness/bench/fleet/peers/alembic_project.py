"""Alembic: its command in a loop of one process, in a pool, and its command line."""

import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from alembic import command
from alembic.config import Config

from harness.bench.fleet.peers.programs import in_turn, run
from harness.fleet.history import HISTORY, PENDING, write_alembic

# What `alembic init` writes, without the configuration of logs and the offline mode.
ENV = """
from alembic import context
from sqlalchemy import engine_from_config, pool

config = context.config
url = context.get_x_argument(as_dictionary=True).get("url")
section = config.get_section(config.config_ini_section, {})
connectable = engine_from_config(
    section | ({"sqlalchemy.url": url} if url else {}),
    prefix="sqlalchemy.",
    poolclass=pool.NullPool,
)
with connectable.connect() as connection:
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()
"""


class Project:
    """A project of Alembic's with the whole history.

    Args:
        folder: Where it is made.

    Attributes:
        scripts: Its directory of revisions.
    """

    def __init__(self, folder: Path) -> None:
        self._ini = folder / "alembic.ini"
        self.scripts = write_alembic(folder / "scripts", [*HISTORY, *PENDING])
        (self.scripts / "env.py").write_text(ENV)
        self._ini.write_text(f"[alembic]\nscript_location = {self.scripts}\n")

    def upgrade(self, url: str, revision: str = "head") -> None:
        """Migrate one database."""
        _upgrade(str(self._ini), url, revision)

    def in_a_loop(self, urls: Sequence[str]) -> float:
        """Return the seconds that *urls* take, one after the other, in this process."""
        config = Config(str(self._ini))
        began = time.perf_counter()
        for url in urls:
            config.set_main_option("sqlalchemy.url", _for_sqlalchemy(url))
            command.upgrade(config, "head")
        return time.perf_counter() - began

    def in_processes(self, urls: Sequence[str], *, at_once: int) -> float:
        """Return the seconds that *urls* take in a pool of processes, with their start.

        In a pool of threads, Alembic fails: its `op` and `context` are one for each process.
        """
        method = multiprocessing.get_context("spawn")
        began = time.perf_counter()
        with ProcessPoolExecutor(at_once, mp_context=method) as pool:
            for _ in pool.map(partial(_upgrade, str(self._ini)), urls):
                pass
        return time.perf_counter() - began

    def by_command(self, urls: Sequence[str], *, at_once: int) -> float:
        """Return the seconds that *urls* take with ``alembic upgrade head`` for each."""
        program = [sys.executable, "-m", "alembic", "-c", str(self._ini), "-x"]

        def upgrade(url: str) -> None:
            run([*program, f"url={_for_sqlalchemy(url)}", "upgrade", "head"])

        return in_turn(upgrade, urls, at_once=at_once)


def _upgrade(ini: str, url: str, revision: str = "head") -> None:
    config = Config(ini)
    config.set_main_option("sqlalchemy.url", _for_sqlalchemy(url))
    command.upgrade(config, revision)


def _for_sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")
