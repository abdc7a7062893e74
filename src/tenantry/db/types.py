"""Column types and functions that mean the same on PostgreSQL and on SQLite."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

Instant = sa.DateTime(timezone=True)
"""An instant in UTC, always timezone-aware in Python. `db.statements` converts it for SQLite."""


class _AsText(sa.TypeDecorator[Any]):
    """A value that is kept as text. It is read and written whole, and never searched."""

    impl = sa.String
    cache_ok = True
    encode: Callable[[Any], str]
    decode: Callable[[str], Any]

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Encode the value."""
        del dialect
        return None if value is None else self.encode(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        """Decode the value."""
        del dialect
        return None if value is None else self.decode(value)


class Words(_AsText):
    """A set of words without spaces, sorted."""

    encode = staticmethod(lambda words: " ".join(sorted(words)))
    decode = staticmethod(lambda text: frozenset(text.split()))


class Numbers(_AsText):
    """A list of whole numbers, with spaces between them."""

    encode = staticmethod(lambda numbers: " ".join(map(str, numbers)))
    decode = staticmethod(lambda text: [int(number) for number in text.split()])


class Lines(_AsText):
    """A list of texts without line breaks, one on each line."""

    encode = staticmethod("\n".join)
    decode = staticmethod(lambda text: text.split("\n") if text else [])


class Records(_AsText):
    """A list of objects, as JSON."""

    encode = staticmethod(lambda records: msgspec.json.encode(records).decode())
    decode = staticmethod(msgspec.json.Decoder(list[dict[str, object]]).decode)


class Texts(_AsText):
    """An object whose members are texts, as JSON."""

    encode = staticmethod(lambda texts: msgspec.json.encode(texts, order="sorted").decode())
    decode = staticmethod(msgspec.json.Decoder(dict[str, str]).decode)


Canonical = sa.String().with_variant(sa.String(collation="C"), "postgresql")
"""Text that is compared and sorted byte by byte, regardless of the locale of the database."""


def sql_function(
    kind: TypeEngine[Any], *, sqlite: str, postgresql: str
) -> type[FunctionElement[Any]]:
    """Return a function of SQL, from its texts on each engine, with ``{}`` for each argument."""

    class Function(FunctionElement[Any]):
        type = kind
        inherit_cache = True

    def compile_as(text: str) -> Callable[..., str]:
        return lambda element, compiler, **options: text.format(
            *(compiler.process(one, **options) for one in element.clauses)
        )

    compiles(Function, "sqlite")(compile_as(sqlite))
    compiles(Function, "postgresql")(compile_as(postgresql))
    return Function


database_clock_ms = sql_function(
    sa.BigInteger(),
    sqlite="CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    postgresql="CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
)
"""The database's own clock, in milliseconds since 1970: the same for every process."""

json_text = sql_function(
    sa.String(), sqlite="json_quote({})", postgresql="CAST(to_json({}) AS VARCHAR)"
)
"""A text as a JSON string, with its quotes."""


class Ids(sa.TypeDecorator[Sequence[UUID]]):
    """Several ids as one parameter, for `is_listed`: an array, or on SQLite a list as JSON."""

    impl = sa.String
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Return the type of the engine."""
        return dialect.type_descriptor(
            sa.String() if dialect.name == "sqlite" else sa.ARRAY(sa.Uuid)
        )

    def process_bind_param(self, value: Sequence[UUID] | None, dialect: sa.Dialect) -> Any:
        """Write the ids as SQLite stores them."""
        if value is None or dialect.name != "sqlite":
            return value
        return json.dumps([one.hex for one in value])


is_listed = sql_function(
    sa.types.NullType(),  # SQLite would use no index for a Boolean, "IN (…) = 1"
    sqlite="{} IN (SELECT value FROM json_each({}))",
    postgresql="{} = ANY({})",
)
"""Whether a column holds one of the values in a parameter of the type `Ids`."""
