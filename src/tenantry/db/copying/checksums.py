"""Checksums of the rows of each table, independent of their order.

Two databases of the same engine are compared by these. Each row is hashed, and the hashes of a
table are added.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any

from tenantry.db.copying import survey
from tenantry.db.copying.survey import POSTGRES_TABLES, SQLITE_TABLES
from tenantry.db.postgres import session_settings
from tenantry.db.sqlite import connections as sqlite
from tenantry.kit.stopping import Stop

HASH_BYTES = 8
CHECKED_ROWS = 1_000

_SET_TEXTS = session_settings.setting(session_settings.TEXTS)
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
    """Return the checksum of each table of a file, in one snapshot; see `survey.reading`."""
    sums = {}
    with survey.reading(path, is_private=is_private) as raw:
        names = [str(row[0]) for row in raw.execute(SQLITE_TABLES)]
        raw.text_factory = bytes  # text may be no valid UTF-8
        for name in names:
            rows = raw.execute(f"SELECT * FROM {sqlite.quoted(name)}")  # noqa: S608 - a quoted name
            total = 0
            for number, row in enumerate(rows):
                if not number % CHECKED_ROWS:
                    stop.check()
                total += row_hash(encode_row(row))
            sums[name] = str(total)
    return sums


async def checksums_postgres(raw: Any) -> dict[str, str]:
    """Return the checksum of each table of a database.

    Raises:
        Exception: Any error of the driver.
    """
    await raw.execute(_SET_TEXTS)
    tables = [str(row[0]) for row in await raw.fetch(POSTGRES_TABLES)]
    return {table: str(await raw.fetchval(_SUM.format(table), timeout=None)) for table in tables}
