"""A user's Alembic directory, for the tests of migrate-all."""

from pathlib import Path

import pytest

from tenantry.settings import Settings

SLEEP = """
    if op.get_bind().dialect.name == "postgresql":
        op.execute("SELECT pg_sleep({seconds})")
    else:
        import time
        time.sleep({seconds})
"""
HELD_SECONDS_MAX = 60
HELD = """
    import pathlib
    import time
    ends = time.monotonic() + {seconds_max}
    while not pathlib.Path({file!r}).exists():
        assert time.monotonic() < ends
        if op.get_bind().dialect.name == "postgresql":
            op.execute("SELECT pg_sleep(0.05)")
        else:
            time.sleep(0.05)
    pathlib.Path({file!r}).unlink()
"""


class Migrations:
    """An Alembic directory, to which revisions are added one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last: str | None = None
        (folder / "versions").mkdir(parents=True)

    def begin(self) -> Path:
        """Return the folder, with a revision in it that changes nothing: without, none starts."""
        if self._last is None:
            self.add("begin")
        return self.folder

    def add(
        self, name: str, upgrade: str = "pass", *, after: str = "", online: bool = False
    ) -> str:
        """Add the revision *name* with the body of ``upgrade``; return the name.

        Args:
            name: Of the file; what comes before the first ``_`` is the revision.
            upgrade: The body of the function.
            after: The revision before it; the one added last unless given.
            online: Whether it runs live on each database, and is never recorded.
        """
        revision = name.partition("_")[0]
        down = after or self._last
        (self.folder / "versions" / f"{name}.py").write_text(
            "import sqlalchemy as sa\n"
            "from alembic import op\n"
            f"revision = {revision!r}\n"
            f"down_revision = {down!r}\n"
            f"online = {online}\n"
            f"def upgrade():\n    {upgrade}\n"
            "def downgrade():\n    pass\n"
        )
        self._last = revision
        return name

    def add_table(self, name: str, table: str, *, after: str = "") -> str:
        return self.add(name, create(table), after=after)

    def add_slow(self, name: str, seconds: float) -> str:
        """Add a revision that takes so long at every tenant."""
        return self.add(name, SLEEP.format(seconds=seconds).strip(), online=True)

    def add_held(self, name: str, file: Path) -> str:
        """Add a revision that waits at every tenant until *file* exists, and removes it."""
        upgrade = HELD.format(seconds_max=HELD_SECONDS_MAX, file=str(file)).strip()
        return self.add(name, upgrade, online=True)

    def remove(self, name: str) -> None:
        (self.folder / "versions" / f"{name}.py").unlink()


def create(table: str) -> str:
    return f"op.create_table({table!r}, sa.Column('id', sa.Integer, primary_key=True))"


class WithMigrations:
    """The base of tests with revisions of their own, run at one tenant after the other."""

    @pytest.fixture(name="mine")
    def _mine(self, tmp_path: Path) -> Migrations:
        return Migrations(tmp_path / "migrations")

    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings, mine: Migrations) -> Settings:
        changes = {"tenant_migrations": mine.begin(), "migrate_concurrency": 1}
        return settings.model_copy(update=changes)
