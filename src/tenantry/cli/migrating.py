"""Migrate every tenant from the command line."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

from tenantry.catalog import runs
from tenantry.catalog.run_tenants import MigrationRunEnded
from tenantry.catalog.runs import MigrationRun, RunContinues
from tenantry.cli import session
from tenantry.cli.printing import output
from tenantry.cli.printing.progress import Found, follow, found, shown_on
from tenantry.cli.serving import signals
from tenantry.cli.session import RunServices
from tenantry.fleet.active_runs import changes_of, files_of, has_files, is_known_to_any
from tenantry.fleet.run_options import RunOptions
from tenantry.fleet.run_undo import known_scripts
from tenantry.kit.errors import Conflict
from tenantry.migration.run_scripts import RunScripts

STOP_SECONDS_MAX, STOP_POLL_SECONDS = 15.0, 0.2
"""A killed process is noticed after `workers.SILENCE_MS`."""


async def check_revisions(services: RunServices) -> None:
    """Check that the revisions have a head: otherwise every tenant would fail.

    Raises:
        BadStream: The directory of revisions cannot be read, is empty, or has several heads.
    """
    await asyncio.to_thread(RunScripts(services.streams()).head)


class OtherFiles(Conflict):
    """The files are not those with which the run began."""

    def __init__(self, run_id: UUID, changes: str) -> None:
        super().__init__(
            "These are not the files with which the run began, so it is not continued: "
            f"{changes} Restore them, or end the run: {session.command('cancel', run_id)}."
        )


async def check_files(services: RunServices, run: MigrationRun) -> None:
    """Check that this process may work on a run, as `active_runs` does, or that another one does.

    Raises:
        OtherFiles: It may not, and none does.
        DatabaseUnavailable: The catalog cannot be reached.
    """
    files = await files_of(services.catalog, run)
    if files is None or await is_known_to_any(services.catalog, run.id):
        return
    scripts, _ = await asyncio.to_thread(known_scripts, run, services.streams())
    if not await asyncio.to_thread(has_files, run, scripts, files):
        raise OtherFiles(run.id, await asyncio.to_thread(changes_of, run, scripts, files))


class RunLeft(RunContinues):
    """This process received a signal to stop before the run has ended."""

    def __init__(self, run_id: UUID) -> None:
        super().__init__(
            f"Stopped. Any serving process, or {session.command('continue', run_id)}, continues "
            f"the run; {session.command('show', run_id)} shows its progress."
        )


async def migrate_all(
    services: RunServices,
    *,
    triggered_by: str,
    options: RunOptions,
    plan_id: UUID | None = None,
    passed_only: bool = False,
) -> Found:
    """Plan a run, and work on it here until it has ended, or holds after a wave.

    Args:
        services: The services of this process; their worker works on every run.
        triggered_by: The e-mail address of the admin that starts the run.
        options: The tenants and the options of the run.
        plan_id: The plan that it runs, if any.
        passed_only: Whether it has only the tenants that the rehearsal of the plan passed.

    Raises:
        BadStream: The directory of revisions cannot be read; no run was created.
        BadRunOptions, BadText, MigrationRunNotFound: An option is invalid; no run was created.
        PlanNotFound, PlanChanged, Conflict: The plan cannot be started; no run was created.
        RunLeft: This process received a signal to stop.
        DatabaseUnavailable: The catalog has not answered for `TENANTRY_SERVER_PATIENCE_S`.
    """
    plan = partial(
        services.fleet.plan,
        session.context(),
        triggered_by=triggered_by,
        options=options,
        plan_id=plan_id,
        passed_only=passed_only,
    )
    return await work_on(services, plan)


async def resume(services: RunServices, run_id: UUID, *, wave: int | None) -> Found:
    """Work on a run here like `migrate_all`; with *wave*, start the one after that first.

    Raises:
        BadStream: The directory of revisions cannot be read; the run was not continued.
        MigrationRunNotFound, MigrationRunEnded, RunNotHolding: It cannot be continued.
        OtherFiles: It began with other files; it was not continued.
        RunLeft, DatabaseUnavailable: As for `migrate_all`.
    """

    async def begin() -> UUID:
        run = await runs.get(services.catalog, run_id)
        if run.finished_at is None:
            await check_files(services, run)
        if wave is not None:
            await services.fleet.resume(session.context(), run_id, wave=wave)
        elif run.finished_at is not None:
            raise MigrationRunEnded
        services.worker.hint()
        return run_id

    return await work_on(services, begin)


async def until_stopped(services: RunServices, run_id: UUID) -> None:
    """Work on a run that is to stop until it has ended, for up to `STOP_SECONDS_MAX`.

    Its process may have been killed, and a fleet has no other one.

    Raises:
        MigrationRunNotFound: There is no run with this id.
        DatabaseUnavailable: The catalog cannot be reached.
    """
    for _ in range(int(STOP_SECONDS_MAX / STOP_POLL_SECONDS)):
        run = await runs.get(services.catalog, run_id)
        if run.stop_reason is None or run.finished_at is not None:
            return
        await asyncio.sleep(STOP_POLL_SECONDS)


async def work_on(services: RunServices, begin: Callable[[], Awaitable[UUID]]) -> Found:
    """Work here on the run that *begin* returns, until it has ended or holds after a wave.

    After a signal, the tenants that this process has started are finished, also if *begin* fails;
    a second one interrupts them.

    Raises:
        BadStream: The directory of revisions cannot be read; *begin* was not called.
        RunLeft, DatabaseUnavailable: As for `migrate_all`.
    """
    await check_revisions(services)
    stopping: list[asyncio.Task[None]] = []

    def begin_to_stop() -> None:
        stopping.append(asyncio.create_task(services.worker.stop()))

    with signals.handled(begin_to_stop), shown_on(output.progress()) as show:
        try:
            run_id = await begin()
            run = await follow(
                services.catalog,
                run_id,
                show=show,
                lost_seconds_max=services.patience_seconds,
                left=lambda: RunLeft(run_id) if any(one.done() for one in stopping) else None,
                until_held=True,
            )
        except Exception:
            # The started tenants need the catalog, which is closed after this.
            await asyncio.gather(*stopping, return_exceptions=True)
            raise
    return await found(services.catalog, run)
