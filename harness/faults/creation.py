"""A PostgreSQL server that takes long to create a database."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from harness.faults.shim import Failing

CREATION = "creation"
SLOW = Failing(CREATION, 1, 0)
SLOW_SECONDS = 8.0
"""Longer than a process may be silent."""


@contextmanager
def slow_creation(server_url: str) -> Iterator[None]:
    """Let each CREATE DATABASE in the block wait, until `SLOW_SECONDS` after its beginning."""
    # CREATE DATABASE waits for a lock of its template; COMMENT holds one that conflicts with it.
    with psycopg.connect(server_url) as connection:
        names = connection.execute("SELECT datname FROM pg_database").fetchall()
        for (name,) in names:
            comment = sql.SQL("COMMENT ON DATABASE {} IS 'busy'").format(sql.Identifier(name))
            connection.execute(comment)
        timer = threading.Timer(SLOW_SECONDS, connection.rollback)
        timer.start()
        try:
            yield
        finally:
            timer.join()
