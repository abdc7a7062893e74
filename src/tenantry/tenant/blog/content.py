"""The types of posts, for readers and writers."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.preconditions import ResourceChanged

UNNAMED = "an assistant without a user"


class PostNotFound(NotFound):
    """There is no such post."""


class SlugInUse(Conflict):
    """Another post has this slug."""


class PostChanged(ResourceChanged):
    """The post has changed since you read it; the message says when, and who wrote its text."""

    def __init__(self, at: datetime, latest: "PostVersionSummary | None") -> None:
        by = latest and f" Its text is version {latest.number}, by {latest.author_name or UNNAMED}."
        super().__init__(
            f"The post was changed at {at:%Y-%m-%dT%H:%M:%SZ}, after you read it.{by or ''} Read "
            "it again, and repeat your change on that."
        )


class PostExists(ResourceChanged):
    """There is a post with this slug already; the message says since when it is as it is."""

    def __init__(self, at: datetime) -> None:
        super().__init__(f"A post with this slug exists, last changed at {at:%Y-%m-%dT%H:%M:%SZ}.")


class PostStatus(StrEnum):
    """A filter of posts by their status; the values are those of the wire."""

    ALL = "all"
    DRAFT = "draft"
    PUBLISHED = "published"


class PublicPostSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A published post in a list.

    Attributes:
        title: One line, at most 200 characters.
        slug: The part of the post's URL; no two posts of a tenant have the same.
        excerpt: The beginning of the text, or what its author wrote instead; at most 500
            characters.
        author_name: The name of the author when the post was written; empty without a user.
        tags: At most 20.
        published_at: When it was published.
        updated_at: When it was last changed, published or withdrawn.
    """

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime


class PublicPost(PublicPostSummary, frozen=True):
    """A complete published post.

    Attributes:
        content: The whole text, as it was written; at most 1,000,000 characters.
    """

    content: str


class PostSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A post in a list, for editors; `published_at` is None for a draft.

    Attributes:
        title: One line, at most 200 characters.
        slug: The part of the post's URL; no two posts of a tenant have the same.
        excerpt: The beginning of the text, or what its author wrote instead; at most 500
            characters.
        author_id: The id of the user who has created it, as their own post; None without one.
        author_name: The name of the author when the post was written; empty without a user.
        tags: At most 20.
        published_at: When it was published; None for a draft.
        updated_at: When it was last changed, published or withdrawn.
        version: The number of its latest version.
        has_draft: Whether it is published, and its text is a draft that readers do not see yet.
        publish_at: When its draft is published without a request, in UTC; None without a schedule.
        unpublish_at: When it is withdrawn without a request, in UTC; None without a schedule.
    """

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_id: UUID | None
    author_name: str
    tags: list[str]
    created_at: datetime
    published_at: datetime | None
    updated_at: datetime
    version: int
    has_draft: bool
    publish_at: datetime | None
    unpublish_at: datetime | None


class Post(PostSummary, frozen=True):
    """A complete post, for editors.

    Attributes:
        content: The whole text, as it was written; at most 1,000,000 characters.
    """

    content: str


class Stored(Post, frozen=True):
    """A post, read in the transaction that changes it.

    Attributes:
        is_recorded: Whether every text of the post is a version. If not, the number of the text in
            its row is that of the post's version.
        published_slug: The slug under which readers see it; None for a draft.
    """

    is_recorded: bool
    published_slug: str | None


class PostVersionSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A version of a post in a list.

    Attributes:
        number: The number of the version, from 1; a later one has a larger number.
        created_at: When it was saved.
        published_at: When it was published; None if it never was.
        author_name: Who saved it; empty without a user.
        kind: With which credential it was saved: `session`, `mcp-token`, `command`; or `release` if
            it is from a release that knew no versions.
        note: What its author noted; empty by default.
        title: One line, at most 200 characters.
        slug: The part of the post's URL.
        excerpt: The beginning of the text, or what its author wrote instead.
        tags: At most 20.
    """

    number: int
    created_at: datetime
    published_at: datetime | None
    author_name: str
    kind: str
    note: str
    title: str
    slug: str
    excerpt: str
    tags: list[str]


class PostVersion(PostVersionSummary, frozen=True):
    """A complete version of a post.

    Attributes:
        content: The whole text, as it was written; at most 1,000,000 characters.
    """

    content: str
