"""Column types and functions that mean the same on PostgreSQL and on SQLite."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine


class _SqliteInstant(sa.TypeDecorator[datetime]):
    """SQLite has no time zones, so times are stored in UTC, without a zone."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Drop the zone."""
        del dialect
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Put the zone back."""
        del dialect
        return None if value is None else value.replace(tzinfo=UTC)


# A variant, because PostgreSQL needs no conversion.
Instant = sa.DateTime(timezone=True).with_variant(_SqliteInstant(), "sqlite")
"""An instant in UTC, always timezone-aware in Python."""


class Words(sa.TypeDecorator[frozenset[str]]):
    """A set of words without spaces, kept as text."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: sa.Dialect) -> str | None:
        """Join the words, sorted."""
        del dialect
        return None if value is None else " ".join(sorted(value))

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> frozenset[str] | None:
        """Split the words."""
        del dialect
        return None if value is None else frozenset(value.split())


class Numbers(sa.TypeDecorator[list[int]]):
    """A list of whole numbers, kept as text with spaces between them."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: list[int] | None, dialect: sa.Dialect) -> str | None:
        """Join the numbers."""
        del dialect
        return None if value is None else " ".join(map(str, value))

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> list[int] | None:
        """Split the numbers."""
        del dialect
        return None if value is None else [int(number) for number in value.split()]


class Lines(sa.TypeDecorator[list[str]]):
    """A list of texts without line breaks, kept as text, one on each line."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: list[str] | None, dialect: sa.Dialect) -> str | None:
        """Join the lines."""
        del dialect
        return None if value is None else "\n".join(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> list[str] | None:
        """Split the lines."""
        del dialect
        return None if value is None else value.split("\n") if value else []


class Records(sa.TypeDecorator[list[dict[str, object]]]):
    """A list of objects, kept as JSON text. It is read and written whole, and never searched."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: Sequence[object] | None, dialect: sa.Dialect) -> str | None:
        """Encode the list."""
        del dialect
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(
        self, value: str | None, dialect: sa.Dialect
    ) -> list[dict[str, object]] | None:
        """Decode the list."""
        del dialect
        return None if value is None else msgspec.json.decode(value, type=list[dict[str, object]])


Canonical = sa.String().with_variant(sa.String(collation="C"), "postgresql")
"""Text that is compared and sorted byte by byte, regardless of the locale of the database."""


class database_clock_ms(FunctionElement[int]):  # noqa: N801 - reads like the SQL function it is
    """The database's own clock, in milliseconds since 1970: the same for every process."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(database_clock_ms, "postgresql")
def _clock_on_postgresql(_element: object, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(database_clock_ms, "sqlite")
def _clock_on_sqlite(_element: object, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


class json_text(FunctionElement[str]):  # noqa: N801 - reads like the SQL function it is
    """A text as a JSON string, with its quotes."""

    type = sa.String()
    inherit_cache = True


@compiles(json_text, "postgresql")
def _json_text_on_postgresql(element: json_text, compiler: SQLCompiler, **kw: Any) -> str:
    return f"CAST(to_json({compiler.process(element.clauses, **kw)}) AS VARCHAR)"


@compiles(json_text, "sqlite")
def _json_text_on_sqlite(element: json_text, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_quote({compiler.process(element.clauses, **kw)})"


class Ids(sa.TypeDecorator[Sequence[UUID]]):
    """Several ids as one parameter, for `is_listed`: an array, or on SQLite a list as JSON."""

    impl = sa.String
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Return the type of the engine."""
        kind = sa.String() if dialect.name == "sqlite" else sa.ARRAY(sa.Uuid)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Sequence[UUID] | None, dialect: sa.Dialect) -> Any:
        """Write the ids as SQLite stores them."""
        if value is None or dialect.name != "sqlite":
            return value
        return json.dumps([one.hex for one in value])


class Texts(sa.TypeDecorator[Sequence[str]]):
    """Several texts as one parameter, for `is_listed`: an array, or on SQLite a list as JSON."""

    impl = sa.String
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Return the type of the engine."""
        kind = sa.String() if dialect.name == "sqlite" else sa.ARRAY(sa.String)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Sequence[str] | None, dialect: sa.Dialect) -> Any:
        """Write the texts as JSON on SQLite."""
        return value if value is None or dialect.name != "sqlite" else json.dumps(value)


class is_listed(FunctionElement[bool]):  # noqa: N801 - reads like the SQL condition it is
    """Whether a column holds one of the values in a parameter of the type `Ids` or `Texts`."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(is_listed, "postgresql")
def _listed_on_postgresql(element: is_listed, compiler: SQLCompiler, **kw: Any) -> str:
    column, ids = element.clauses
    return f"{compiler.process(column, **kw)} = ANY({compiler.process(ids, **kw)})"


@compiles(is_listed, "sqlite")
def _listed_on_sqlite(element: is_listed, compiler: SQLCompiler, **kw: Any) -> str:
    column, ids = element.clauses
    read = f"SELECT value FROM json_each({compiler.process(ids, **kw)})"  # noqa: S608 - our own
    return f"{compiler.process(column, **kw)} IN ({read})"
