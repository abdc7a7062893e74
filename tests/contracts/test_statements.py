"""Every statement can be compiled for both engines."""

import sys

import pytest

from tenantry.db.statements import Statement
from tests.contracts.sources import import_everything


def declared() -> dict[str, Statement[object]]:
    import_everything()
    modules = [module for name, module in sys.modules.items() if name.startswith("tenantry.")]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    }


@pytest.mark.parametrize("engine", ["postgresql", "sqlite", "sqlite_first"])
def test_each_declared_statement_is_compiled(engine: str):
    """Tenantry compiles a statement when it is first used, which can be long after the start."""
    found = declared()

    assert len(found) > 150
    for name, statement in found.items():
        try:
            getattr(statement, engine)
        except Exception as error:  # noqa: BLE001 - of SQLAlchemy, any
            pytest.fail(f"{name}: {error}")
