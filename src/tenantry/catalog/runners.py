"""Runners: the processes that work on this catalog, each with a heartbeat.

What a runner holds (a tenant in a run, a tenant that is being made) is free again when the
runner has been silent for `SILENCE_MS`, by the database's clock.
"""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import runner
from tenantry.db.statements import Statement, insert
from tenantry.db.types import database_clock_ms

SILENCE_MS = 5_000
FORGOTTEN_MS = 3_600_000

NOBODY = UUID(int=0)
"""A worker that is always dead: its parts can be claimed, and may have been started."""

_now = database_clock_ms()
_BEAT = Statement[Any](
    insert(runner)
    .values(id=sa.bindparam("id"), seen_at_ms=_now)
    .on_conflict_do_update(index_elements=[runner.c.id], set_={"seen_at_ms": _now})
)
# Written before the clock was set back: silent from now on, unless its runner beats again.
_CORRECT = Statement[Any](
    sa.update(runner).values(seen_at_ms=_now).where(runner.c.seen_at_ms > _now + SILENCE_MS)
)
_REMOVE = Statement[Any](sa.delete(runner).where(runner.c.id == sa.bindparam("id")))
_FORGET = Statement[Any](sa.delete(runner).where(runner.c.seen_at_ms < _now - FORGOTTEN_MS))

living = sa.select(runner.c.id).where(runner.c.seen_at_ms >= _now - SILENCE_MS)
"""The runners that were heard of lately."""


def is_abandoned(
    holder: sa.ColumnElement[Any], runner_id: sa.BindParameter[Any]
) -> sa.ColumnElement[bool]:
    """Return the condition that the *holder* is dead, as seen by *runner_id*.

    A worker ignores its own expired heartbeat: it is still working on what it holds.
    """
    return sa.and_(holder != runner_id, holder.not_in(living))


async def beat(session: CatalogSession, runner_id: UUID) -> None:
    """Say that a runner lives."""
    await session.execute(_BEAT, id=runner_id)
    await session.execute(_CORRECT)


async def remove(session: CatalogSession, runner_id: UUID) -> None:
    """Say that a runner has ended, and clear away those that ended without saying so."""
    await session.execute(_REMOVE, id=runner_id)
    await session.execute(_FORGET)
