"""What is measured: a function for each group of lines of the table."""

from collections.abc import Callable, Mapping

from harness.bench.figures import Figure
from harness.bench.fleet.rows import attached, growth, memory, postgresql, processes, sqlite
from harness.bench.fleet.yard import Yard

ROWS: Mapping[str, Callable[[Yard], list[Figure]]] = {
    "postgresql-pending": postgresql.pending,
    "postgresql-nothing": postgresql.nothing,
    "sqlite-pending": sqlite.pending,
    "sqlite-nothing": sqlite.nothing,
    "growth-sqlite": growth.on_sqlite,
    "growth-postgresql": growth.on_postgresql,
    "processes": processes.two_over_one,
    "memory-sqlite": memory.on_sqlite,
    "memory-postgresql": memory.on_postgresql,
    "attached-pending": attached.pending,
    "attached-nothing": attached.nothing,
    "attached-start": attached.start,
}
