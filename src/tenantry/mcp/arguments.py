"""The arguments of the tools, named as models name things: in snake_case."""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tenantry.kit.errors import Invalid
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, Window
from tenantry.schemas.base import AtLeastOne
from tenantry.schemas.reading import check_text, readable
from tenantry.tenant.blog.content import PostStatus

Page = Annotated[AtLeastOne, Meta(description="The page, from 1.")]
PageSize = Annotated[
    AtLeastOne, Meta(description=f"Posts on a page; more than {PAGE_SIZE_MAX} are {PAGE_SIZE_MAX}.")
]
Slug = Annotated[str, Meta(description="The slug of the post.")]
Title = Annotated[str, Meta(description="The title: one line.")]
Content = Annotated[str, Meta(description="The text of the post; it is kept as it is typed.")]
Excerpt = Annotated[str, Meta(description="A summary; made from the content when left out.")]
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
        PostStatus, Meta(description="Drafts are seen with the scope content:write alone.")
    ] = PostStatus.ALL

    @property
    def window(self) -> Window:
        """The part of the list that is wanted."""
        return Window(self.page, self.page_size)


class SearchPosts(Arguments, frozen=True):
    """The text to search for."""

    query: Annotated[str, Meta(description="Part of a title or a content, in any case.")]
    page: Page = 1


class NamePost(Arguments, frozen=True):
    """Which post."""

    slug: Slug


class CreatePost(Arguments, frozen=True):
    """What a new post is to say."""

    title: Title
    content: Content
    slug: Annotated[
        str | UnsetType, Meta(description="What names the post; made from the title when left out.")
    ] = UNSET
    excerpt: Excerpt | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET


class UpdatePost(Arguments, frozen=True):
    """What a post is to say; what is left out stays."""

    slug: Slug
    new_slug: Annotated[
        str | UnsetType, Meta(description="By which the post is to be named from now on.")
    ] = UNSET
    title: Title | UnsetType = UNSET
    content: Content | UnsetType = UNSET
    excerpt: Excerpt | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET


class UpdateProfile(Arguments, frozen=True):
    """How the user wants to be called and reached."""

    full_name: Annotated[str, Meta(description="The full name.")]
    email: Annotated[str, Meta(description="The e-mail address, which is also that of the login.")]


def read(type_: type[Wanted], given: dict[str, Any] | None) -> Wanted:
    """Return *given* as the arguments of a tool.

    Raises:
        BadArguments: One is missing, unknown, out of bounds, or of the wrong type.
        BadText: One contains NUL.
    """
    try:
        wanted = msgspec.convert(given or {}, type_)
    except msgspec.ValidationError as error:
        raise BadArguments(readable(error)) from error
    check_text(wanted)
    return wanted
