"""Tenants, as admins see them, and their modules."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from tenantry.catalog.tenants import REQUESTS_PER_MINUTE_MAX, Tenant
from tenantry.fleet.lifecycle import Provisioned
from tenantry.kit.pages import Page
from tenantry.schemas.base import PageRequest, Schema
from tenantry.schemas.people import CreateUserRequest, TenantUserProfile
from tenantry.tenant.modules import Module

RequestsPerMinute = Annotated[int, Meta(ge=0, le=REQUESTS_PER_MINUTE_MAX)]
"""Of each credential of a tenant; 0 for the limit of the settings."""


class TenantResponse(Schema, frozen=True):
    """One customer."""

    id: UUID
    name: str
    database_name: str
    is_active: bool
    created_at: datetime
    schema_revision: str | None
    modules: list[str]
    requests_per_minute: int

    @classmethod
    def of(cls, tenant: Tenant) -> "TenantResponse":
        """Return the representation of *tenant*."""
        return cls(*_members(tenant))


class CreateTenantRequest(Schema, frozen=True):
    """A new customer."""

    name: str
    owner: CreateUserRequest
    modules: list[str] | UnsetType = UNSET


class CreatedTenantResponse(Schema, frozen=True):
    """A new customer, with its first API key, which is shown this once, and its owner."""

    id: UUID
    name: str
    database_name: str
    is_active: bool
    created_at: datetime
    schema_revision: str | None
    modules: list[str]
    requests_per_minute: int
    api_key: str
    owner: TenantUserProfile

    @classmethod
    def of(cls, made: Provisioned) -> "CreatedTenantResponse":
        """Return the representation of *made*."""
        owner = TenantUserProfile.of(made.owner)
        return cls(*_members(made.tenant), made.key.secret, owner)


class UpdateTenantRequest(Schema, frozen=True):
    """What is to change of a customer; what is left out stays."""

    name: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    modules: list[str] | UnsetType = UNSET
    requests_per_minute: RequestsPerMinute | UnsetType = UNSET


class TenantPageRequest(PageRequest, frozen=True):
    """Which page of which customers."""

    search: str | None = None
    is_active: bool | None = None
    revision: str | None = None


class TenantPage(Schema, frozen=True):
    """One page of the customers."""

    items: list[TenantResponse]
    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of(cls, page: Page[Tenant]) -> "TenantPage":
        """Return the representation of *page*."""
        items = [TenantResponse.of(tenant) for tenant in page.items]
        window = page.window
        return cls(items, window.page, window.size, page.total_count, page.total_pages)


class DeleteTenantRequest(Schema, frozen=True):
    """The exact name of the customer that is to be deleted for ever."""

    name: str


class ModuleList(Schema, frozen=True):
    """The active modules of a tenant."""

    items: list[Module]


def _members(
    tenant: Tenant,
) -> tuple[UUID, str, str, bool, datetime, str | None, list[str], int]:
    return (
        tenant.id,
        tenant.name,
        tenant.database_name,
        tenant.is_active,
        tenant.created_at,
        tenant.schema_revision,
        sorted(tenant.modules),
        tenant.requests_per_minute,
    )
