"""Posts."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.schemas.base import PageRequest, PageResponse, Schema
from tenantry.tenant.blog.content import PostStatus


class PublishedPostPageRequest(PageRequest, frozen=True):
    """Which page of which published posts."""

    tag: str | None = None


class PublishedPostSummary(Schema, frozen=True):
    """A published post as a list shows it."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime


class PublishedPost(PublishedPostSummary, frozen=True):
    """A published post, whole."""

    content: str


class PublishedPostPage(PageResponse[PublishedPostSummary], frozen=True):
    """One page of the published posts, the newest first."""


class PostPageRequest(PageRequest, frozen=True):
    """Which page of which posts."""

    status: PostStatus = PostStatus.ALL
    tag: str | None = None
    search: str | None = None


class PostSummaryResponse(Schema, frozen=True):
    """A post as a list shows it to those who write; a draft has no `publishedAt`."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    created_at: datetime
    published_at: datetime | None
    updated_at: datetime


class PostResponse(PostSummaryResponse, frozen=True):
    """A post, whole, for those who write; a draft has no `publishedAt`."""

    content: str


class PostPage(PageResponse[PostSummaryResponse], frozen=True):
    """One page of posts, the newest first."""


class WritePostRequest(Schema, frozen=True):
    """What a post is to say; in a change, what is left out stays."""

    title: str
    content: str
    slug: str | UnsetType = UNSET
    excerpt: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
