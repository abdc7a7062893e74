"""Encrypt what the catalog stores of the operator's secrets, with a key from the secret key."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class Seal:
    """Seals with one key, and opens also what the key before it has sealed.

    Args:
        key: The key, of 32 bytes.
        old: The previous one, while it is replaced; None if there is none.
    """

    def __init__(self, key: bytes, old: bytes | None) -> None:
        self._seal = AESGCM(key)
        self._old = None if old is None else AESGCM(old)
        self.has_old = old is not None

    def close(self, content: bytes, of: bytes) -> bytes:
        """Return *content* sealed; it can be opened for the same *of* alone."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._seal.encrypt(nonce, content, of)

    def open(self, sealed: bytes, of: bytes) -> tuple[bytes | None, bool]:
        """Return what was sealed, None if neither key opens it; and whether the old key did."""
        if (found := _opened(self._seal, sealed, of)) is not None or self._old is None:
            return found, False
        return _opened(self._old, sealed, of), True


def _opened(seal: AESGCM, sealed: bytes, of: bytes) -> bytes | None:
    try:
        return seal.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], of)
    except InvalidTag:
        return None
