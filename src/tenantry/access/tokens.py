"""Issue and verify bearer tokens (JWT); verified ones are cached."""

import base64
import hashlib
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
import msgspec

from tenantry.access.principal import Person, Role
from tenantry.access.signing import RingKey, SigningKeys
from tenantry.kit.errors import Conflict, Unauthenticated
from tenantry.kit.ids import new_id, parse_id

ALGORITHM = "EdDSA"
ISSUER = "tenantry"
AUDIENCES = {Role.ADMIN: "tenantry/admin", Role.TENANT_USER: "tenantry/tenant"}
TYPE = "JWT"
# For nbf, because clocks differ. It does not extend exp, which `verify` checks exactly.
LEEWAY_SECONDS = 30
# How far in the future a token's iat and auth_time may be: the clock may have been set back since.
AHEAD_SECONDS_MAX = 7_200
# How long a session can be renewed, since its password was verified.
SESSION_MAX = timedelta(hours=12)
VERIFIED_MAX = 10_000
REQUIRED = ["exp", "iss", "aud", "iat", "nameid", "role"]


# Base64url without padding (RFC 7515, section 2), so that a token has only one encoding.
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class BadToken(Unauthenticated):
    """The bearer token is missing, malformed, forged or expired."""


class SessionNotRenewable(Conflict):
    """The signing key was replaced since the token was issued: log in again."""


class Claims(msgspec.Struct, frozen=True):
    """The claims of a token; the members are named as on the wire.

    Attributes:
        kid: The key that signed the token: from its header.
        auth_time: When the password was verified.
    """

    nameid: UUID
    email: str
    role: Role
    iat: int
    exp: int
    jti: str
    generation: int
    kid: UUID
    auth_time: int = 0
    tenant_id: UUID | None = msgspec.field(default=None, name="TenantId")


class IssuedToken(msgspec.Struct, frozen=True, rename="camel"):
    """A token, and when it expires.

    Attributes:
        token: The secret: a JWT, which is sent as `Authorization: Bearer`.
        expires_at: When it becomes invalid, if the session does not end earlier.
    """

    token: str
    expires_at: datetime


class Session(msgspec.Struct, frozen=True):
    """A session: all its tokens have its id, so a logout ends all of them.

    Attributes:
        began_at: When the password was verified.
        expires_at: When the token that is renewed expires.
        key_id: The key that signed that token.
    """

    id: str
    began_at: datetime
    expires_at: datetime
    key_id: UUID


class Tokens:
    """Issues bearer tokens of a *lifetime*, and verifies them."""

    def __init__(self, keys: SigningKeys, *, lifetime: timedelta) -> None:
        self.lifetime = lifetime
        self._keys = keys
        self._verified: dict[bytes, tuple[UUID, Claims]] = {}

    async def issue(
        self, person: Person, *, now: datetime, session: Session | None = None
    ) -> IssuedToken:
        """Return a token for a person: of a new session, or of the *session* that it renews.

        Raises:
            SessionNotRenewable: The key of the session's token no longer signs.
        """
        key = (await self._keys.ring()).signer(now)
        session = session or Session(str(new_id()), now, now + self.lifetime, key.id)
        if session.key_id != key.id:
            # A forged token would become a genuine one, which outlives the stolen key.
            raise SessionNotRenewable
        latest = max(session.began_at + SESSION_MAX, session.expires_at)
        expires_at = min(now + self.lifetime, latest).replace(microsecond=0)
        payload: dict[str, Any] = {
            "nameid": str(person.id),
            "email": person.email,
            "role": person.role.value,
            "iss": ISSUER,
            "aud": AUDIENCES[person.role],
            "iat": int(now.timestamp()),
            "exp": int(expires_at.timestamp()),
            "jti": session.id,
            "auth_time": int(session.began_at.timestamp()),
            "generation": person.generation,
        }
        if person.tenant_id is not None:
            payload["TenantId"] = str(person.tenant_id)
        token = jwt.encode(payload, key.private, ALGORITHM, headers={"kid": str(key.id)})
        return IssuedToken(token, expires_at)

    async def verify(self, authorization: str | None, *, now: datetime) -> Claims:
        """Return the claims of an ``Authorization`` header (Bearer, RFC 6750).

        Raises:
            BadToken: It is missing, does not verify, or has expired.
        """
        if authorization is None:
            raise BadToken
        digest = hashlib.sha256(authorization.encode()).digest()
        cached = self._verified.get(digest)
        if cached is None or cached[0] not in (await self._keys.ring()).keys:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() != "bearer" or not _COMPACT.fullmatch(token):
                raise BadToken
            cached = await self._decode(token, now)
            self._remember(digest, cached)
        claims = cached[1]
        if claims.exp <= now.timestamp():
            raise BadToken
        return claims

    async def jwks(self) -> list[dict[str, str]]:
        """Return the public keys as JWKs (RFC 7517, RFC 8037)."""
        ring = await self._keys.ring()
        return [_jwk(key) for key in ring.keys.values()]

    async def _decode(self, token: str, now: datetime) -> tuple[UUID, Claims]:
        # A forged token can make PyJWT raise more than its own errors.
        try:
            header = jwt.get_unverified_header(token)
            key_id = parse_id(str(header.get("kid")))
            if key_id is None or header.get("typ") != TYPE:
                raise BadToken
            key = (await self._keys.ring_with(key_id)).keys.get(key_id)
            if key is None:
                raise BadToken
            payload = jwt.decode(
                token,
                key.public,
                algorithms=[ALGORITHM],
                issuer=ISSUER,
                audience=list(AUDIENCES.values()),
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED, "verify_iat": False},
            )
            claims = msgspec.convert({**payload, "kid": str(key_id)}, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, RecursionError) as error:
            raise BadToken from error
        if payload["aud"] != AUDIENCES[claims.role] or not self._has_valid_times(claims, key, now):
            raise BadToken
        return key_id, claims

    def _has_valid_times(self, claims: Claims, key: RingKey, now: datetime) -> bool:
        """Return whether the times are those of a token that `issue` could have created.

        This limits the use of a stolen key: no token that it signs is valid for longer than one
        lifetime after the key has stopped signing.
        """
        return (
            claims.exp - claims.iat <= self.lifetime.total_seconds()
            and 0 <= claims.auth_time <= now.timestamp() + AHEAD_SECONDS_MAX
            and claims.iat <= now.timestamp() + AHEAD_SECONDS_MAX
            and key.may_have_signed(claims.iat)
        )

    def _remember(self, digest: bytes, verified: tuple[UUID, Claims]) -> None:
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        self._verified[digest] = verified


def _jwk(key: RingKey) -> dict[str, str]:
    x = base64.urlsafe_b64encode(key.public.public_bytes_raw()).rstrip(b"=").decode()
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": ALGORITHM,
        "use": "sig",
        "kid": str(key.id),
        "x": x,
    }
