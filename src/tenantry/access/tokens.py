"""Bearer tokens: signed, verified, and remembered while they are good."""

import base64
import hashlib
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
import msgspec

from tenantry.access.principal import Person, Role
from tenantry.access.signing import KeyRing, SigningKeys
from tenantry.kit.errors import Unauthenticated
from tenantry.kit.ids import new_id, parse_id

ALGORITHM = "EdDSA"
ISSUER = "tenantry"
AUDIENCES = {Role.ADMIN: "tenantry/admin", Role.TENANT_USER: "tenantry/tenant"}
# For iat and nbf, because clocks differ. An exp is an exp.
LEEWAY_SECONDS = 30
VERIFIED_MAX = 10_000
REQUIRED = ["exp", "iss", "aud", "iat", "nameid", "role"]


# Base64url without padding (RFC 7515, section 2): a token has one spelling.
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class BadToken(Unauthenticated):
    """The bearer token is missing, malformed, forged or expired."""


class Claims(msgspec.Struct, frozen=True):
    """What a token says of its bearer; the members are named as on the wire."""

    nameid: UUID
    email: str
    role: Role
    exp: int
    jti: str
    generation: int
    tenant_id: UUID | None = msgspec.field(default=None, name="TenantId")


class IssuedToken(msgspec.Struct, frozen=True):
    """A token and its end."""

    token: str
    expires_at: datetime


class Tokens:
    """Issues and verifies bearer tokens.

    Args:
        keys: Sign and verify.
        lifetime: How long a token lasts.
    """

    def __init__(self, keys: SigningKeys, *, lifetime: timedelta) -> None:
        self.lifetime = lifetime
        self._keys = keys
        self._verified: dict[bytes, tuple[UUID, Claims]] = {}

    async def issue(self, person: Person, *, now: datetime) -> IssuedToken:
        """Return a new token for a person."""
        key_id, private = (await self._keys.ring()).signer(now)
        expires_at = (now + self.lifetime).replace(microsecond=0)
        payload: dict[str, Any] = {
            "nameid": str(person.id),
            "email": person.email,
            "role": person.role.value,
            "iss": ISSUER,
            "aud": AUDIENCES[person.role],
            "iat": int(now.timestamp()),
            "exp": int(expires_at.timestamp()),
            "jti": str(new_id()),
            "generation": person.generation,
        }
        if person.tenant_id is not None:
            payload["TenantId"] = str(person.tenant_id)
        token = jwt.encode(payload, private, ALGORITHM, headers={"kid": str(key_id)})
        return IssuedToken(token, expires_at)

    async def verify(self, authorization: str | None, *, now: datetime) -> Claims:
        """Return the claims of an ``Authorization`` header (Bearer, RFC 6750).

        Raises:
            BadToken: There is none, or it does not verify, or it has expired.
        """
        if authorization is None:
            raise BadToken
        digest = hashlib.sha256(authorization.encode()).digest()
        remembered = self._verified.get(digest)
        if remembered is None or remembered[0] not in (await self._keys.ring()).publics:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() != "bearer" or not _COMPACT.fullmatch(token):
                raise BadToken
            remembered = await self._decode(token)
            self._remember(digest, remembered)
        claims = remembered[1]
        if claims.exp <= now.timestamp():
            raise BadToken
        return claims

    async def jwks(self) -> list[dict[str, str]]:
        """Return the public keys as JWKs (RFC 7517, RFC 8037)."""
        ring = await self._keys.ring()
        return [_jwk(key_id, ring) for key_id in ring.publics]

    async def _decode(self, token: str) -> tuple[UUID, Claims]:
        # What a forger can make PyJWT raise is not only its own errors.
        try:
            key_id = parse_id(str(jwt.get_unverified_header(token).get("kid")))
            if key_id is None:
                raise BadToken
            public = (await self._keys.ring_with(key_id)).publics.get(key_id)
            if public is None:
                raise BadToken
            payload = jwt.decode(
                token,
                public,
                algorithms=[ALGORITHM],
                issuer=ISSUER,
                audience=list(AUDIENCES.values()),
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED},
            )
            claims = msgspec.convert(payload, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, RecursionError) as error:
            raise BadToken from error
        if payload["aud"] != AUDIENCES[claims.role]:
            raise BadToken
        return key_id, claims

    def _remember(self, digest: bytes, verified: tuple[UUID, Claims]) -> None:
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        self._verified[digest] = verified


def _jwk(key_id: UUID, ring: KeyRing) -> dict[str, str]:
    raw = ring.publics[key_id].public_bytes_raw()
    x = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": ALGORITHM,
        "use": "sig",
        "kid": str(key_id),
        "x": x,
    }
