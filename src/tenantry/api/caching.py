"""Cache headers: shared caches store no response, and browsers store only public pages.

A response that depends on a credential must never be served to another caller, and most caches
do not recognize `X-Api-Key` and `X-Mcp-Token` as credentials. So every response of the API,
including errors, has ``no-store``, and names the credential headers in ``Vary``. Public pages are
the exception: they are ``private, no-cache``, so a browser stores them and revalidates them each
time.
"""

from functools import lru_cache

from tenantry.api.envelope import Headers

NO_STORE = (b"cache-control", b"no-store")
PRIVATE = (b"cache-control", b"private, no-cache")
# A browser must not execute data as a script.
# Source: https://fetch.spec.whatwg.org/#x-content-type-options-header
NO_SNIFF = (b"x-content-type-options", b"nosniff")
ACCEPT_ENCODING = b"Accept-Encoding"


@lru_cache(maxsize=64)
def cache_headers(credentials: frozenset[bytes], *, is_page: bool, is_negotiated: bool) -> Headers:
    """Return the headers of a response for caches and browsers.

    Args:
        credentials: The request headers that the response depends on, in lower case.
        is_page: Whether the client may store the response and must revalidate it.
        is_negotiated: Whether its coding depends on ``Accept-Encoding``.
    """
    varies = [name.title() for name in sorted(credentials)]
    # One header: the CORS middleware extends the first ``Vary`` and drops any other.
    varies += [ACCEPT_ENCODING] if is_negotiated else []
    vary: Headers = [(b"vary", b", ".join(varies))] if varies else []
    return [PRIVATE if is_page else NO_STORE, *vary, NO_SNIFF]
