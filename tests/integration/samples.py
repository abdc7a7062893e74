"""A table with a column of every type, and statements on it."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement, insert
from tenantry.db.types import Canonical, Instant, Lines, Words, database_clock_ms
from tenantry.kit.errors import Conflict

sample = sa.Table(
    "sample",
    sa.MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_N_name)s"}),
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("at", Instant, nullable=True),
    sa.Column("words", Words, nullable=True),
    sa.Column("lines", Lines, nullable=True),
    sa.Column("flag", sa.Boolean, nullable=True),
    sa.Column("note", Canonical, nullable=True),
    sa.Column("number", sa.BigInteger, nullable=True),
    sa.Column("blob", sa.LargeBinary, nullable=True),
    sa.UniqueConstraint("note"),
)


class Sample(msgspec.Struct, frozen=True):
    id: UUID
    at: datetime | None = None
    words: frozenset[str] | None = None
    lines: list[str] | None = None
    flag: bool | None = None
    note: str | None = None
    number: int | None = None
    blob: bytes | None = None


class NoteInUse(Conflict):
    """The note is taken."""


class Clock(msgspec.Struct, frozen=True):
    ms: int


ADD = Statement[Any](sa.insert(sample), conflicts={"uq_sample_note": NoteInUse})
FIND = Statement(sa.select(sample).where(sample.c.id == sa.bindparam("id")), Sample)
NOTES = Statement(sa.select(sample).order_by(sample.c.note), Sample)
FIND_FLAG = Statement(sa.select(sample).where(sample.c.flag == sa.bindparam("flag")), Sample)
FIND_SINCE = Statement(
    sa.select(sample).where(sample.c.at >= sa.bindparam("since", type_=Instant)), Sample
)
UPSERT = Statement(
    insert(sample)
    .values(id=sa.bindparam("id"), number=1)
    .on_conflict_do_update(
        index_elements=[sample.c.id], set_={"number": sample.c.number + sa.bindparam("more")}
    )
    .returning(*sample.c),
    Sample,
)
CLOCK = Statement(sa.select(database_clock_ms().label("ms")), Clock)
