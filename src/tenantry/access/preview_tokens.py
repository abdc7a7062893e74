"""The tokens of preview links: signed, so the tenant is known before its database is opened."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KIND = "tnp_"
ID_BYTES = 16
SECONDS_BYTES = 8
CODE_BYTES = 24
_SIGNED_BYTES = 3 * ID_BYTES + SECONDS_BYTES
_NO_USER = UUID(int=0)


class PreviewClaims(msgspec.Struct, frozen=True):
    """What a token says: a link of a tenant, until a time in whole seconds.

    Attributes:
        user_id: Who has made the link; None without a user.
    """

    tenant_id: UUID
    link_id: UUID
    user_id: UUID | None
    expires_at: datetime


def key_of(secret: str) -> bytes:
    """Return the key that signs the tokens, from the secret key of the service."""
    derivation = HKDF(
        algorithm=hashes.SHA256(), length=32, salt=None, info=b"tenantry preview links"
    )
    return derivation.derive(secret.encode())


def sign(key: bytes, claims: PreviewClaims) -> str:
    """Return the token of a link."""
    seconds = int(claims.expires_at.timestamp()).to_bytes(SECONDS_BYTES, "big")
    ids = claims.tenant_id, claims.link_id, claims.user_id or _NO_USER
    signed = b"".join(one.bytes for one in ids) + seconds
    return KIND + urlsafe_b64encode(signed + _code(key, signed)).decode().rstrip("=")


def verify(key: bytes, token: str) -> PreviewClaims | None:
    """Return what a *token* says; None if it was not signed with *key*."""
    try:
        body = token.removeprefix(KIND).encode("ascii")
        data = urlsafe_b64decode(body + b"=" * (-len(body) % 4))
    except ValueError:
        return None
    # One text for each link: the decoder ignores padding and unused bits.
    if token != KIND + urlsafe_b64encode(data).decode().rstrip("="):
        return None
    signed, code = data[:_SIGNED_BYTES], data[_SIGNED_BYTES:]
    if not hmac.compare_digest(code, _code(key, signed)) or len(signed) != _SIGNED_BYTES:
        return None
    ids = (signed[at * ID_BYTES : (at + 1) * ID_BYTES] for at in range(3))
    tenant_id, link_id, user_id = (UUID(bytes=one) for one in ids)
    expires_at = datetime.fromtimestamp(int.from_bytes(signed[-SECONDS_BYTES:], "big"), UTC)
    return PreviewClaims(tenant_id, link_id, None if user_id == _NO_USER else user_id, expires_at)


def _code(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")[:CODE_BYTES]
