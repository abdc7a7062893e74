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
    """Which posts of a blog; the values are those of the wire."""

    ALL = "all"
    DRAFT = "draft"
    PUBLISHED = "published"


class PublicPostSummary(msgspec.Struct, frozen=True):
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


class PostSummary(msgspec.Struct, frozen=True):
    """A post as a list shows it to those who write: a draft has no `published_at`."""

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
    """A post, whole, for those who write."""

    content: str
