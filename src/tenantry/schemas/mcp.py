"""Messages of the Model Context Protocol: JSON-RPC 2.0, one in each request and response.

And the description of an assistant's token.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tenantry.schemas.base import Schema
from tenantry.schemas.content import PostResponse, PostVersionResponse
from tenantry.schemas.users import TenantUserProfile
from tenantry.tenant.blog.content import Post, PostVersion

METHOD_CHARS_MAX = 100
# Of the content of a post, in one result: some 5,000 tokens of a model.
PART_CHARS = 20_000
ID_CHARS_MAX = 200
# Every JSON parser represents these integers exactly (RFC 8259, section 6).
ID_MAX = 2**53 - 1

MessageId = (
    Annotated[int, msgspec.Meta(ge=-ID_MAX, le=ID_MAX)]
    | Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)]
)

NULL = b"null"
# Not decoded yet: see `mcp.params`.
Params = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": ["object", "null"]})]


class McpMessage(Schema, frozen=True):
    """A message from a client: a request; without `id` a notification, which is ignored.

    Attributes:
        jsonrpc: The version of JSON-RPC.
        method: The method, such as ``tools/call``; at most 100 characters.
        id: Repeated in the response: an integer, or at most 200 characters. Omitted in a
            notification.
        params: The parameters of the method; null or omitted for none.
    """

    jsonrpc: Literal["2.0"]
    method: Annotated[str, msgspec.Meta(max_length=METHOD_CHARS_MAX)]
    id: MessageId | UnsetType = UNSET
    params: Params = msgspec.field(default_factory=lambda: msgspec.Raw(NULL))

    def __post_init__(self) -> None:
        """Check the type of what is not decoded yet.

        Raises:
            ValueError: `params` is neither an object nor null.
        """
        if bytes(memoryview(self.params)[:1]) not in (b"{", NULL[:1]):
            raise ValueError("`params` must be an object")


class McpError(Schema, frozen=True):
    """A JSON-RPC error.

    Attributes:
        code: A number of JSON-RPC, such as -32602 for invalid parameters.
        message: What is wrong.
        data: More about the error; omitted if there is no more.
    """

    code: int
    message: str
    data: Any = UNSET


class McpAnswer(Schema, frozen=True):
    """The response to a request: a result or an error.

    Attributes:
        jsonrpc: The version of JSON-RPC.
        id: The id of the request; null for an error of a body that is no request.
        result: The result of the method; omitted if it failed.
        error: Why the method failed; omitted if it did not.
    """

    jsonrpc: Literal["2.0"]
    id: MessageId | None
    result: dict[str, Any] | UnsetType = UNSET
    error: McpError | UnsetType = UNSET


class WhoAmI(Schema, frozen=True):
    """The customer and the user of an McpToken, and its scopes.

    `user` is null if the token is bound to no user, or has no scope to read the profile. `role` is
    the role of the user, which limits the scopes; without a user, that of an editor.
    """

    customer_id: UUID
    customer_name: str
    token_name: str
    scopes: list[str]
    role: str
    modules: list[str]
    expires_at: datetime
    user: TenantUserProfile | None


class PostPart(PostResponse, frozen=True):
    """A post with a part of its content.

    Attributes:
        content: The part of the text that was requested, as it was written.
        content_chars: The number of characters of the whole text.
        next_offset: Where the next part begins; null at the end.
    """

    content_chars: int
    next_offset: int | None

    @classmethod
    def of_post(cls, post: Post, offset: int = 0, chars: int = PART_CHARS) -> Self:
        """Return *post* with *chars* characters of its content, from *offset* on."""
        return cls.of(post, **_part(post.content, offset, chars))


class PostVersionPart(PostVersionResponse, frozen=True):
    """A version of a post with a part of its content.

    Attributes:
        content: The part of the text that was requested, as it was written.
        content_chars: The number of characters of the whole text.
        next_offset: Where the next part begins; null at the end.
    """

    content_chars: int
    next_offset: int | None

    @classmethod
    def of_version(cls, version: PostVersion, offset: int, chars: int) -> Self:
        """Return *version* with *chars* characters of its content, from *offset* on."""
        return cls.of(version, **_part(version.content, offset, chars))


def _part(content: str, offset: int, chars: int) -> dict[str, Any]:
    end, length = offset + chars, len(content)
    following = end if end < length else None
    return {
        "content": content[offset:end],
        "content_chars": length,
        "next_offset": following,
    }
