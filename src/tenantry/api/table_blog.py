"""The part of the table of endpoints that is the blog's."""

from functools import partial
from http import HTTPStatus

from tenantry.access.principal import Scope
from tenantry.api.endpoints import CONTENT_BYTES_MAX, Endpoint
from tenantry.api.levels import PUBLIC, TENANT
from tenantry.api.routes import blog, tenant_posts
from tenantry.schemas.content import (
    PostPage,
    PostPageRequest,
    PostResponse,
    PublishedPost,
    PublishedPostPage,
    PublishedPostPageRequest,
    WritePostRequest,
)
from tenantry.tenant import modules

_POSTS = "/api/tenant/blog/posts"
_PUBLISHED = "/api/public/blog/posts"
_NOT_FOUND = frozenset({HTTPStatus.NOT_FOUND})
_CONFLICT = frozenset({HTTPStatus.CONFLICT})

_read = partial(Endpoint, method="GET", level=TENANT, scope=Scope.CONTENT_READ, module=modules.BLOG)
_write = partial(
    Endpoint,
    level=TENANT,
    scope=Scope.CONTENT_WRITE,
    module=modules.BLOG,
    body_bytes_max=CONTENT_BYTES_MAX,
)
_read_published = partial(_read, level=PUBLIC, version=blog.version_of_posts)

BLOG_ENDPOINTS = (
    _read(
        path=_POSTS,
        handler=tenant_posts.list_posts,
        request=PostPageRequest,
        response=PostPage,
        summary="List posts, including drafts",
    ),
    _write(
        method="POST",
        path=_POSTS,
        handler=tenant_posts.create_post,
        request=WritePostRequest,
        response=PostResponse,
        summary="Create a draft",
        status=HTTPStatus.CREATED,
        errors=_CONFLICT,
    ),
    _read(
        path=_POSTS + "/{postId}",
        handler=tenant_posts.show_post,
        response=PostResponse,
        summary="Show a post",
        errors=_NOT_FOUND,
    ),
    _write(
        method="PUT",
        path=_POSTS + "/{postId}",
        handler=tenant_posts.update_post,
        request=WritePostRequest,
        response=PostResponse,
        summary="Change a post; slug, excerpt and tags are kept if left out",
        errors=_NOT_FOUND | _CONFLICT,
    ),
    _write(
        method="DELETE",
        path=_POSTS + "/{postId}",
        handler=tenant_posts.delete_post,
        response=None,
        summary="Delete a post",
        message="The post was deleted.",
        errors=_NOT_FOUND,
    ),
    _write(
        method="POST",
        path=_POSTS + "/{postId}/publish",
        handler=tenant_posts.publish_post,
        response=PostResponse,
        summary="Publish a post",
        errors=_NOT_FOUND,
    ),
    _write(
        method="POST",
        path=_POSTS + "/{postId}/unpublish",
        handler=tenant_posts.unpublish_post,
        response=PostResponse,
        summary="Turn a published post into a draft",
        errors=_NOT_FOUND,
    ),
    _read_published(
        path=_PUBLISHED,
        handler=blog.list_posts,
        request=PublishedPostPageRequest,
        response=PublishedPostPage,
        summary="List published posts",
    ),
    _read_published(
        path=_PUBLISHED + "/{slug}",
        handler=blog.show_post,
        response=PublishedPost,
        summary="Show a published post",
        errors=_NOT_FOUND,
    ),
)
