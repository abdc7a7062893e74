"""Published posts."""

from datetime import datetime
from uuid import UUID

import msgspec

from tenantry.kit.pages import Page
from tenantry.schemas.base import PageRequest, Schema
from tenantry.tenant.posts import Post, PostSummary


class PostPageRequest(PageRequest, frozen=True):
    """Which page of which posts."""

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
    def of(cls, post: PostSummary) -> "PublishedPostSummary":
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
    def of(cls, post: Post) -> "PublishedPost":
        """Return the representation of *post*."""
        return cls(*msgspec.structs.astuple(post))


class PublishedPostPage(Schema, frozen=True):
    """One page of the published posts, the newest first."""

    items: list[PublishedPostSummary]
    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of(cls, page: Page[PostSummary]) -> "PublishedPostPage":
        """Return the representation of *page*."""
        items = [PublishedPostSummary.of(post) for post in page.items]
        window = page.window
        return cls(items, window.page, window.size, page.total_count, page.total_pages)
