"""Parse Accept and Accept-Encoding, which select a representation, and If-(None-)Match.

The API and the console both use this module, so that they agree on the same header.
"""

from collections.abc import Iterable, Iterator

ANY = b"*"
ELEMENTS_MAX = 100
"""The most elements of a header that are read: clients send a dozen."""

RawHeaders = Iterable[tuple[bytes, bytes]]


def accepts_gzip(headers: RawHeaders) -> bool:
    """Return whether the client accepts gzip (RFC 9110, section 12.5.3).

    An invalid weight means no: every client can read an uncompressed body.
    """
    accepted: dict[bytes, bool] = {}
    for element in _elements(headers, b"accept-encoding"):
        coding, semicolon, weight = element.lower().partition(b";")
        accepted[coding.strip()] = not semicolon or _is_positive(weight.strip())
    return accepted.get(b"gzip", accepted.get(ANY, False))


def accepts_html(headers: RawHeaders) -> bool:
    """Return whether the client lists ``text/html``, as browsers do and API clients do not."""
    for element in _elements(headers, b"accept"):
        media_type, semicolon, weight = element.lower().partition(b";")
        if media_type.strip() == b"text/html":
            return not semicolon or _is_positive(weight.strip())
    return False


def known_tags(headers: RawHeaders) -> frozenset[bytes]:
    """Return the entity tags in ``If-None-Match``; `ANY` matches all.

    The comparison is weak, so a prefix ``W/`` is removed (RFC 9110, section 13.1.2).
    """
    tags = _elements(headers, b"if-none-match")
    return frozenset(tag[2:] if tag.startswith(b'W/"') else tag for tag in tags)


def expected_tags(headers: RawHeaders) -> frozenset[bytes] | None:
    """Return the entity tags in ``If-Match``; `ANY` matches all. None without the header.

    The comparison is strong: a weak tag stays weak and equals no strong one (RFC 9110, 13.1.1).
    An empty header has no tags, so it matches nothing.
    """
    sent = [one for one in headers if one[0] == b"if-match"]
    return frozenset(_elements(sent, b"if-match")) if sent else None


def _elements(headers: RawHeaders, name: bytes) -> Iterator[bytes]:
    """Yield the first elements of a list that may be in several headers (RFC 9110, 5.6.1)."""
    for found, value in headers:
        if found == name:
            for element in value.split(b",", ELEMENTS_MAX)[:ELEMENTS_MAX]:
                if stripped := element.strip():
                    yield stripped


def _is_positive(weight: bytes) -> bool:
    name, equals, digits = weight.partition(b"=")
    whole, _, decimals = digits.partition(b".")
    is_number = whole in {b"0", b"1"} and (not decimals or decimals.isdigit())
    return name == b"q" and bool(equals) and is_number and bool(digits.strip(b"0."))
