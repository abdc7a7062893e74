"""The output of a command that restores or copies a tenant."""

from contextlib import nullcontext

import typer
from msgspec import UNSET, UnsetType

from tenantry.backup.restoring import Restored
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.cli.tenant_reading import place_of
from tenantry.schemas.tenants import TenantResponse


class RestoredTenant(TenantResponse, frozen=True):
    """A restored tenant; with its API key if it is a new tenant."""

    api_key: str | UnsetType = UNSET
    behind: str | None = None
    schedules_removed: int = 0


def show_restored(restored: Restored) -> None:
    """Print a restored tenant.

    Raises:
        typer.Exit: It could not be migrated to the head.
    """
    tenant, key = restored.tenant, restored.key
    response = RestoredTenant.of(
        tenant,
        api_key=UNSET if key is None else key.secret,
        behind=restored.behind,
        schedules_removed=restored.schedules_removed,
    )
    remedy = f"`tenantry key rotate {tenant.id} {key.key.id}` replaces it." if key else ""
    with output.only_once("The API key is", remedy) if key else nullcontext():
        if not output.shown_as_json(response):
            attributes = {**place_of(tenant), "active": tenant.is_active}
            output.show_attributes({**attributes, **({"API key": key.secret} if key else {})})
    if restored.schedules_removed and not output.wants_json():
        output.note(f"Posts that the copy does not schedule: {restored.schedules_removed}.")
    if restored.behind is not None:
        output.note(
            f"The data are restored. The tenant stays suspended, because it could not be migrated: "
            f"{restored.behind}"
        )
        raise typer.Exit(ExitStatus.TENANTS_FAILED)
