"""Posts."""

from msgspec import UNSET, UnsetType

from tenantry.schemas.base import PageRequest, PageResponse, Schema
from tenantry.tenant.blog.content import (
    Post,
    PostStatus,
    PostSummary,
    PublicPost,
    PublicPostSummary,
)


class PublishedPostPageRequest(PageRequest, frozen=True):
    """A page of the published posts, and its filters."""

    tag: str | None = None


class PublishedPostSummary(PublicPostSummary, Schema, frozen=True):
    """A published post in a list."""


class PublishedPost(PublicPost, Schema, frozen=True):
    """A complete published post."""


class PublishedPostPage(PageResponse[PublishedPostSummary], frozen=True):
    """One page of the published posts, the newest first."""


class PostPageRequest(PageRequest, frozen=True):
    """A page of the posts, and its filters."""

    status: PostStatus = PostStatus.ALL
    tag: str | None = None
    search: str | None = None


class PostSummaryResponse(PostSummary, Schema, frozen=True):
    """A post in a list, for editors; `publishedAt` is null for a draft."""


class PostResponse(Post, Schema, frozen=True):
    """A complete post, for editors; `publishedAt` is null for a draft."""


class PostPage(PageResponse[PostSummaryResponse], frozen=True):
    """One page of posts, the newest first."""


class WritePostRequest(Schema, frozen=True):
    """The content of a post; in a change, omitted optional members are not changed."""

    title: str
    content: str
    slug: str | UnsetType = UNSET
    excerpt: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
