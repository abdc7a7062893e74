"""The table of tools: arguments, result, requirements and operation of each.

As with endpoints, the table defines what is listed, who may call it, and what is called.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import mcp_types as types
import msgspec
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError

from tenantry.access.principal import Scope
from tenantry.db.sessions import retry_deadlock
from tenantry.kit.errors import TenantryError
from tenantry.mcp import arguments, operations, results
from tenantry.mcp.arguments import Arguments
from tenantry.mcp.call import Call, call_of
from tenantry.mcp.json_schemas import schema_of
from tenantry.schemas.assistants import WhoAmI
from tenantry.schemas.base import Done
from tenantry.schemas.content import PostPage, PostResponse
from tenantry.schemas.tenants import ModuleList
from tenantry.schemas.users import TenantUserProfile
from tenantry.tenant import modules
from tenantry.tenant.databases import require_writable
from tenantry.tenant.entry import Demand

Request = ServerRequestContext[Any, Any]

ANYBODY = Demand()
READING = Demand(Scope.CONTENT_READ, modules.BLOG)
WRITING = Demand(Scope.CONTENT_WRITE, modules.BLOG)

# No tool has effects outside the tenant's database.
READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
SWITCHES = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
OVERWRITES = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool.

    Attributes:
        run: The operation. It takes the caller and the arguments; its name is that of the tool.
        title: The title, for people.
        description: The description, for models.
        takes: The type of the arguments.
        returns: The type of the result.
        hints: What a client may assume about its effects.
        demand: The required scope and module; without them the tool is not listed.
        is_persons: Whether it needs a token that is bound to a user.
        names: The tool's names of arguments that have another name in the operation, by that
            name.
    """

    run: Callable[[Call, Any], Awaitable[msgspec.Struct]]
    title: str
    description: str
    takes: type[Arguments] = arguments.NoArguments
    returns: type[msgspec.Struct]
    hints: types.ToolAnnotations
    demand: Demand = ANYBODY
    is_persons: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def writes(self) -> bool:
        """Whether it writes to the tenant's data."""
        return not self.hints.read_only_hint

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.run.__name__

    @cached_property
    def listed(self) -> types.Tool:
        """The tool in the form of `tools/list`."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.takes),
            output_schema=schema_of(self.returns),
            annotations=self.hints,
        )

    def is_open_to(self, call: Call) -> bool:
        """Return whether the caller may call it."""
        return call.allows(self.demand) and (call.is_for_person or not self.is_persons)


TOOLS: tuple[Tool, ...] = (
    Tool(
        run=operations.whoami,
        title="Who am I",
        description="Return the customer and the user of this token, and what it allows.",
        returns=WhoAmI,
        hints=READS,
    ),
    Tool(
        run=operations.list_modules,
        title="List modules",
        description="List the modules that are active for the customer.",
        returns=ModuleList,
        hints=READS,
        demand=Demand(Scope.MODULES_READ),
    ),
    Tool(
        run=operations.list_posts,
        title="List posts",
        description="List the posts, newest first, without their contents.",
        takes=arguments.ListPosts,
        returns=PostPage,
        hints=READS,
        demand=READING,
    ),
    Tool(
        run=operations.search_posts,
        title="Search posts",
        description="List the posts that contain a text in the title or the content, newest first.",
        takes=arguments.SearchPosts,
        returns=PostPage,
        hints=READS,
        demand=READING,
        names={"search": "query"},
    ),
    Tool(
        run=operations.get_post,
        title="Get a post",
        description="Return one post with its content. A draft has no `publishedAt`.",
        takes=arguments.NamePost,
        returns=PostResponse,
        hints=READS,
        demand=READING,
    ),
    Tool(
        run=operations.create_post,
        title="Create a post",
        description="Create a draft. `publish_post` makes it visible to readers.",
        takes=arguments.CreatePost,
        returns=PostResponse,
        hints=ADDS,
        demand=WRITING,
    ),
    Tool(
        run=operations.update_post,
        title="Update a post",
        description="Change a post; omitted arguments are not changed. If it is published, readers "
        "see the change immediately.",
        takes=arguments.UpdatePost,
        returns=PostResponse,
        hints=OVERWRITES,
        demand=WRITING,
        names={"slug": "new_slug"},
    ),
    Tool(
        run=operations.publish_post,
        title="Publish a post",
        description="Publish a post. A published post is not changed.",
        takes=arguments.NamePost,
        returns=PostResponse,
        hints=SWITCHES,
        demand=WRITING,
    ),
    Tool(
        run=operations.unpublish_post,
        title="Unpublish a post",
        description="Turn a published post into a draft, which readers do not see.",
        takes=arguments.NamePost,
        returns=PostResponse,
        hints=SWITCHES,
        demand=WRITING,
    ),
    Tool(
        run=operations.delete_post,
        title="Delete a post",
        description="Permanently delete a post or a draft.",
        takes=arguments.NamePost,
        returns=Done,
        hints=OVERWRITES,
        demand=WRITING,
    ),
    Tool(
        run=operations.update_profile,
        title="Update the profile",
        description="Change the name and the e-mail address of the token's user.",
        takes=arguments.UpdateProfile,
        returns=TenantUserProfile,
        hints=OVERWRITES,
        demand=Demand(Scope.PROFILE_WRITE),
        is_persons=True,
        names={"fullName": "full_name"},
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


def open_to(call: Call) -> Iterable[Tool]:
    """Return the tools that the caller may call."""
    return (tool for tool in TOOLS if tool.is_open_to(call))


async def list_tools(
    request: Request, _params: types.PaginatedRequestParams
) -> types.ListToolsResult:
    """List all tools that the token may call, on one page."""
    return types.ListToolsResult(tools=[tool.listed for tool in open_to(call_of(request))])


async def call_tool(request: Request, params: types.CallToolRequestParams) -> dict[str, Any]:
    """Call a tool.

    Raises:
        MCPError: It does not exist, or the token may not call it; the message is the same.
    """
    call = call_of(request)
    tool = _BY_NAME.get(params.name)
    if tool is None or not tool.is_open_to(call):
        raise MCPError(
            types.INVALID_PARAMS, "Unknown tool: `tools/list` names those that this token may call."
        )
    try:
        if tool.writes:
            require_writable(call.ctx.tenant)
        wanted = arguments.read(tool.takes, call.arguments)
    except TenantryError as error:
        return results.failure(call, tool.name, error, {})
    try:
        return results.success(await retry_deadlock(partial(tool.run, call, wanted)))
    except Exception as error:  # noqa: BLE001 - it is a result: the model is to read it
        return results.failure(call, tool.name, error, tool.names)
