"""Posts."""

from typing import ClassVar

from msgspec import UNSET, UnsetType

from tenantry.schemas.base import (
    AtLeastOne,
    Instant,
    ListResponse,
    PageRequest,
    PageResponse,
    Schema,
)
from tenantry.tenant.blog.content import (
    Post,
    PostStatus,
    PostSummary,
    PostVersion,
    PostVersionSummary,
    PublicPost,
    PublicPostSummary,
)
from tenantry.tenant.blog.deleted import DeletedPost
from tenantry.tenant.blog.history import PostDifference
from tenantry.tenant.blog.previews import IssuedPreviewLink, PreviewLink


class PublishedPostPageRequest(PageRequest, frozen=True):
    """A page of the published posts, and its filters.

    Attributes:
        tag: Only posts with this tag; upper and lower case are the same.
    """

    tag: str | None = None


class PublishedPostSummary(PublicPostSummary, Schema, frozen=True):
    """A published post in a list."""


class PublishedPost(PublicPost, Schema, frozen=True):
    """A complete published post."""


class PublishedPostPage(PageResponse[PublishedPostSummary], frozen=True):
    """One page of the published posts, the newest first."""


class PostPageRequest(PageRequest, frozen=True):
    """A page of the posts, and its filters.

    Attributes:
        status: Only drafts, only published posts, or all.
        tag: Only posts with this tag; upper and lower case are the same.
        search: Only posts that contain this text, at most 200 characters.
    """

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
    """The content of a post; in a change, omitted optional members are not changed.

    Attributes:
        title: One line of 1 to 200 characters.
        content: The text of the post, at most 1,000,000 characters; it is stored as it is sent.
        slug: The part of the post's URL: letters and digits of any script with single hyphens
            between them, at most 200 characters. Without it, a new post gets one from its title.
        excerpt: At most 500 characters. If blank, or omitted for a new post, it is made from the
            content.
        tags: At most 20 tags, each one line of 1 to 50 characters.
        publish: true: readers see it at once. false: the text of a published post becomes a draft,
            which they see when it is published. Omitted: a draft stays one, and what readers see of
            a published post without a draft is replaced.
        note: What the version is noted with: one line of at most 200 characters.
    """

    title: str
    content: str
    slug: str | UnsetType = UNSET
    excerpt: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    publish: bool | UnsetType = UNSET
    note: str | UnsetType = UNSET


class PostScheduleRequest(Schema, frozen=True):
    """The whole schedule of a post: a time that is null or omitted is removed.

    Attributes:
        publish_at: When readers see the latest draft: a future time in UTC, with `Z` at its end.
        unpublish_at: From when on they do not see the post: a future time in UTC, with `Z` at its
            end, after `publishAt`.
    """

    publish_at: Instant | None = None
    unpublish_at: Instant | None = None


class IssuePreviewLinkRequest(Schema, frozen=True):
    """A new preview link.

    Attributes:
        expires_at: When it ends, at most 30 days from now. Omitted: in 24 hours.
    """

    expires_at: Instant | UnsetType = UNSET


class PreviewLinkResponse(PreviewLink, Schema, frozen=True):
    """A preview link of a post, without its token."""


class PreviewLinkList(ListResponse[PreviewLinkResponse], frozen=True):
    """The preview links of a post, the newest first."""


class IssuedPreviewLinkResponse(IssuedPreviewLink, Schema, frozen=True):
    """A new preview link of a post, with its token."""

    holds_secret: ClassVar[bool] = True


class PreviewRequest(Schema, frozen=True):
    """The preview of a post.

    Attributes:
        token: The token of a preview link.
    """

    token: str


class PostVersionSummaryResponse(PostVersionSummary, Schema, frozen=True):
    """A version of a post in a list; `publishedAt` is null if it was never published."""


class PostVersionResponse(PostVersion, Schema, frozen=True):
    """A complete version of a post."""


class PostVersionPage(PageResponse[PostVersionSummaryResponse], frozen=True):
    """One page of the versions of a post, the newest first."""


class PostDifferenceRequest(Schema, frozen=True):
    """The version to compare with.

    Attributes:
        against: The number of the other version. Omitted: the one before.
    """

    against: AtLeastOne | None = None


class PostDifferenceResponse(PostDifference, Schema, frozen=True):
    """What differs between two versions of a post."""


class DeletedPostResponse(DeletedPost, Schema, frozen=True):
    """A post in the bin."""


class DeletedPostPage(PageResponse[DeletedPostResponse], frozen=True):
    """One page of the posts in the bin, the last deleted first."""
