"""The keys that sign bearer tokens: made, sealed, published, retired."""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tenantry.catalog import signing_keys
from tenantry.catalog.database import Catalog
from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.signing_keys import SigningKey
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid, Unavailable
from tenantry.kit.ids import new_id

# Every process must know a key before the first one signs with it.
PUBLISHED_AHEAD = timedelta(seconds=60)
RELOAD_SECONDS_MIN = 1.0
NONCE_BYTES = 12
KEYS = "signing keys"
"""The name of the fact."""
SECRET_FILE_BYTES = 32


class WrongSecretKey(Invalid):
    """The signing keys in the catalog were sealed with another TENANTRY_SECRET_KEY."""


class NoSigningKey(Unavailable):
    """There is no signing key yet."""


@dataclass(frozen=True)
class KeyRing:
    """The keys that verify, and the one that signs."""

    publics: dict[UUID, Ed25519PublicKey]
    _privates: tuple[tuple[datetime, UUID, Ed25519PrivateKey], ...]

    def signer(self, now: datetime) -> tuple[UUID, Ed25519PrivateKey]:
        """Return the newest key that signs at *now*.

        Raises:
            NoSigningKey: None does.
        """
        for signs_from, key_id, private in reversed(self._privates):
            if signs_from <= now:
                return key_id, private
        raise NoSigningKey


class SigningKeys:
    """Reads the signing keys of a catalog, and makes new ones.

    Args:
        catalog: Holds them, sealed.
        secret: Seals them.
    """

    def __init__(self, catalog: Catalog, secret: str) -> None:
        self._catalog = catalog
        self._seal = AESGCM(_derive(secret))
        self._reloaded_at = float("-inf")

    async def ring(self) -> KeyRing:
        """Return the keys as they are now.

        Raises:
            WrongSecretKey: They cannot be opened.
        """
        facts = self._catalog.facts
        ring: KeyRing | None = facts.recall(KEYS) or await facts.get(KEYS, self._read)
        assert ring is not None
        return ring

    async def ring_with(self, key_id: UUID) -> KeyRing:
        """Return the keys, read again (at most once a second) if *key_id* is not among them."""
        ring = await self.ring()
        if key_id not in ring.publics and self._may_reload():
            self._catalog.facts.forget()
            ring = await self.ring()
        return ring

    async def ensure(self, ctx: OperationContext) -> None:
        """Make the first key if there is none."""
        if not await signing_keys.every(self._catalog):
            await self._add(ctx, signs_from=ctx.now)
        await self.ring()

    async def rotate(self, ctx: OperationContext, *, token_lifetime: timedelta) -> SigningKey:
        """Publish a new key, which signs a minute from now; remove those that are no longer needed.

        Args:
            ctx: Who rotates.
            token_lifetime: How long the last token of an old key may live.
        """
        added = await self._add(ctx, signs_from=ctx.now + PUBLISHED_AHEAD)
        keys = await signing_keys.every(self._catalog)
        for key, successor in pairwise(keys):
            if successor.signs_from + token_lifetime + PUBLISHED_AHEAD < ctx.now:
                async with self._catalog.change(ctx, "signing-key.remove", key.id) as session:
                    await signing_keys.remove(session, key.id)
        return added

    async def _add(self, ctx: OperationContext, *, signs_from: datetime) -> SigningKey:
        private = Ed25519PrivateKey.generate()
        key_id = new_id()
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + self._seal.encrypt(nonce, private.private_bytes_raw(), key_id.bytes)
        public = private.public_key().public_bytes_raw()
        added = SigningKey(key_id, public, sealed, ctx.now, signs_from)
        async with self._catalog.change(ctx, "signing-key.add", key_id) as session:
            await signing_keys.add(session, added)
        return added

    async def _read(self, session: CatalogSession) -> KeyRing:
        keys = await signing_keys.every(session)
        return KeyRing(
            {key.id: Ed25519PublicKey.from_public_bytes(key.public_key) for key in keys},
            tuple((key.signs_from, key.id, self._open(key)) for key in keys),
        )

    def _open(self, key: SigningKey) -> Ed25519PrivateKey:
        sealed = key.sealed_private_key
        nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            raw = self._seal.decrypt(nonce, ciphertext, key.id.bytes)
        except InvalidTag as error:
            raise WrongSecretKey from error
        return Ed25519PrivateKey.from_private_bytes(raw)

    def _may_reload(self) -> bool:
        now = monotonic_seconds()
        if now - self._reloaded_at < RELOAD_SECONDS_MIN:
            return False
        self._reloaded_at = now
        return True


def read_secret_file(path: Path) -> str:
    """Return the secret in the file at *path*, which is made (mode 0600) when it is not there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text()
    secret = os.urandom(SECRET_FILE_BYTES).hex()
    with os.fdopen(handle, "w") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    return secret


def _derive(secret: str) -> bytes:
    derivation = HKDF(
        algorithm=hashes.SHA256(), length=32, salt=None, info=b"tenantry signing keys"
    )
    return derivation.derive(secret.encode())
