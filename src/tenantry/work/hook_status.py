"""The status of each target of notifications."""

from collections.abc import Mapping
from dataclasses import dataclass

from tenantry.catalog import outbox
from tenantry.catalog.outbox import Attempt, Counts
from tenantry.catalog.session import CatalogSession
from tenantry.kit.hook_settings import Hook


@dataclass(frozen=True)
class HookStatus:
    """A target in the settings, with its notifications and the last attempt, if one is kept."""

    name: str
    hook: Hook
    counts: Counts
    last: Attempt | None


async def status_of(session: CatalogSession, hooks: Mapping[str, Hook]) -> list[HookStatus]:
    """Return the status of every target in the settings, by name."""
    counts = await outbox.counts(session, hooks)
    return [
        HookStatus(name, hooks[name], counts[name], await outbox.last_attempt(session, name))
        for name in sorted(hooks)
    ]
