"""``tenantry backup cancel``: cancel a backup, a restore or a copy."""

from typing import Annotated

import typer

from tenantry.catalog.jobs import JobNotFound
from tenantry.cli import options, output, session
from tenantry.kit.ids import parse_id


async def cancel(
    job: Annotated[str, typer.Argument(help="The id of a job: see `tenantry backup jobs --json`.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Cancel a queued or running job of any process: what it has begun is removed."""
    job_id = parse_id(job)
    if job_id is None:
        raise JobNotFound
    async with session.opened() as services:
        await services.queueing.cancel(session.context(), job_id)
    output.show_done("The job is being cancelled.", as_json=as_json)
