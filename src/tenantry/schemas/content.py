"""Posts."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.kit.pages import Page
from tenantry.schemas.base import PageRequest, Schema
from tenantry.tenant.blog.content import (
    Post,
    PostStatus,
    PostSummary,
    PublicPost,
    PublicPostSummary,
)


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

    @classmethod
    def of(cls, post: PublicPostSummary) -> "PublishedPostSummary":
        """Return the representation of *post*."""
        return cls(
            post.id,
            post.title,
            post.slug,
            post.excerpt,
            post.author_name,
            post.tags,
            post.published_at,
            post.updated_at,
        )


class PublishedPost(Schema, frozen=True):
    """A published post, whole."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime
    content: str

    @classmethod
    def of(cls, post: PublicPost) -> "PublishedPost":
        """Return the representation of *post*."""
        return cls(
            post.id,
            post.title,
            post.slug,
            post.excerpt,
            post.author_name,
            post.tags,
            post.published_at,
            post.updated_at,
            post.content,
        )


class PublishedPostPage(Schema, frozen=True):
    """One page of the published posts, the newest first."""

    items: list[PublishedPostSummary]
    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of(cls, page: Page[PublicPostSummary]) -> "PublishedPostPage":
        """Return the representation of *page*."""
        items = [PublishedPostSummary.of(post) for post in page.items]
        window = page.window
        return cls(items, window.page, window.size, page.total_count, page.total_pages)


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

    @classmethod
    def of(cls, post: PostSummary) -> "PostSummaryResponse":
        """Return the representation of *post*."""
        return cls(
            post.id,
            post.title,
            post.slug,
            post.excerpt,
            post.author_name,
            post.tags,
            post.created_at,
            post.published_at,
            post.updated_at,
        )


class PostResponse(Schema, frozen=True):
    """A post, whole, for those who write; a draft has no `publishedAt`."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    created_at: datetime
    published_at: datetime | None
    updated_at: datetime
    content: str

    @classmethod
    def of(cls, post: Post) -> "PostResponse":
        """Return the representation of *post*."""
        return cls(
            post.id,
            post.title,
            post.slug,
            post.excerpt,
            post.author_name,
            post.tags,
            post.created_at,
            post.published_at,
            post.updated_at,
            post.content,
        )


class PostPage(Schema, frozen=True):
    """One page of posts, the newest first."""

    items: list[PostSummaryResponse]
    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of(cls, page: Page[PostSummary]) -> "PostPage":
        """Return the representation of *page*."""
        items = [PostSummaryResponse.of(post) for post in page.items]
        window = page.window
        return cls(items, window.page, window.size, page.total_count, page.total_pages)


class WritePostRequest(Schema, frozen=True):
    """What a post is to say; in a change, what is left out stays."""

    title: str
    content: str
    slug: str | UnsetType = UNSET
    excerpt: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
