"""The door of the console: serves its files, in front of the API.

The console has no private endpoints. Its pages call the HTTP API with the
token of the signed-in admin, so they show what `curl` shows. So the files are public, and this
door uses neither credentials nor databases.
"""

from starlette.types import Scope, Send

from tenantry.console.files import (
    CONSOLES,
    FLEET,
    MANUAL,
    PAGES,
    PREFIX,
    START,
    File,
    find,
    manual_paths,
    read_files,
)
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.ids import new_request_id
from tenantry.kit.metrics import Metrics
from tenantry.kit.negotiation import ANY, accepts_gzip, accepts_html, known_tags
from tenantry.kit.request_log import AccessEntry, AccessLog

Headers = list[tuple[bytes, bytes]]

ROUTE = "/console/{file}"
METHODS = ("GET", "HEAD")
# No code and no style but the console's own files, no page around it, nothing from elsewhere;
# and a browser that knows trusted types refuses every way of making markup from text.
# Source: https://www.w3.org/TR/CSP3/ and https://www.w3.org/TR/trusted-types/
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFEGUARDS: Headers = [
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
# Browsers revalidate a page each time, so a new release is visible immediately. What a page refers
# to has the version in its path.
VARY = (b"vary", b"accept, accept-encoding")
CACHING: Headers = [(b"cache-control", b"no-cache"), VARY]
KEEPING: Headers = [(b"cache-control", b"public, max-age=31536000, immutable"), VARY]
# In the envelope, as every refusal.
NOT_TAKEN = b'{"success":false,"data":null,"message":"This path does not support this method."}'
NOT_TAKEN_HEADERS: Headers = [
    (b"allow", ", ".join(METHODS).encode()),
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-error-code", b"method_not_allowed"),
]


class Console:
    """Serves the console's files."""

    def __init__(self, access_log: AccessLog, metrics: Metrics, *, is_fleet: bool = False) -> None:
        self._is_fleet = is_fleet
        self._access_log = access_log
        self._metrics = metrics
        read_files()
        manual_paths()

    async def respond(self, scope: Scope, send: Send) -> bool:
        """Send the response to a request (ASGI), and return True; False if it is not for a file."""
        path = scope["raw_path"].decode("latin-1")
        if not path.startswith((PREFIX, MANUAL)) and path not in PAGES:
            return False
        if self._is_fleet and path in CONSOLES:
            path = FLEET
        file, is_kept = find(path)
        # For an API client there is nothing at the root; a browser gets links.
        if file is None or (path == START and not accepts_html(scope["headers"])):
            return False
        began = monotonic_seconds()
        method: str = scope["method"]
        status, headers, body = _answer(file, method, scope["headers"], is_kept=is_kept)
        if path == MANUAL and method in METHODS:  # links of a page are relative to its folder
            location = (b"location", f"{MANUAL}/".encode())
            status, headers, body = 308, [location, *CACHING, _length(b"")], b""
        request_id = new_request_id()
        headers += [*SAFEGUARDS, (b"x-request-id", request_id.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
        self._note(request_id, method, status, (monotonic_seconds() - began) * 1000)
        return True

    def _note(self, request_id: str, method: str, status: int, ms: float) -> None:
        # A HEAD is a GET without its body, and is counted as the API counts it.
        logged = "GET" if method == "HEAD" else method
        entry = AccessEntry(
            at=utc_now(),
            level="info",
            event="request",
            request_id=request_id,
            method=logged,
            path=ROUTE,
            status=status,
            ms=round(ms, 2),
        )
        self._access_log.write(entry)
        self._metrics.requests.count(logged, ROUTE, status, ms)


def _answer(file: File, method: str, sent: Headers, *, is_kept: bool) -> tuple[int, Headers, bytes]:
    """Return the status, the headers and the body."""
    if method not in METHODS:
        return 405, [*NOT_TAKEN_HEADERS, _length(NOT_TAKEN)], NOT_TAKEN
    form = file.zipped if accepts_gzip(sent) else file.plain
    headers = [*(KEEPING if is_kept else CACHING), (b"etag", form.etag)]
    known = known_tags(sent)
    if form.etag in known or ANY in known:
        return 304, headers, b""
    headers += [(b"content-type", file.media_type), _length(form.body)]
    if form.encoding is not None:
        headers.append((b"content-encoding", form.encoding))
    return 200, headers, form.body


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", str(len(body)).encode()
