"""Rows that are copied between engines: a value that is out of range is refused by name."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tenantry.db.copying.row_values import ColumnKind, Kind
from tenantry.db.copying.table_plan import NotCarried, PlannedTable, converter

DEEP = "[" * 100_000 + "]" * 100_000
FILE, SERVER = sqlite.dialect(), postgresql.dialect()


class TestConverted:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (ColumnKind(Kind.NUMERIC, 10, 2), "1e30"),
            (ColumnKind(Kind.NUMERIC), "1e999999999"),
            (ColumnKind(Kind.JSON), "1e999999999"),
            (ColumnKind(Kind.JSON), DEEP),
            (ColumnKind(Kind.INSTANT), "9999-12-31T23:59:59-12:00"),
            (ColumnKind(Kind.INSTANT), "0001-01-01T00:00:00+14:00"),
            (ColumnKind(Kind.FLOAT), 1 << 2000),
        ],
        ids=["digits", "exponent", "json", "depth", "last day", "first day", "integer"],
    )
    def test_refuses_a_value_of_sqlite_that_is_out_of_range(self, kind: ColumnKind, value: object):
        refuse(kind, value, FILE, SERVER)

    @pytest.mark.parametrize("value", ["1e999999999", DEEP], ids=["exponent", "depth"])
    def test_refuses_json_of_postgresql_that_is_out_of_range(self, value: str):
        refuse(ColumnKind(Kind.JSON), value, SERVER, FILE)


def refuse(kind: ColumnKind, value: object, source: sa.Dialect, target: sa.Dialect) -> None:
    row = converter(PlannedTable("note", ["body"], [kind]), source, target)

    with pytest.raises(NotCarried, match=r"note\.body has a value that is out of range, which"):
        row.converted((value,))
