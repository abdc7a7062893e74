"""Which variants of a test are in the quick suite; the slow one has the others.

What is below the doors is tested on both engines by the quick suite. So is what may differ at the
doors: requests at the same time, outages, and the first path of each resource. The other tests of
the doors, and those of the options of a run, run on SQLite there, and on PostgreSQL in the slow
suite.
"""

import zlib

import pytest

DOORS = ("tests/acceptance/", "tests/contracts/")
ON_BOTH_ENGINES = {
    "test_connections",
    "test_deadlines",
    "test_locks",
    "test_migrate_all",
    "test_profile",
    "test_races",
    "test_streams",
    "test_tenant_login",
    "test_tenant_users",
    "test_tenants",
}
OPTIONS_OF_RUNS = {
    "test_approved_plans",
    "test_error_rate",
    "test_holds",
    "test_hooks",
    "test_labels",
    "test_planning",
    "test_run_options",
    "test_undo_runs",
    "test_waves",
}
ENGINES = ("engine", "module_settings")
# Each shape is compared with plain Alembic. Of those in a tenant's file, the quick suite has one in
# four; of those in attached databases, one in eight on each engine.
SHAPES_EACH = {"tests/corpus/test_on_sqlite.py": 4, "tests/corpus/test_attached.py": 8}


def is_slow(item: pytest.Item) -> bool:
    """Return whether only the slow suite runs a test, besides those that are marked."""
    file, _, name = item.nodeid.partition("::")
    if file in SHAPES_EACH:
        return zlib.crc32(name.encode()) % SHAPES_EACH[file] != 0
    module = file.rpartition("/")[2].removesuffix(".py")
    is_door = file.startswith(DOORS) and module not in ON_BOTH_ENGINES
    return (is_door or module in OPTIONS_OF_RUNS) and _is_second_engine(item)


def _is_second_engine(item: pytest.Item) -> bool:
    """Return whether it runs on PostgreSQL, and on SQLite, too."""
    chosen = getattr(item, "callspec", None)
    chooses = any("engine" in mark.args[0] for mark in item.iter_markers("parametrize"))
    return not chooses and any(
        chosen is not None and chosen.params.get(one) == "postgresql" for one in ENGINES
    )
