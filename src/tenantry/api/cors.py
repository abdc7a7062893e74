"""Let pages of listed origins call the public and the tenant endpoints (CORS)."""

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
    """Starlette's, whose answers to preflight requests look like the others of the API."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer one preflight request."""
        answer = super().preflight_response(request_headers)
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            answer.headers["X-Error-Code"] = PREFLIGHT_REFUSED
        return answer


class Cors:
    """Answers preflight requests, and marks answers, below the `OPENED` paths alone.

    No cookies are involved: credentials are headers, and a page must have them to send them.

    Args:
        app: What is asked.
        origins: Whose pages may ask.
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
        """Answer one request (ASGI)."""
        app = self._opened if scope["raw_path"].startswith(OPENED) else self._app
        await app(scope, receive, send)
