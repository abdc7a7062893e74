"""What caches may do with an answer: shared ones store none, and a browser stores pages alone.

An answer that depends on a credential must never be served to another caller, and most caches
do not know `X-Api-Key` and `X-Mcp-Token` as credentials. So every answer of the API says
``no-store``, errors included, and names the credential headers in ``Vary``. The exception are
the pages of `api.conditional`, which are ``private``: a browser stores them, and asks each time.
"""

from functools import lru_cache

from tenantry.api.envelope import Headers

NO_STORE = (b"cache-control", b"no-store")
PRIVATE = (b"cache-control", b"private, no-cache")
# A browser must not run as a script what is sent as data.
# Source: https://fetch.spec.whatwg.org/#x-content-type-options-header
NO_SNIFF = (b"x-content-type-options", b"nosniff")
ACCEPT_ENCODING = b"Accept-Encoding"
_SHOWN = {
    b"authorization": b"Authorization",
    b"x-api-key": b"X-Api-Key",
    b"x-mcp-token": b"X-Mcp-Token",
}


@lru_cache(maxsize=64)
def cache_headers(credentials: frozenset[bytes], *, is_page: bool, is_negotiated: bool) -> Headers:
    """Return the headers of an answer that are for caches, and for browsers.

    Args:
        credentials: The request headers that the answer depends on, in lower case.
        is_page: Whether the client may store it, and asks each time whether it is still good.
        is_negotiated: Whether its coding depends on ``Accept-Encoding``.
    """
    varies = [shown for name, shown in _SHOWN.items() if name in credentials]
    # One header: what adds to ``Vary`` later, as CORS does, keeps the first line alone.
    varies += [ACCEPT_ENCODING] if is_negotiated else []
    vary: Headers = [(b"vary", b", ".join(varies))] if varies else []
    return [PRIVATE if is_page else NO_STORE, *vary, NO_SNIFF]
