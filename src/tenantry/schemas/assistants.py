"""The description of an assistant's token."""

from datetime import datetime
from uuid import UUID

from tenantry.schemas.base import Schema
from tenantry.schemas.users import TenantUserProfile


class WhoAmI(Schema, frozen=True):
    """For whom the holder of an McpToken acts, and what it allows.

    `user` is null when the token is bound to no user, or does not allow to read the profile.
    """

    customer_id: UUID
    customer_name: str
    token_name: str
    scopes: list[str]
    modules: list[str]
    expires_at: datetime
    user: TenantUserProfile | None
