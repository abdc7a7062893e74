"""The description of an assistant's token."""

from datetime import datetime
from uuid import UUID

from tenantry.schemas.base import Schema
from tenantry.schemas.users import TenantUserProfile


class WhoAmI(Schema, frozen=True):
    """The customer and the user of an McpToken, and its scopes.

    `user` is null if the token is bound to no user, or has no scope to read the profile.
    """

    customer_id: UUID
    customer_name: str
    token_name: str
    scopes: list[str]
    modules: list[str]
    expires_at: datetime
    user: TenantUserProfile | None
