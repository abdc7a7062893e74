"""Workers: the processes that work on this catalog, each with a heartbeat.

With its heartbeat, a process publishes the runs of which it has the revisions, and the tenant
servers that it cannot reach, or that its settings lack. Other workers take over what a worker
holds (a tenant in a run, a tenant in provisioning) after `SILENCE_MS` without a heartbeat, by the
database's clock.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession, Value, fetch_value
from tenantry.catalog.tables import worker
from tenantry.db.statements import Statement, insert, parameters
from tenantry.db.types import database_clock_ms

SILENCE_MS = 5_000
FORGOTTEN_MS = 3_600_000

NO_WORKER = UUID(int=0)
"""The id of no worker: its items can be claimed, and may have been started."""


class Report(msgspec.Struct, frozen=True):
    """What a process publishes with its heartbeat.

    Attributes:
        runs: The unfinished runs whose revisions it knows.
        away: For how many seconds it has not reached a tenant server, by the server's name.
        causes: Why it does not reach them.
        unknown: The tenant servers that its runs need, and its settings lack.
        in_work: The tenants that it is migrating.
        program: Its host, process id and release, as text.
        answers: Its answers to the tenants of runs that hold until their error rate is checked.
    """

    runs: frozenset[UUID] = frozenset()
    away: Mapping[str, float] = {}
    causes: Mapping[str, str] = {}
    unknown: Collection[str] = ()
    in_work: Sequence["InWork"] = ()
    program: str = ""
    answers: Sequence["WaveAnswers"] = ()


class WaveAnswers(msgspec.Struct, frozen=True):
    """The answers of one process to the tenants of the waves of a run that have ended.

    Attributes:
        wave: The wave after which the run holds.
        before: How many the process sent before the run began; it began after some of them.
        before_errors: How many of them had a status of 5xx.
        since: How many it has sent since then.
        is_complete: Whether it counts the answers to all tenants.
    """

    run_id: UUID
    wave: int
    before: int
    before_errors: int
    since: int
    since_errors: int
    is_complete: bool


class InWork(msgspec.Struct, frozen=True):
    """A tenant that a process is migrating, and for how long."""

    run_id: UUID
    tenant_id: UUID
    tenant_name: str
    server_name: str
    ms: int


class Published(msgspec.Struct, frozen=True):
    """The report of a process, and when it was written by the database's clock.

    Attributes:
        is_alive: Whether it had a heartbeat in the last `SILENCE_MS`.
    """

    id: UUID
    seen_at_ms: int
    is_alive: bool
    runs: frozenset[str]
    away: list[dict[str, Any]]
    in_work: list[dict[str, Any]]
    program: str
    answers: list[dict[str, Any]]

    @property
    def tenants_in_work(self) -> list[InWork]:
        """The tenants that it was migrating; a silent process may have lost them to another."""
        return msgspec.convert(self.in_work, list[InWork])

    def answers_of(self, run_id: UUID, wave: int) -> WaveAnswers | None:
        """Return its answers to the tenants of a run that holds after *wave*, if it has counted."""
        answers = msgspec.convert(self.answers, list[WaveAnswers])
        return next((one for one in answers if (one.run_id, one.wave) == (run_id, wave)), None)

    def knows(self, run_id: UUID) -> bool:
        """Return whether the process knows the revisions of a run."""
        return str(run_id) in self.runs

    @property
    def away_causes(self) -> dict[str, str | None]:
        """Why it has not reached the servers; an older release does not say it."""
        return {one["server"]: one.get("cause") for one in self.away}

    @property
    def away_since_ms(self) -> dict[str, int]:
        """Since when the process has not reached a tenant server, by the server's name."""
        return {
            one["server"]: self.seen_at_ms - one["ms"] for one in self.away if one["ms"] is not None
        }

    @property
    def unreachable(self) -> frozenset[str]:
        """The tenant servers that the process has not reached, or that its settings lack."""
        return frozenset(one["server"] for one in self.away)

    @property
    def unknown(self) -> frozenset[str]:
        """The tenant servers that the settings of the process lack."""
        return frozenset(one["server"] for one in self.away if one["ms"] is None)


_now = database_clock_ms()
_NOW = Statement(sa.select(_now.label("value")), Value)
_reported = {"seen_at_ms": _now, **parameters("runs", "away", "in_work", "program", "answers")}
_BEAT = Statement[Any](
    insert(worker)
    .values(id=sa.bindparam("id"), **_reported)
    .on_conflict_do_update(index_elements=[worker.c.id], set_=_reported)
)
_is_alive = worker.c.seen_at_ms >= _now - SILENCE_MS
_report = {**worker.c, "is_alive": sa.type_coerce(_is_alive, sa.Boolean).label("is_alive")}
_PUBLISHED = Statement(
    sa.select(*(_report[name] for name in Published.__struct_fields__)).where(
        worker.c.seen_at_ms >= _now - sa.bindparam("within_ms", type_=sa.BigInteger)
    ),
    Published,
)
# Written before the clock was set back: silent from now on, unless its worker beats again.
_CORRECT = Statement[Any](
    sa.update(worker).values(seen_at_ms=_now).where(worker.c.seen_at_ms > _now + SILENCE_MS)
)
_REMOVE = Statement[Any](sa.delete(worker).where(worker.c.id == sa.bindparam("id")))
_FORGET = Statement[Any](sa.delete(worker).where(worker.c.seen_at_ms < _now - FORGOTTEN_MS))

living = sa.select(worker.c.id).where(_is_alive)
"""The workers that were heard of lately."""


def is_abandoned(
    holder: sa.ColumnElement[Any], worker_id: sa.BindParameter[Any]
) -> sa.ColumnElement[bool]:
    """Return the condition, for *worker_id*, that the *holder* has no current heartbeat.

    A worker ignores its own expired heartbeat: it is still working on what it holds.
    """
    return sa.and_(holder != worker_id, holder.not_in(living))


async def beat(
    session: CatalogSession,
    worker_id: UUID,
    report: Report = Report(),  # noqa: B008 - it is frozen
) -> None:
    """Write the heartbeat of a process, and its report."""
    runs = frozenset(map(str, report.runs))
    away: list[dict[str, Any]] = [
        {"server": name, "ms": round(s * 1000), "cause": report.causes.get(name)}
        for name, s in report.away.items()
    ]
    away += [{"server": name, "ms": None} for name in report.unknown]
    in_work = [msgspec.to_builtins(one) for one in report.in_work]
    answers = [msgspec.to_builtins(one) for one in report.answers]
    values = {"away": away, "in_work": in_work, "program": report.program, "answers": answers}
    await session.execute(_BEAT, id=worker_id, runs=runs, **values)
    await session.execute(_CORRECT)


async def published(session: CatalogSession, *, within_ms: int = SILENCE_MS) -> list[Published]:
    """Return the reports of the processes that had a heartbeat in the last *within_ms*."""
    return await session.fetch_all(_PUBLISHED, within_ms=within_ms)


async def remove(session: CatalogSession, worker_id: UUID) -> None:
    """Remove a worker that has ended, and workers that died without being removed."""
    await session.execute(_REMOVE, id=worker_id)
    await session.execute(_FORGET)


async def now_ms(session: CatalogSession) -> int:
    """Return the time of the database's clock, in milliseconds since 1970.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    return int(await fetch_value(session, _NOW))
