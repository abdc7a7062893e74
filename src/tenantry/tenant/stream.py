"""Tenantry's own revisions of a tenant, and the user's. In its own module: it imports Alembic."""

from pathlib import Path

from tenantry.migration.streams import Stream, Streams
from tenantry.settings import Settings

STREAM = Stream("tenantry", Path(__file__).parent / "revisions")


def streams_of(settings: Settings) -> Streams:
    """Return the streams of every tenant: Tenantry's own, and that of the settings, if any."""
    folder = settings.tenant_migrations
    user = None if folder is None else Stream("user", folder, settings.tenant_naming_convention)
    return Streams(STREAM, user, settings.tenant_version_table)
