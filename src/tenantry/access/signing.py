"""The keys that sign bearer tokens: creation, encryption, rotation, removal."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tenantry.access import preview_tokens
from tenantry.access.sealing import Seal
from tenantry.catalog import attached, signing_keys
from tenantry.catalog.database import Catalog, Unchanged
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.signing_keys import SigningKey, SigningKeyNotFound
from tenantry.kit import private
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid, Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.secrets import fault_of_secret_key
from tenantry.settings import Settings

# Every process must have read a key before any process signs with it.
PUBLISHED_AHEAD = timedelta(seconds=60)
RELOAD_SECONDS_MIN = 1.0
# How much the clocks of two machines may differ before a token becomes invalid too early.
RETIRED_AFTER = timedelta(seconds=60)
KEYS = "signing keys"
"""The key of the cached value."""
SECRET_FILE_BYTES = 32
# More keys than a rotation every minute leaves for the longest life of a token.
RESEALED_MAX = 1_000_000


class WrongSecretKey(Unavailable):
    """The signing keys in the catalog were encrypted with another TENANTRY_SECRET_KEY."""


class NoOldSecretKey(Invalid):
    """Set the new key as TENANTRY_SECRET_KEY and the previous one as TENANTRY_SECRET_KEY_OLD."""


class BadSecretFile(Invalid):
    """The secret in the file `secret-key` is too short, or a placeholder."""


class NoSigningKey(Unavailable):
    """There is no signing key yet."""


class _KeyExists(Exception):
    """Another process has created the first key."""


@dataclass(frozen=True)
class RingKey:
    """A key that verifies tokens, and signs them in an interval.

    Attributes:
        signs_from: When it starts to sign.
        signs_until: When it stops signing; None while it has no successor.
    """

    id: UUID
    public: Ed25519PublicKey
    private: Ed25519PrivateKey
    signs_from: datetime
    signs_until: datetime | None

    def may_have_signed(self, issued_at: float) -> bool:
        """Return whether the key still signed at *issued_at* (Unix time)."""
        return self.signs_until is None or issued_at <= self.signs_until.timestamp()


@dataclass(frozen=True)
class KeyRing:
    """The keys by id, in the order in which they sign."""

    keys: dict[UUID, RingKey]

    def signer(self, now: datetime) -> RingKey:
        """Return the newest key that signs at *now*.

        Raises:
            NoSigningKey: There are no keys.
        """
        keys = list(self.keys.values())
        if not keys:
            raise NoSigningKey
        begun = [key for key in keys if key.signs_from <= now]
        # No key has begun if the clock was set back to before the first one.
        return begun[-1] if begun else keys[0]


class SigningKeys:
    """Reads the signing keys of a catalog, and creates new ones.

    Args:
        catalog: Stores the keys; private keys are encrypted.
        secret: The secret that the encryption key is derived from.
        old_secret: The previous one, while it is replaced; empty if there is none. It opens
            keys, and seals none.

    Attributes:
        seal: Encrypts with these secrets.
        preview_key: Signs the tokens of preview links.
    """

    def __init__(self, catalog: Catalog, secret: str, old_secret: str = "") -> None:
        self._catalog = catalog
        self.seal = Seal(_derive(secret), _derive(old_secret) if old_secret else None)
        self.preview_key = preview_tokens.key_of(secret)
        self._reloaded_at = float("-inf")

    async def ring(self) -> KeyRing:
        """Return the current keys.

        Raises:
            WrongSecretKey: They cannot be decrypted.
        """
        cache = self._catalog.cache
        ring: KeyRing | None = cache.find(KEYS) or await cache.get(KEYS, self._read)
        assert ring is not None
        return ring

    async def ring_with(self, key_id: UUID) -> KeyRing:
        """Return the current keys; if *key_id* is unknown, read the catalog's epoch first.

        The epoch is read at most once a second, and the cache is cleared only if it has changed,
        because anyone can send a token that names an unknown key.
        """
        ring = await self.ring()
        if key_id not in ring.keys and self._may_reload():
            await self._catalog.cache.check_epoch()
            ring = await self.ring()
        return ring

    async def ensure(self, ctx: OperationContext) -> None:
        """Create the first key if there is none. Several processes may call this at once."""
        if not await signing_keys.every(self._catalog):
            with contextlib.suppress(_KeyExists):
                await self._add(ctx, signs_from=ctx.now, is_first=True)
        await self.ring()

    async def rotate(self, ctx: OperationContext) -> SigningKey:
        """Add a new key, which replaces the signing one after `PUBLISHED_AHEAD`."""
        return await self._add(ctx, signs_from=ctx.now + PUBLISHED_AHEAD)

    async def revoke(self, ctx: OperationContext, key_id: UUID) -> SigningKey | None:
        """Remove a key; every token that it has signed becomes invalid.

        Returns:
            The new key that signs from now on, if the removed key had no successor; else None.

        Raises:
            SigningKeyNotFound: There is no such key.
        """
        async with self._catalog.change(ctx, "signing-key.revoke", key_id) as session:
            await signing_keys.lock(session)
            await signing_keys.remove(session, key_id)
            left = await signing_keys.every(session)
            if any(key.signs_until is None for key in left):
                return None
            # Other processes read it when they receive the first token that it signed.
            added = self._new(ctx, signs_from=ctx.now)
            await signing_keys.add(session, added)
            return added

    async def reseal(self, ctx: OperationContext) -> int:
        """Encrypt all keys with the current secret; return how many were under the old one.

        Likewise the URLs of attached databases, which are counted, too. It is one transaction:
        after it, the old secret opens none of them. What the current secret already opens is left
        as it is, so that a repeated call is harmless.

        Raises:
            NoOldSecretKey: The old secret is not known.
            WrongSecretKey: One cannot be decrypted with either secret; nothing is changed.
        """
        if not self.seal.has_old:
            raise NoOldSecretKey
        async with self._catalog.change(ctx, "secret.rotate", "signing-keys") as session:
            # In this order: every change of a tenant locks its row first, and the catalog's last.
            urls = self._resealed(await attached.sealed_urls(session))
            await signing_keys.lock(session)
            keys = await signing_keys.every(session, limit=RESEALED_MAX)
            sealed = self._resealed({key.id: key.sealed_private_key for key in keys})
            if not sealed and not urls:
                raise Unchanged
            await signing_keys.reseal(session, sealed)
            await attached.reseal(session, urls)
        return len(sealed) + len(urls)

    def _resealed(self, every: Mapping[UUID, bytes]) -> dict[UUID, bytes]:
        """Return those of *every* that the old secret opens, sealed with the current one."""
        found = {one: self.seal.open(sealed, one.bytes) for one, sealed in every.items()}
        if any(content is None for content, _ in found.values()):
            raise WrongSecretKey
        return {
            one: self.seal.close(content, one.bytes)
            for one, (content, is_old) in found.items()
            if is_old and content is not None
        }

    async def retire(self, ctx: OperationContext, *, token_lifetime: timedelta) -> None:
        """Remove the keys of which all tokens have expired."""
        ended_before = ctx.now - token_lifetime - RETIRED_AFTER
        for key in (await self.ring()).keys.values():
            if key.signs_until is None or key.signs_until >= ended_before:
                continue
            # Another process may have removed it first.
            with contextlib.suppress(SigningKeyNotFound):
                async with self._catalog.change(ctx, "signing-key.retire", key.id) as session:
                    await signing_keys.remove(session, key.id)

    async def _add(
        self, ctx: OperationContext, *, signs_from: datetime, is_first: bool = False
    ) -> SigningKey:
        added = self._new(ctx, signs_from=signs_from)
        async with self._catalog.change(ctx, "signing-key.add", added.id) as session:
            await signing_keys.lock(session)
            if is_first and await signing_keys.every(session):
                raise _KeyExists
            await signing_keys.add(session, added)
        return added

    def _new(self, ctx: OperationContext, *, signs_from: datetime) -> SigningKey:
        private = Ed25519PrivateKey.generate()
        key_id = new_id()
        public = private.public_key().public_bytes_raw()
        return SigningKey(key_id, public, self._sealed(key_id, private), ctx.now, signs_from, None)

    def _sealed(self, key_id: UUID, private: Ed25519PrivateKey) -> bytes:
        return self.seal.close(private.private_bytes_raw(), key_id.bytes)

    async def _read(self, session: CatalogSession) -> KeyRing:
        keys = await signing_keys.every(session)
        return KeyRing(
            {
                key.id: RingKey(
                    key.id,
                    Ed25519PublicKey.from_public_bytes(key.public_key),
                    self._open(key),
                    key.signs_from,
                    key.signs_until,
                )
                for key in keys
            }
        )

    def _open(self, key: SigningKey) -> Ed25519PrivateKey:
        raw, _ = self.seal.open(key.sealed_private_key, key.id.bytes)
        if raw is None:
            raise WrongSecretKey
        return Ed25519PrivateKey.from_private_bytes(raw)

    def _may_reload(self) -> bool:
        now = monotonic_seconds()
        if now - self._reloaded_at < RELOAD_SECONDS_MIN:
            return False
        self._reloaded_at = now
        return True


def secret_of(settings: Settings) -> str:
    """Return the secret key: of the settings, or of its file in the data folder."""
    return settings.secret_key.get_secret_value() or read_secret_file(secret_file(settings))


def existing_secret(settings: Settings) -> str:
    """Return the secret key. If there is none, none is created, and the returned one is wrong."""
    if settings.secret_key.get_secret_value() or secret_file(settings).exists():
        return secret_of(settings)
    return os.urandom(SECRET_FILE_BYTES).hex()


def secret_file(settings: Settings) -> Path:
    """Return the file of the secret key, for settings without one."""
    return settings.data_dir / "secret-key"


def read_secret_file(path: Path) -> str:
    """Return the secret in the file at *path*; create the file (mode 0600) if it is missing.

    Raises:
        BadSecretFile: The secret is too short, or a placeholder.
    """
    if not path.exists():
        _make_secret_file(path)
    secret = path.read_text().strip()
    fault = fault_of_secret_key(secret)
    if fault is not None:
        raise BadSecretFile(f"The secret in {path} {fault}.")
    return secret


def _make_secret_file(path: Path) -> None:
    # A complete file is linked to the name, so that another process never reads half a secret.
    unfinished = path.with_name(f"{path.name}.{new_id()}")
    file = private.open_new(unfinished)
    try:
        with file:
            file.write(os.urandom(SECRET_FILE_BYTES).hex().encode())
            private.sync(file)
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, path)
        private.sync_folder(path.parent)  # the catalog that it seals may be on another disk
    finally:
        unfinished.unlink()


def _derive(secret: str) -> bytes:
    derivation = HKDF(
        algorithm=hashes.SHA256(), length=32, salt=None, info=b"tenantry signing keys"
    )
    return derivation.derive(secret.encode())
