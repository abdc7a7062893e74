"""Checksums of the rows of each table, independent of their order.

Two databases of the same engine are compared by these. Each row is hashed, and the hashes of a
table are added.
"""

import contextlib
import sqlite3
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.survey import POSTGRES_TABLES, SQLITE_TABLES
from tenantry.kit.stopping import Stop

HASH_BYTES = 8
CHECKED_ROWS = 1_000

# The text of a value depends on these; a database or a role may have others.
SETTINGS = """
SET datestyle = 'ISO'; SET timezone = 'UTC'; SET intervalstyle = 'postgres';
SET bytea_output = 'hex'; SET extra_float_digits = 1; SET lc_monetary = 'C';
"""
# 60 bits of each MD5, as a positive number; the sum of a bigint is a numeric.
_SUM = """
SELECT coalesce(sum(('x' || left(md5((row_of_table.*)::text), 15))::bit(60)::bigint), 0)::text
FROM ONLY {} AS row_of_table
"""


def encode_row(row: object) -> bytes:
    """Return what identifies a row of Python values."""
    return repr(row).encode(errors="surrogatepass")


def row_hash(encoded: bytes) -> int:
    """Return the hash of an encoded row."""
    return int.from_bytes(blake2b(encoded, digest_size=HASH_BYTES).digest())


def checksums_sqlite(path: Path, stop: Stop, *, is_private: bool) -> dict[str, str]:
    """Return the checksum of each table of a file, in one snapshot. Blocks.

    Args:
        path: The file.
        stop: Ends it early.
        is_private: Whether no other process has the file open; then no files are added to it.

    Raises:
        DatabaseUnavailable: It cannot be read.
    """
    sums = {}
    option = "&immutable=1" if is_private else ""
    uri = f"{path.absolute().as_uri()}?mode=ro{option}"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as raw:
            raw.text_factory = bytes  # text may be no valid UTF-8
            raw.execute("PRAGMA trusted_schema = OFF")
            raw.execute("BEGIN")
            for (name,) in raw.execute(SQLITE_TABLES).fetchall():
                quoted = name.decode().replace('"', '""')
                rows = raw.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - a quoted name
                total = 0
                for number, row in enumerate(rows):
                    if not number % CHECKED_ROWS:
                        stop.check()
                    total += row_hash(encode_row(row))
                sums[name.decode()] = str(total)
    except sqlite3.Error as error:
        raise DatabaseUnavailable from error
    return sums


async def checksums_postgres(raw: Any) -> dict[str, str]:
    """Return the checksum of each table of a database.

    Raises:
        Exception: Any error of the driver.
    """
    await raw.execute(SETTINGS)
    tables = [str(row[0]) for row in await raw.fetch(POSTGRES_TABLES)]
    return {table: str(await raw.fetchval(_SUM.format(table), timeout=None)) for table in tables}
