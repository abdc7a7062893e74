"""The implementation of each tool: it calls the same operation as the HTTP API."""

from uuid import UUID

from tenantry.access.principal import Scope
from tenantry.kit.pages import Window
from tenantry.mcp.arguments import (
    CreatePost,
    ListPosts,
    NamePost,
    NoArguments,
    SearchPosts,
    UpdatePost,
    UpdateProfile,
)
from tenantry.mcp.call import Call
from tenantry.schemas.assistants import WhoAmI
from tenantry.schemas.base import Done, sent_members
from tenantry.schemas.content import PostPage, PostResponse
from tenantry.schemas.tenants import ModuleList
from tenantry.schemas.users import TenantUserProfile
from tenantry.tenant import entry, modules, profile, users
from tenantry.tenant.blog import posts
from tenantry.tenant.entry import Demand


async def whoami(call: Call, _: NoArguments) -> WhoAmI:
    """Return the customer and the user of the token."""
    ctx = call.ctx
    token, user_id = ctx.identity.mcp_token, entry.acting_user(ctx.identity)
    assert token is not None, "this endpoint requires an McpToken"
    user = None
    if user_id is not None and call.allows(Demand(Scope.PROFILE_READ)):
        user = TenantUserProfile.of(await users.get(ctx.database, user_id))
    return WhoAmI(
        customer_id=ctx.tenant.id,
        customer_name=ctx.tenant.name,
        token_name=token.name,
        scopes=sorted(token.scopes),
        modules=sorted(ctx.tenant.modules),
        expires_at=token.expires_at,
        user=user,
    )


async def list_modules(call: Call, _: NoArguments) -> ModuleList:
    """List the active modules."""
    return ModuleList(modules.active(call.ctx.tenant))


async def list_posts(call: Call, wanted: ListPosts) -> PostPage:
    """List posts."""
    return PostPage.of_page(
        await posts.page(call.ctx, wanted.window, status=wanted.status, tag=wanted.tag)
    )


async def search_posts(call: Call, wanted: SearchPosts) -> PostPage:
    """Search posts."""
    return PostPage.of_page(await posts.page(call.ctx, Window(wanted.page), search=wanted.query))


async def get_post(call: Call, wanted: NamePost) -> PostResponse:
    """Return one post."""
    return PostResponse.of(await posts.get_by_slug(call.ctx, wanted.slug))


async def create_post(call: Call, wanted: CreatePost) -> PostResponse:
    """Write a new draft."""
    made = await posts.create(call.ctx, call.services.folding, **sent_members(wanted))
    return PostResponse.of(made)


async def update_post(call: Call, wanted: UpdatePost) -> PostResponse:
    """Change a post."""
    changes = sent_members(wanted)
    post_id = await _id_of(call, changes.pop("slug"))
    if "new_slug" in changes:
        changes["slug"] = changes.pop("new_slug")
    changed = await posts.update(call.ctx, call.services.folding, post_id, **changes)
    return PostResponse.of(changed)


async def publish_post(call: Call, wanted: NamePost) -> PostResponse:
    """Publish a post."""
    post_id = await _id_of(call, wanted.slug)
    return PostResponse.of(await posts.publish(call.ctx, post_id))


async def unpublish_post(call: Call, wanted: NamePost) -> PostResponse:
    """Turn a post into a draft."""
    post_id = await _id_of(call, wanted.slug)
    return PostResponse.of(await posts.unpublish(call.ctx, post_id))


async def delete_post(call: Call, wanted: NamePost) -> Done:
    """Delete a post."""
    post_id = await _id_of(call, wanted.slug)
    await posts.delete(call.ctx, post_id)
    return Done("The post was deleted.")


async def update_profile(call: Call, wanted: UpdateProfile) -> TenantUserProfile:
    """Change the name and the address of the token's user."""
    claimant = entry.claimant_of(call.ctx)
    user = await profile.update_profile(claimant, full_name=wanted.full_name, email=wanted.email)
    return TenantUserProfile.of(user)


async def _id_of(call: Call, slug: str) -> UUID:
    return (await posts.get_by_slug(call.ctx, slug)).id
