"""Secrets that are stored as a digest: API keys and McpTokens."""

import hashlib
import secrets
import zlib

SECRET_BYTES = 32
PREFIX_CHARS = 12
CHECKSUM_CHARS = 8


def mint(kind: str) -> str:
    """Return a new secret: *kind*, 256 random bits, and a checksum.

    With the checksum a scanner can tell a leaked secret from a look-alike, and a
    mistyped one is refused without asking a database.
    """
    body = kind + secrets.token_urlsafe(SECRET_BYTES)
    return body + _checksum(body)


def is_well_formed(kind: str, secret: str) -> bool:
    """Tell whether *secret* can be one that `mint` made."""
    body, checksum = secret[:-CHECKSUM_CHARS], secret[-CHECKSUM_CHARS:]
    return secret.startswith(kind) and secret.isascii() and checksum == _checksum(body)


def digest(secret: str) -> str:
    """Return the SHA-256 of *secret*, in hex: what is stored in its place."""
    return hashlib.sha256(secret.encode()).hexdigest()


def shown_prefix(secret: str) -> str:
    """Return the beginning of *secret*, by which people recognise it in a list."""
    return secret[:PREFIX_CHARS]


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):0{CHECKSUM_CHARS}x}"
