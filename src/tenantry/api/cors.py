"""Allow pages of listed origins to call the public and the tenant endpoints (CORS)."""

from collections.abc import Sequence
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

OPENED = (b"/api/public/", b"/api/tenant/")
HEADERS_ALLOWED = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "X-Api-Key",
    "X-Mcp-Token",
)
HEADERS_EXPOSED = (
    "Deprecation",
    "ETag",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "Sunset",
    "X-Error-Code",
    "X-Request-Id",
)
PREFLIGHT_REFUSED = "preflight_refused"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class _Opened(CORSMiddleware):
    """Starlette's middleware, with the headers that every response of the API has."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request."""
        response = super().preflight_response(request_headers)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            response.headers["X-Error-Code"] = PREFLIGHT_REFUSED
        return response


class Cors:
    """Answers preflight requests and adds the CORS headers, below the `OPENED` paths only.

    Credentials are sent in request headers, never in cookies, so a page must hold them itself.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._opened = _Opened(
            app,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=HEADERS_ALLOWED,
            expose_headers=HEADERS_EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        app = self._opened if scope["raw_path"].startswith(OPENED) else self._app
        await app(scope, receive, send)
