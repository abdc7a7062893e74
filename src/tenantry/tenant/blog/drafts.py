"""Validate the content of a post, without a database."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tenantry.kit.text import checked_line, checked_text
from tenantry.tenant.blog.content import Post
from tenantry.tenant.blog.slugs import checked_slug
from tenantry.tenant.blog.tagging import checked_tags

TITLE_CHARS_MAX = 200
CONTENT_CHARS_MAX = 1_000_000
EXCERPT_CHARS_MAX = 500
MADE_EXCERPT_CHARS = 200

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


class Draft(msgspec.Struct, frozen=True):
    """The validated content of a post.

    Attributes:
        slug: None to derive it from the title.
    """

    title: str
    content: str
    slug: str | None
    excerpt: str
    tags: list[str]


NOTHING = Draft(title="", content="", slug=None, excerpt="", tags=[])
"""The content of a new post before its first changes."""


@dataclass(frozen=True, slots=True)
class Revised:
    """The validated changes of a post; None keeps the value."""

    title: str | None
    content: str | None
    slug: str | None
    excerpt: str | None
    tags: list[str] | None

    def of(self, post: Post | Draft) -> Draft:
        """Return the changed content of *post*; of `NOTHING` for a new one.

        An excerpt that was derived from the content is derived again.
        """
        content = post.content if self.content is None else self.content
        excerpt = self.excerpt
        if excerpt is None:
            is_made = post.excerpt == excerpt_of(post.content)
            excerpt = "" if is_made else post.excerpt
        return Draft(
            title=post.title if self.title is None else self.title,
            content=content,
            slug=post.slug if self.slug is None else self.slug,
            excerpt=excerpt if excerpt.strip() else excerpt_of(content),
            tags=post.tags if self.tags is None else self.tags,
        )


def revised(
    *,
    title: str | None = None,
    content: str | None = None,
    slug: str | None = None,
    excerpt: str | None = None,
    tags: Sequence[str] | None = None,
) -> Revised:
    """Return the validated changes of a post.

    Raises:
        BadText, BadSlug, BadTags: A rule is broken; the message names the member.
    """
    if title is not None:
        checked_line("title", title, chars_max=TITLE_CHARS_MAX)
    if content is not None:
        checked_text("content", content, chars_max=CONTENT_CHARS_MAX)
    if excerpt is not None:
        checked_text("excerpt", excerpt, chars_max=EXCERPT_CHARS_MAX)
    return Revised(
        title,
        content,
        None if slug is None else checked_slug(slug),
        excerpt,
        None if tags is None else checked_tags(tags),
    )


def excerpt_of(content: str) -> str:
    """Return the beginning of *content*, on one line, cut between words if possible."""
    # Enough to fill the excerpt, unless the content begins with many spaces.
    begun = " ".join(content[: MADE_EXCERPT_CHARS * 10].split())
    if len(begun) <= MADE_EXCERPT_CHARS:
        return begun
    cut = begun[:MADE_EXCERPT_CHARS]
    words, _, rest = cut.rpartition(" ")
    # Not every script separates words.
    return (words if len(words) > len(rest) else cut) + _ELLIPSIS
