"""Drift: customers with another schema than their revision defines."""

from datetime import datetime
from typing import TYPE_CHECKING, Self
from uuid import UUID

from msgspec import UNSET, UnsetType, field

from tenantry.db.copying.schema_listing import Difference
from tenantry.schemas.backups import TenantFailure
from tenantry.schemas.base import PageRequest, PageResponse, Schema

if TYPE_CHECKING:
    from tenantry.fleet.drift import DriftReport
    from tenantry.fleet.stamping import StampReport


class DifferenceResponse(Difference, Schema, frozen=True):
    """An object of the schema: what the revision defines, and what the database has.

    ``expected`` is null if there should be none, and ``found`` if there is none.
    """


class DriftedTenantResponse(Schema, frozen=True):
    """A customer that has drifted.

    Attributes:
        id: The id of the tenant.
        name: The name of the tenant.
        schema_revision: The revision that its schema was compared with; null if it is unknown.
        drifted_at: When the check found it.
        differences: The first 100 differences.
    """

    id: UUID = field(name="customerId")
    name: str = field(name="customerName")
    server_name: str
    schema_revision: str | None
    drifted_at: datetime
    differences: list[DifferenceResponse]


class DriftPageRequest(PageRequest, frozen=True):
    """Which page of which customers."""

    where: str | None = None


class CheckDriftRequest(Schema, frozen=True, forbid_unknown_fields=True):
    """Which customers to check: all, without a member."""

    where: str | UnsetType = UNSET


class DriftPage(PageResponse[DriftedTenantResponse], frozen=True):
    """One page of the customers that have drifted."""


class DriftReportResponse(Schema, frozen=True):
    """How many customers a check has compared, and which it could not read: the first 100."""

    compared: int
    drifted: int
    not_at_head: int
    unreadable_count: int
    unreadable: list[TenantFailure]

    @classmethod
    def of_report(cls, report: "DriftReport") -> Self:
        """Return the representation of *report*."""
        unreadable = [TenantFailure(*one) for one in report.unreadable]
        return cls.of(report, unreadable=unreadable)


class StampReportResponse(Schema, frozen=True):
    """How many databases of a fleet were stamped, and which were not: the first 100."""

    stamped: int
    unchanged: int
    refused_count: int
    refused: list[TenantFailure]

    @classmethod
    def of_report(cls, report: "StampReport") -> Self:
        """Return the representation of *report*."""
        return cls.of(report, refused=[TenantFailure(*one) for one in report.refused])


class TenantDriftResponse(Schema, frozen=True):
    """What has drifted of one customer.

    Attributes:
        drift: What the last check found; null if it found nothing.
    """

    drift: DriftedTenantResponse | None
