"""Which variants of a test are in the quick suite; the slow one has the others.

What speaks to a database itself - connections, migrations, copies of tables - is tested on both
engines by the quick suite. So is what may differ at the doors: requests at the same time, and
outages. The other tests of the doors, and those of the options of a run, run on SQLite there, and
on PostgreSQL in the slow suite. Between the two, and for the first path of each resource, a test
runs on one engine there, which its name chooses, and on the other one in the slow suite. Of the
tests that wait for seconds, the quick suite has some.
"""

import zlib

import pytest

DOORS = ("tests/acceptance/", "tests/contracts/")
ON_BOTH_ENGINES = {
    "test_connections",
    "test_deadlines",
    "test_locks",
    "test_races",
    "test_streams",
}
FIRST_PATHS = {
    "test_migrate_all",
    "test_profile",
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
BETWEEN = {
    "test_adopt",
    "test_attached_databases",
    "test_audit",
    "test_backup",
    "test_cache",
    "test_cancel",
    "test_deletion",
    "test_drift",
    "test_export",
    "test_fleet_state",
    "test_job_queue",
    "test_lifecycle",
    "test_password_attempts",
    "test_placement",
    "test_post_hooks",
    "test_post_upgrade",
    "test_read_only",
    "test_restore",
    "test_runs",
    "test_s3_faults",
    "test_scheduled_copies",
    "test_signing_keys",
    "test_sql_files",
    "test_templates",
    "test_tenant_counts",
    "test_tenant_search",
    "test_unowned",
    "test_where",
}
ENGINES = ("engine", "module_settings")
# The quick suite has one in so many tests of these. Each shape of the corpus is compared with plain
# Alembic; the others wait for seconds, or are the same test with many moments.
EACH = {
    "tests/corpus/test_on_sqlite.py": 4,
    "tests/corpus/test_attached.py": 16,
    "tests/integration/test_error_rate.py": 3,
    "tests/integration/test_full_server.py": 3,
    "tests/integration/test_hooks.py": 3,
    "tests/integration/test_late_processes.py": 2,
    "tests/integration/test_post_hooks.py": 3,
}


def is_slow(item: pytest.Item) -> bool:
    """Return whether only the slow suite runs a test, besides those that are marked."""
    file, _, name = item.nodeid.partition("::")
    if zlib.crc32(name.encode()) % EACH.get(file, 1):
        return True
    module = file.rpartition("/")[2].removesuffix(".py")
    is_door, engine = file.startswith(DOORS), _engine(item)
    if engine and module in (FIRST_PATHS if is_door else BETWEEN):
        return engine != _engine_of(name)
    is_on_sqlite = module not in ON_BOTH_ENGINES if is_door else module in OPTIONS_OF_RUNS
    return is_on_sqlite and engine == "postgresql"


def _engine(item: pytest.Item) -> str:
    """Return the engine of a test that runs on both; of any other, an empty string."""
    chosen = getattr(item, "callspec", None)
    if chosen is None or any("engine" in one.args[0] for one in item.iter_markers("parametrize")):
        return ""
    return next((str(chosen.params[one]) for one in ENGINES if one in chosen.params), "")


def _engine_of(name: str) -> str:
    """Return the engine on which the quick suite runs a test, of its name on either engine."""
    of_both = name.replace("postgresql", "sqlite")
    return ("sqlite", "postgresql")[zlib.crc32(of_both.encode()) % 2]
