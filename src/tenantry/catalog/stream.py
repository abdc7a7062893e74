"""The revisions of the catalog. Apart from the catalog, because this imports Alembic."""

from pathlib import Path

from tenantry.migration.streams import Stream

STREAM = Stream("catalog", Path(__file__).parent / "revisions")
