"""``tenantry tenant attach`` and ``detach``: databases that are migrated, and not served."""

from typing import Annotated

import typer

from tenantry.catalog.labels import labels_after
from tenantry.cli import options, session
from tenantry.cli.database_urls import read_url
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import opened_tenant
from tenantry.cli.printing import output
from tenantry.cli.tenant_reading import show_tenant


async def attach(
    name: Annotated[str, typer.Argument(help="The name under which it is listed.")],
    *,
    url: Annotated[
        str,
        typer.Option(
            help="Its URL: sqlite:///PATH, or postgresql://USER@HOST/DATABASE. With a password: "
            "`-` reads the URL from standard input, or name a file in it: ?passfile=PATH."
        ),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label of it. Can be repeated."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="It is attached, and its password has changed.")
    ] = False,
) -> None:
    """Attach a database that follows your revisions, and is not served.

    Runs, plans, undo, waves, labels and the check for drift include it. It has no users, posts and
    API keys, and gets no tables of Tenantry, but the log of its revisions with the first run. It is
    not backed up, copied or moved. Its URL is stored, encrypted with TENANTRY_SECRET_KEY. For
    databases of another project use `tenantry fleet migrate`.
    """
    address = read_url("--url", url)
    if replace:
        if label:
            raise Misuse("--replace changes no label: use `tenantry tenant label`.")
        async with opened_tenant(name) as (services, found):
            await services.attaching.replace_url(session.context(), found, address)
        output.show_done(f"The URL of {found.name} was replaced.")
        return
    async with session.opened() as services:
        attached = await services.attaching.attach(
            session.context(), name=name, url=address, labels=labels_after({}, label or [])
        )
    show_tenant(attached)
    if not output.wants_json():
        output.note("The next `tenantry migrate all` applies your pending revisions.")


async def detach(tenant: options.Tenant) -> None:
    """Forget an attached database. Nothing is changed in it; its runs stay in the history."""
    async with opened_tenant(tenant) as (services, found):
        await services.attaching.detach(session.context(), found)
    output.show_done(f"{found.name} is detached; its database is unchanged.")
