"""Read, write and manage with the Python client: URL KEY EMAIL PASSWORD ADMIN ADMIN_PASSWORD."""

import sys
from typing import TypeVar

from tenantry_client import AuthenticatedClient, Client
from tenantry_client.api.admin import list_tenants_tenants
from tenantry_client.api.open_ import login_admin_auth
from tenantry_client.api.public import list_posts_blog
from tenantry_client.api.tenant import create_post_tenant_posts
from tenantry_client.api.tenant_login import login_tenant_auth
from tenantry_client.models import (
    CreatePostTenantPostsResponse201,
    Failure,
    ListPostsBlogResponse200,
    ListTenantsTenantsResponse200,
    LoginAdminAuthResponse200,
    LoginRequest,
    LoginTenantAuthResponse200,
    WritePostRequest,
)

T = TypeVar("T")


def succeeded(answer: object, expected: type[T]) -> T:
    """Return *answer*, which is of the type *expected*; otherwise end with its message."""
    if isinstance(answer, expected):
        return answer
    sys.exit(answer.message if isinstance(answer, Failure) else f"Unexpected: {answer!r}")


url, key, email, password, admin_email, admin_password = sys.argv[1:]

# A website: the API key of the tenant is enough to read.
website = AuthenticatedClient(url, token=key, prefix="", auth_header_name="X-Api-Key")
posts = succeeded(list_posts_blog.sync(client=website, page_size=3), ListPostsBlogResponse200)
for post in posts.data.items:
    print("post:", post.title)

# A user of the tenant: the API key names the tenant, and the token of the login the user.
login = succeeded(
    login_tenant_auth.sync(client=website, body=LoginRequest(email=email, password=password)),
    LoginTenantAuthResponse200,
)
user = AuthenticatedClient(url, token=login.data.token, headers={"X-Api-Key": key})
written = WritePostRequest(title="Written in Python", content="By the generated client.")
created = succeeded(
    create_post_tenant_posts.sync(client=user, body=written), CreatePostTenantPostsResponse201
)
print("created:", created.data.title)

# An admin of the service.
login_admin = succeeded(
    login_admin_auth.sync(
        client=Client(url), body=LoginRequest(email=admin_email, password=admin_password)
    ),
    LoginAdminAuthResponse200,
)
admin = AuthenticatedClient(url, token=login_admin.data.token)
tenants = succeeded(
    list_tenants_tenants.sync(client=admin, page_size=100), ListTenantsTenantsResponse200
)
print("tenants:", tenants.data.total_count)
