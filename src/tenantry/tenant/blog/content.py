"""The types of posts, for readers and writers."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from tenantry.kit.errors import Conflict, NotFound


class PostNotFound(NotFound):
    """There is no such post."""


class SlugInUse(Conflict):
    """Another post has this slug."""


class PostStatus(StrEnum):
    """A filter of posts by their status; the values are those of the wire."""

    ALL = "all"
    DRAFT = "draft"
    PUBLISHED = "published"


class PublicPostSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A published post in a list."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime


class PublicPost(PublicPostSummary, frozen=True):
    """A complete published post."""

    content: str


class PostSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A post in a list, for editors; `published_at` is None for a draft."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    created_at: datetime
    published_at: datetime | None
    updated_at: datetime


class Post(PostSummary, frozen=True):
    """A complete post, for editors."""

    content: str
