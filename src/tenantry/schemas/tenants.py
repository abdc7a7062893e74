"""Tenants, as admins see them, and their modules."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from tenantry.catalog.fleet_map import MAP_MAX
from tenantry.catalog.tenant_counts import Filters
from tenantry.catalog.tenants import REQUESTS_PER_MINUTE_MAX, Tenant
from tenantry.db.copying.row_formats import RowFormat
from tenantry.fleet.status import Place, PlacedTenant
from tenantry.kit.pages import Page
from tenantry.kit.sizes import SIZE_BYTES_MAX
from tenantry.schemas.base import PageRequest, PageResponse, Schema
from tenantry.schemas.users import CreateUserRequest, TenantUserProfile
from tenantry.tenant.modules import Module
from tenantry.tenant.overview import NewPost

if TYPE_CHECKING:
    from tenantry.fleet.lifecycle import Provisioned

RequestsPerMinute = Annotated[int, Meta(ge=0, le=REQUESTS_PER_MINUTE_MAX)]
"""Of each credential of a tenant; 0 for the limit of the settings."""


SizeBytesMax = Annotated[int, Meta(ge=0, le=SIZE_BYTES_MAX)]
"""Of a tenant's database; 0 for the limit of the settings."""


class TenantResponse(Schema, frozen=True):
    """One customer."""

    represents: ClassVar[type] = Tenant

    id: UUID
    name: str
    database_name: str
    is_active: bool
    is_read_only: bool
    created_at: datetime
    schema_revision: str | None
    modules: list[str]
    requests_per_minute: int
    size_bytes_max: int
    server_name: str
    failing_run_id: UUID | None
    drifted_at: datetime | None
    labels: dict[str, str]
    is_attached: bool

    @classmethod
    def of(cls, source: Tenant, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(source, modules=sorted(source.modules), **more)


class CreateTenantRequest(Schema, frozen=True):
    """A new customer.

    Attributes:
        name: One line of 1 to 100 characters that no other tenant has; upper and lower case are the
            same.
        owner: The first user.
        modules: The keys of its modules. Omitted: all.
        labels: Its labels by their keys, at most 20. Omitted: none.
    """

    name: str
    owner: CreateUserRequest
    modules: list[str] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET


class CreatedTenantResponse(TenantResponse, frozen=True):
    """A new customer, with its first API key, which is shown this once, and its owner.

    Attributes:
        api_key: The secret of its first API key, which is sent as `X-Api-Key`.
        owner: The first user.
    """

    holds_secret: ClassVar[bool] = True

    api_key: str
    owner: TenantUserProfile

    @classmethod
    def of_provisioned(cls, provisioned: "Provisioned") -> Self:
        """Return the representation of *provisioned*."""
        owner = TenantUserProfile.of(provisioned.owner)
        return cls.of(provisioned.tenant, api_key=provisioned.key.secret, owner=owner)


class UpdateTenantRequest(Schema, frozen=True):
    """What is to change of a customer; what is left out stays.

    Attributes:
        name: A new name: one line of 1 to 100 characters that no other tenant has.
        is_active: False suspends it: its credentials are rejected. True activates it.
        is_read_only: True rejects writes to its data. False migrates it to the head, and accepts
            them again.
        modules: The keys of all its modules from now on.
        requests_per_minute: For its API keys together, and for its users and McpTokens together; 0
            for the limit of the settings.
        size_bytes_max: The size limit of its database in bytes; 0 for the limit of the settings.
        labels: All its labels from now on, by their keys; at most 20.
    """

    name: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    is_read_only: bool | UnsetType = UNSET
    modules: list[str] | UnsetType = UNSET
    requests_per_minute: RequestsPerMinute | UnsetType = UNSET
    size_bytes_max: SizeBytesMax | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET


class TenantPageRequest(PageRequest, frozen=True):
    """Which page of which customers.

    Attributes:
        search: Part of a name, or a whole id; upper and lower case are the same.
    """

    represents: ClassVar[type] = Filters

    search: str | None = None
    where: str | None = None
    is_active: bool | None = None
    is_read_only: bool | None = None
    schema_revision: str | None = field(default=None, name="revision")
    server_name: str | None = field(default=None, name="server")
    is_failing: bool | None = None

    @property
    def filters(self) -> Filters:
        """The filters."""
        return msgspec.convert(self, Filters, from_attributes=True)


class AppliedRevisionResponse(Schema, frozen=True):
    """A revision in a customer's database.

    Attributes:
        stream: ``tenantry``, or ``user`` for yours.
        revision: Its id.
        run_id: The run that applied it; see `has_run`.
        has_run: False if no run in the history has this id: the revision was applied when the
            tenant was created.
        applied_at: When it was applied.
    """

    stream: str
    revision: str
    run_id: UUID
    has_run: bool
    applied_at: datetime


class FailureResponse(Schema, frozen=True):
    """Why the latest attempt to migrate a customer failed.

    Attributes:
        run_id: The run that failed.
        cause: What the error has in common with those of other tenants; null if it is not known.
        error: The error, for people; null if it is not known.
        finished_at: When the attempt ended; null if that is not known.
    """

    run_id: UUID
    cause: str | None
    error: str | None = field(name="errorMessage")
    finished_at: datetime | None


class TenantMigrationsResponse(Schema, frozen=True):
    """What was applied to a customer's database.

    Attributes:
        items: The last 200 revisions, the newest first; null if the database cannot be read.
        failure: Why the latest attempt failed; null unless it did.
    """

    items: list[AppliedRevisionResponse] | None
    failure: FailureResponse | None


class NewPostResponse(NewPost, Schema, frozen=True):
    """One of the newest posts of a customer."""


class ContentResponse(Schema, frozen=True):
    """The size of a customer's database, and its posts.

    Attributes:
        size_bytes: The size of the database in bytes; on SQLite, of its used pages.
        size_bytes_max: The size in bytes beyond which content is rejected; null for none.
        post_count: How many posts there are, with drafts.
        published_count: How many of them are published.
        posts: The newest 10, with drafts.
    """

    size_bytes: int
    size_bytes_max: int | None
    post_count: int
    published_count: int
    posts: list[NewPostResponse]


class TenantOverviewResponse(Schema, frozen=True):
    """When a credential of a customer was last used, and what its database holds.

    Attributes:
        last_used_at: When a credential was last used, to the minute or so; null if none was.
        contents: What the database holds; null if it cannot be read.
    """

    last_used_at: datetime | None
    contents: ContentResponse | None


class TenantMapRequest(Schema, frozen=True):
    """Which customers, and from which one on, in the order of their creation.

    Attributes:
        after: The id of the last tenant that was received. Omitted: from the first.
    """

    after: UUID | None = None
    where: str | None = None


class MapTenantResponse(Schema, frozen=True):
    """One customer on the map of the fleet.

    Attributes:
        place: Where the last known revision is: ``head``, ``behind`` (older), or ``unknown``.
        revision: The last known revision; null if it was never seen.
        server: The name of its tenant server.
        cause: What the error of the latest attempt to migrate it has in common with others; null if
            the attempt did not fail.
    """

    represents: ClassVar[type] = Tenant

    id: UUID
    name: str
    place: Place
    is_active: bool
    is_read_only: bool
    revision: str | None
    server: str
    cause: str | None
    failing_run_id: UUID | None
    drifted_at: datetime | None


class TenantMapResponse(Schema, frozen=True):
    """Customers in the order of their creation.

    Attributes:
        head: The revision where they should be.
        items: At most 5,000 tenants.
        next_after: The id to continue after; null at the end.
    """

    head: str
    items: list[MapTenantResponse]
    next_after: UUID | None

    @classmethod
    def of_map(cls, head: str, found: Sequence[PlacedTenant]) -> Self:
        """Return the representation of the tenants that were *found*."""
        # Not with `of`, which takes ten times as long: there are thousands.
        items = [
            MapTenantResponse(
                one.tenant.id,
                one.tenant.name,
                one.place,
                one.tenant.is_active,
                one.tenant.is_read_only,
                one.tenant.schema_revision,
                one.tenant.server_name,
                one.tenant.cause,
                one.tenant.failing_run_id,
                one.tenant.drifted_at,
            )
            for one in found
        ]
        return cls(head, items, items[-1].id if len(items) == MAP_MAX else None)


class TenantPage(PageResponse[TenantResponse], frozen=True):
    """One page of the customers."""


class ExportTenantRequest(Schema, frozen=True):
    """The format of the rows.

    Attributes:
        format: JSON lines, or CSV.
    """

    format: RowFormat = RowFormat.JSON_LINES


class DeleteTenantRequest(Schema, frozen=True):
    """The exact name of the customer to delete.

    Attributes:
        name: Its name, as a confirmation.
    """

    name: str


class DeletedTenantResponse(Schema, frozen=True):
    """A deleted customer.

    Attributes:
        name: The name that it had.
        deleted_at: When it was deleted.
        purged_after: After when its database is removed; until then it can be undeleted.
    """

    id: UUID
    name: str
    database_name: str
    created_at: datetime
    deleted_at: datetime
    purged_after: datetime


class DeletedTenantPage(PageResponse[DeletedTenantResponse], frozen=True):
    """One page of the deleted customers."""

    @classmethod
    def of_deleted(cls, page: Page[Tenant], kept: timedelta) -> Self:
        """Return the representation of *page*; deleted tenants are kept for a time."""
        items = [
            DeletedTenantResponse.of(one, purged_after=one.deleted_at + kept)
            for one in page.items
            if one.deleted_at is not None
        ]
        return cls.of_page(page, items)


class UndeleteTenantRequest(Schema, frozen=True):
    """A new name for the customer, if another one has its name by now.

    Attributes:
        name: One line of 1 to 100 characters. Omitted: the name that it had.
    """

    name: str | UnsetType = UNSET


class PurgeTenantRequest(DeleteTenantRequest, frozen=True):
    """The exact name of the deleted customer to remove for good."""


class ModuleList(Schema, frozen=True):
    """The active modules of a tenant.

    Attributes:
        items: The modules, of which others are rejected with 403.
    """

    items: list[Module]
