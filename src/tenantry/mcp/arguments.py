"""The arguments of the tools, with names in snake_case."""

from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tenantry.kit.errors import Invalid
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, Window
from tenantry.schemas.base import AtLeastOne, Instant, check_text, readable
from tenantry.schemas.mcp import NULL, PART_CHARS
from tenantry.tenant.blog.content import PostStatus
from tenantry.tenant.blog.drafts import EXCERPT_CHARS_MAX

PART_CHARS_MAX = 200_000

Page = Annotated[AtLeastOne, Meta(description="The page, from 1.")]
PageSize = Annotated[
    AtLeastOne, Meta(description=f"Posts on a page; more than {PAGE_SIZE_MAX} are {PAGE_SIZE_MAX}.")
]
MaxChars = Annotated[
    AtLeastOne,
    Meta(description=f"Characters of the content to return, at most {PART_CHARS_MAX}."),
]
Offset = Annotated[
    int, Meta(ge=0, description="Where the content begins: the `nextOffset` of the result before.")
]
ExcerptChars = Annotated[AtLeastOne, Meta(description="Characters of each excerpt to return.")]
ExpectedVersion = Annotated[
    AtLeastOne,
    Meta(description="The `version` that you have read: if the post has another, nothing changes."),
]
ExpectedUpdatedAt = Annotated[
    Instant,
    Meta(
        description="The `updatedAt` that you have read: unlike the version, it also changes when "
        "the post is published or withdrawn."
    ),
]
Slug = Annotated[str, Meta(description="The slug of the post.")]
Title = Annotated[str, Meta(description="The title: one line.")]
Content = Annotated[str, Meta(description="The text of the post; stored unchanged.")]
Excerpt = Annotated[str, Meta(description="A summary; by default the beginning of the content.")]
Tags = Annotated[list[str], Meta(description="All tags of the post.")]


class BadArguments(Invalid):
    """The arguments of a tool are invalid; the message names one and the rule that it breaks."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all arguments: unknown arguments are rejected."""


Wanted = TypeVar("Wanted", bound=Arguments)


class NoArguments(Arguments, frozen=True):
    """Nothing."""


class ListPosts(Arguments, frozen=True):
    """A page of posts, and its filters."""

    page: Page = 1
    page_size: PageSize = PAGE_SIZE_DEFAULT
    tag: Annotated[str | None, Meta(description="Only posts with this tag.")] = None
    status: Annotated[
        PostStatus, Meta(description="Drafts require a scope to write or publish.")
    ] = PostStatus.ALL

    @property
    def window(self) -> Window:
        """The page as a `Window`."""
        return Window(self.page, self.page_size)


class SearchPosts(Arguments, frozen=True):
    """The text to search for."""

    query: Annotated[str, Meta(description="Part of the title or the content; case-insensitive.")]
    page: Page = 1
    max_chars: ExcerptChars = EXCERPT_CHARS_MAX


class NamePost(Arguments, frozen=True):
    """The slug of a post."""

    slug: Slug


class ReadPost(NamePost, frozen=True):
    """The slug of a post, and a part of its content."""

    max_chars: MaxChars = PART_CHARS
    offset: Offset = 0


class ListVersions(NamePost, frozen=True):
    """The slug of a post, and a page of its versions."""

    page: Page = 1


class ReadVersion(ReadPost, frozen=True, kw_only=True):
    """A version of a post, and a part of its content."""

    number: Annotated[AtLeastOne, Meta(description="The number of the version.")]


class ChangePost(NamePost, frozen=True):
    """The slug of a post, and the state in which it must be."""

    expected_version: ExpectedVersion | UnsetType = UNSET
    expected_updated_at: ExpectedUpdatedAt | UnsetType = UNSET

    @property
    def expected_state(self) -> dict[str, object]:
        """The members that the post must have, with their values."""
        state = {"version": self.expected_version, "updated_at": self.expected_updated_at}
        return {name: value for name, value in state.items() if value is not UNSET}


class CreatePost(Arguments, frozen=True):
    """The content of a new post."""

    title: Title
    content: Content
    slug: Annotated[
        str | UnsetType, Meta(description="Identifies the post; by default derived from the title.")
    ] = UNSET
    excerpt: Excerpt | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET


class UpdatePost(ChangePost, frozen=True):
    """The changes of a post; omitted arguments are not changed."""

    new_slug: Annotated[str | UnsetType, Meta(description="The new slug of the post.")] = UNSET
    title: Title | UnsetType = UNSET
    content: Content | UnsetType = UNSET
    excerpt: Excerpt | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    note: Annotated[str | UnsetType, Meta(description="Why: one line, for people.")] = UNSET


class UpdateProfile(Arguments, frozen=True):
    """The name and the e-mail address of a user."""

    full_name: Annotated[str, Meta(description="The full name.")]
    email: Annotated[str, Meta(description="The e-mail address, which is also used to log in.")]


def read(type_: type[Wanted], given: bytes) -> Wanted:
    """Return *given*, which is JSON, as the arguments of a tool; null as an empty object.

    Raises:
        BadArguments: One is missing, unknown, out of bounds, or of the wrong type.
        BadText: One contains NUL.
    """
    try:
        wanted = msgspec.json.decode(b"{}" if given == NULL else given, type=type_)
    except msgspec.ValidationError as error:
        raise BadArguments(readable(error)) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadArguments("The arguments are not valid JSON in UTF-8.") from error
    check_text(wanted)
    return wanted
