"""Settings, logs and services for one command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenantry.kit import log
from tenantry.kit.context import OperationContext
from tenantry.services import Services, open_services, system_context
from tenantry.settings import Settings, read_settings

ACTOR = "command line"


def context() -> OperationContext:
    """Return the context of what somebody asks on the command line."""
    return system_context(ACTOR)


def configure(*, log_level: str = "warning", **overrides: object) -> Settings:
    """Return the settings of this process, and set up its logs.

    Args:
        log_level: The least important event that is logged, unless a setting says which.
        overrides: What the options say; None is nothing said.

    Raises:
        BadSettings: One is wrong, or not known.
    """
    settings = read_settings(**overrides)
    is_set = "log_level" in settings.model_fields_set
    log.configure(log_format=settings.log_format, level=settings.log_level if is_set else log_level)
    return settings


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    """Open the services for a command that only asks, or changes one thing.

    It takes no part in migration runs: a list must not wait for the tenant that it has
    begun to migrate.

    Raises:
        CatalogUnusable: The catalog cannot be reached, or cannot be brought up to date.
        WrongSecretKey: The catalog was sealed with another key.
    """
    async with open_services(settings, works=False) as services:
        yield services
