"""Tenants, as admins see them, and their modules."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from tenantry.catalog.tenants import REQUESTS_PER_MINUTE_MAX, Tenant
from tenantry.fleet.lifecycle import Provisioned
from tenantry.schemas.base import PageRequest, PageResponse, Schema
from tenantry.schemas.users import CreateUserRequest, TenantUserProfile
from tenantry.tenant.modules import Module

RequestsPerMinute = Annotated[int, Meta(ge=0, le=REQUESTS_PER_MINUTE_MAX)]
"""Of each credential of a tenant; 0 for the limit of the settings."""


class TenantResponse(Schema, frozen=True):
    """One customer."""

    id: UUID
    name: str
    database_name: str
    is_active: bool
    is_read_only: bool
    created_at: datetime
    schema_revision: str | None
    modules: list[str]
    requests_per_minute: int

    @classmethod
    def of(cls, source: Tenant, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(source, modules=sorted(source.modules), **more)


class CreateTenantRequest(Schema, frozen=True):
    """A new customer."""

    name: str
    owner: CreateUserRequest
    modules: list[str] | UnsetType = UNSET


class CreatedTenantResponse(TenantResponse, frozen=True):
    """A new customer, with its first API key, which is shown this once, and its owner."""

    api_key: str
    owner: TenantUserProfile

    @classmethod
    def of_provisioned(cls, provisioned: Provisioned) -> Self:
        """Return the representation of *provisioned*."""
        owner = TenantUserProfile.of(provisioned.owner)
        return cls.of(provisioned.tenant, api_key=provisioned.key.secret, owner=owner)


class UpdateTenantRequest(Schema, frozen=True):
    """What is to change of a customer; what is left out stays."""

    name: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    is_read_only: bool | UnsetType = UNSET
    modules: list[str] | UnsetType = UNSET
    requests_per_minute: RequestsPerMinute | UnsetType = UNSET


class TenantPageRequest(PageRequest, frozen=True):
    """Which page of which customers."""

    search: str | None = None
    is_active: bool | None = None
    is_read_only: bool | None = None
    revision: str | None = None


class TenantPage(PageResponse[TenantResponse], frozen=True):
    """One page of the customers."""


class DeleteTenantRequest(Schema, frozen=True):
    """The exact name of the customer to delete."""

    name: str


class ModuleList(Schema, frozen=True):
    """The active modules of a tenant."""

    items: list[Module]
