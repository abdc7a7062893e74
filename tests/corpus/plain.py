"""Run a project with Alembic's own command, as its authors do."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config


def upgrade(ini: Path, url: str, driver: str) -> BaseException | None:
    """Run ``alembic upgrade head`` on the database at *url*, and return what it raised."""
    config = Config(str(ini))
    with_driver = url.replace("postgresql://", f"postgresql+{driver}://")
    config.set_main_option("sqlalchemy.url", with_driver.replace("%", "%%"))
    with imports_forgotten(ini.parent):
        try:
            command.upgrade(config, "head")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a revision can raise anything
            return error
    return None


@contextmanager
def imports_forgotten(folder: Path) -> Iterator[None]:
    """Forget afterwards what was imported from *folder*, as the end of a process would."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
        sys.path_importer_cache.clear()
