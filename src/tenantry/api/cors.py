"""Let pages of listed origins call the public and the tenant endpoints (CORS)."""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

OPENED = ("/api/public/", "/api/tenant/")
HEADERS_ALLOWED = (
    "Authorization",
    "Content-Type",
    "If-None-Match",
    "X-Api-Key",
    "X-Mcp-Token",
)
HEADERS_EXPOSED = ("Deprecation", "ETag", "Retry-After", "Sunset", "X-Request-Id")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Cors:
    """Answers preflight requests, and marks answers, below the `OPENED` paths alone.

    No cookies are involved: credentials are headers, and a page must have them to send them.

    Args:
        app: What is asked.
        origins: Whose pages may ask.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._opened = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=HEADERS_ALLOWED,
            expose_headers=HEADERS_EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        app = self._opened if scope["path"].startswith(OPENED) else self._app
        await app(scope, receive, send)
