"""The router finds the endpoint of a path, or raises why there is none."""

from http import HTTPStatus
from typing import Any

import pytest

from tenantry.api.endpoints import Endpoint, NoSuchPath, Router
from tenantry.api.error_responses import MethodNotAllowed
from tenantry.api.table import ENDPOINTS


async def _handler(*_: Any) -> None: ...


def endpoint(method: str, path: str) -> Endpoint:
    return Endpoint(
        method=method,
        path=path,
        level=None,  # type: ignore[arg-type]
        handler=_handler,
        response=None,
        summary="An endpoint.",
    )


ROUTER = Router(
    [
        endpoint("GET", "/tenants"),
        endpoint("POST", "/tenants"),
        endpoint("GET", "/tenants/{id}"),
        endpoint("DELETE", "/tenants/{id}"),
        endpoint("POST", "/tenants/migrate-all"),
        endpoint("GET", "/tenants/history"),
        endpoint("GET", "/tenants/history/{runId}"),
        endpoint("GET", "/tenants/{id}/users/{userId}"),
        endpoint("POST", "/tenants/{tenantId}/users"),
    ]
)


class TestFind:
    @pytest.mark.parametrize(
        ("method", "path", "found", "values"),
        [
            ("GET", "/tenants", "/tenants", {}),
            ("GET", "/tenants/17", "/tenants/{id}", {"id": "17"}),
            ("POST", "/tenants/migrate-all", "/tenants/migrate-all", {}),
            ("GET", "/tenants/history", "/tenants/history", {}),
            ("GET", "/tenants/history/5", "/tenants/history/{runId}", {"run_id": "5"}),
            (
                "GET",
                "/tenants/1/users/2",
                "/tenants/{id}/users/{userId}",
                {"id": "1", "user_id": "2"},
            ),
            ("POST", "/tenants/1/users", "/tenants/{tenantId}/users", {"tenant_id": "1"}),
            ("GET", "/tenants/{id}", "/tenants/{id}", {"id": "{id}"}),
        ],
    )
    def test_gives_the_endpoint_and_its_parameters(
        self, method: str, path: str, found: str, values: dict[str, str]
    ):
        one, parameters = ROUTER.find(method, path)

        assert (one.method, one.path) == (method, found)
        assert parameters == values

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("DELETE", "/tenants", {"GET", "HEAD", "POST"}),
            ("GET", "/tenants/migrate-all", {"POST"}),  # and is not the tenant of that id
            ("PATCH", "/tenants/17", {"GET", "HEAD", "DELETE"}),
            ("get", "/tenants", {"GET", "HEAD", "POST"}),
        ],
    )
    def test_lists_the_allowed_methods_of_a_path(self, method: str, path: str, allowed: set[str]):
        with pytest.raises(MethodNotAllowed) as caught:
            ROUTER.find(method, path)

        assert caught.value.headers == [(b"allow", ", ".join(sorted(allowed)).encode())]

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "/",
            "*",
            "tenants",
            "/tenants/",
            "//tenants",
            "/tenants//users",
            "/tenants/1/",
            "/tenants/1/users/",
            "/tenants/1/users/2/3",
            "/tenants/history/5/6",
            "/Tenants",
            "/tenants/1/nothing",
            "/x" * 10_000,
        ],
    )
    def test_knows_no_other_path(self, path: str):
        """An empty segment is not a parameter, and a trailing slash is another path."""
        with pytest.raises(NoSuchPath):
            ROUTER.find("GET", path)

    @pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
    def test_gives_each_endpoint_of_the_table(self, one: Endpoint):
        values = dict.fromkeys(one.parameters, "x")
        parts = ["x" if part.startswith("{") else part for part in one.path.split("/")]

        found, parameters = Router(ENDPOINTS).find(one.method, "/".join(parts))

        assert found is one
        assert parameters == values
        assert one.status < HTTPStatus.BAD_REQUEST
