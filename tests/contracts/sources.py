"""The source files of the product."""

import importlib
import pkgutil
from pathlib import Path

import tenantry

ROOT = Path(tenantry.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def import_everything() -> None:
    """Import every module, so that every class is known."""
    for module in pkgutil.walk_packages([str(ROOT)], "tenantry."):
        if not module.name.endswith("__main__"):  # it would run
            importlib.import_module(module.name)
