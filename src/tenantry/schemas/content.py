"""Posts."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.schemas.base import PageRequest, PageResponse, Schema
from tenantry.tenant.blog.content import PostStatus


class PublishedPostPageRequest(PageRequest, frozen=True):
    """A page of the published posts, and its filters."""

    tag: str | None = None


class PublishedPostSummary(Schema, frozen=True):
    """A published post in a list."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime


class PublishedPost(PublishedPostSummary, frozen=True):
    """A complete published post."""

    content: str


class PublishedPostPage(PageResponse[PublishedPostSummary], frozen=True):
    """One page of the published posts, the newest first."""


class PostPageRequest(PageRequest, frozen=True):
    """A page of the posts, and its filters."""

    status: PostStatus = PostStatus.ALL
    tag: str | None = None
    search: str | None = None


class PostSummaryResponse(Schema, frozen=True):
    """A post in a list, for editors; `publishedAt` is null for a draft."""

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
    """A complete post, for editors; `publishedAt` is null for a draft."""

    content: str


class PostPage(PageResponse[PostSummaryResponse], frozen=True):
    """One page of posts, the newest first."""


class WritePostRequest(Schema, frozen=True):
    """The content of a post; in a change, omitted optional members are not changed."""

    title: str
    content: str
    slug: str | UnsetType = UNSET
    excerpt: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
