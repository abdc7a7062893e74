"""Collations: what was rebuilt after an upgrade of the libraries that sort text."""

from typing import Self

from tenantry.backup.collations import CollationReport
from tenantry.schemas.backups import TenantFailure
from tenantry.schemas.base import Schema


class CollationReportResponse(Schema, frozen=True):
    """How many databases and indexes were brought up to date, and which were not: the first 100."""

    checked: int
    refreshed: int
    indexes: int
    failed_count: int
    failed: list[TenantFailure]

    @classmethod
    def of_report(cls, report: CollationReport) -> Self:
        """Return the representation of *report*."""
        return cls.of(report, failed=[TenantFailure(*one) for one in report.failed])
