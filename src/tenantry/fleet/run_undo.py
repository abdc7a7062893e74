"""Undo a run: whether it can be undone, and the scripts of the run that undoes it.

An undo is a run like any other, over the tenants to which the undone run has applied revisions.
"""

import asyncio
from dataclasses import replace

from tenantry.catalog import run_results, runs
from tenantry.catalog.runs import UNDO_OF, MigrationRun
from tenantry.catalog.session import CatalogSession
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.kit.errors import Conflict
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import BadStream, Streams
from tenantry.migration.undo import UndoScripts


class RunUnfinished(Conflict):
    """The run has not ended: cancel it, or wait for its end, and undo it then."""


class UndoOfUndo(Conflict):
    """The run is itself an undo. Migrate forward instead: that applies the revisions again."""


class NothingToUndo(Conflict):
    """No active, writable and selected tenant has a revision of the run that was not undone."""


class NothingToRetry(Conflict):
    """The run has not ended, and none of the selected tenants can be retried so far."""


class RunNotLogged(Conflict):
    """The run was made with --no-log, so no database says what it has applied: migrate forward."""


async def with_undo(session: CatalogSession, options: RunOptions) -> RunOptions:
    """Return *options* with what they undo: the retry of an undo is an undo of the same run.

    Raises:
        MigrationRunNotFound: There is no run with the id in `retry_of`.
        BadRunOptions: That run is no undo of the run that is to be undone.
    """
    if options.retry_of is None:
        return options
    retried = await runs.get(session, options.retry_of)
    if options.undoes not in (None, retried.undoes):
        raise BadRunOptions("`retryOf` is not an undo of this run.")
    return replace(options, undoes=retried.undoes)


async def scripts_of(session: CatalogSession, streams: Streams, options: RunOptions) -> RunScripts:
    """Return the scripts of a run with these options.

    Raises:
        MigrationRunNotFound: There is no run with the id in `undoes`.
        RunUnfinished, UndoOfUndo, NothingToUndo, NoDowngrade, RevisionLost, RunNotLogged: It cannot
            be undone.
        BadStream: The directory of revisions cannot be read.
    """
    if options.undoes is None:
        return RunScripts(streams)
    run = await runs.get(session, options.undoes)
    if run.undoes is not None:
        raise UndoOfUndo
    if run.finished_at is None:
        raise RunUnfinished
    if not run.has_log:
        raise RunNotLogged
    # As the run: a revision that is in its log alone would count as applied.
    scripts = UndoScripts(replace(streams, has_log=True), run.id)
    names = await run_results.applied(session, run.id)
    is_users = await asyncio.to_thread(scripts.check, names)
    # A process that was frozen can have applied revisions after its tenant had failed.
    if not is_users and not await run_results.has_taken_failures(session, run.id):
        raise NothingToUndo
    return scripts


async def check_empty(session: CatalogSession, options: RunOptions) -> None:
    """Check that a run without tenants is no mistake.

    Raises:
        NothingToRetry: It retries a run that has not ended.
        NothingToUndo: It is an undo.
    """
    if options.retry_of is not None:
        retried = await runs.get(session, options.retry_of)
        if retried.finished_at is None:
            raise NothingToRetry
    if options.undoes is not None:
        raise NothingToUndo


async def head_of(session: CatalogSession, scripts: RunScripts) -> str | None:
    """Return the position of the head; None if it cannot be read: then every tenant fails.

    For an undo, it is that of the undone run, after `UNDO_OF`.
    """
    if scripts.undo is not None:
        undone = await runs.get(session, scripts.undo.run_id)
        return f"{UNDO_OF}{undone.head}"
    try:
        return str(await asyncio.to_thread(scripts.head))
    except BadStream:
        return None


def known_scripts(run: MigrationRun, streams: Streams) -> tuple[RunScripts, bool]:
    """Return the scripts of a recorded run, and whether they may be used for it.

    Their revisions must include its head. If the run holds after waves, and is not stopped, they
    must end there: else the tenants that waited would get revisions that those of the first wave
    never had.

    This reads files: call it in a thread.
    """
    if run.has_log is not streams.has_log:  # the run decides, and not this process
        streams = replace(streams, has_log=run.has_log)
    scripts = RunScripts(streams) if run.undoes is None else UndoScripts(streams, run.undoes)
    must_end = run.holds and run.undoes is None and run.stop_reason is None
    if must_end and run.head is not None:
        return scripts, scripts.end_at(run.head)
    return scripts, run.head is None or scripts.have(run.head.removeprefix(UNDO_OF))
