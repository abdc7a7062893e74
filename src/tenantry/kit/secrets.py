"""Secrets: API keys and McpTokens, which are stored as a digest, and the secret key."""

import hashlib
import secrets
import zlib

SECRET_BYTES = 32
PREFIX_CHARS = 12
CHECKSUM_CHARS = 8

SECRET_KEY_CHARS_MIN = 32
# 32 random hexadecimal digits have at least this many different ones, except once in a million.
SECRET_KEY_DISTINCT_MIN = 8


def mint(kind: str) -> str:
    """Return a new secret: *kind*, 256 random bits, and a checksum.

    With the checksum, a scanner can recognise a leaked secret, and a mistyped one is
    rejected without a query.
    """
    body = kind + secrets.token_urlsafe(SECRET_BYTES)
    return body + _checksum(body)


def is_well_formed(kind: str, secret: str) -> bool:
    """Return whether *secret* has the form and the checksum of `mint`."""
    body, checksum = secret[:-CHECKSUM_CHARS], secret[-CHECKSUM_CHARS:]
    return secret.startswith(kind) and secret.isascii() and checksum == _checksum(body)


def digest(secret: str) -> str:
    """Return the SHA-256 of *secret*, in hex, which is stored instead of it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def shown_prefix(secret: str) -> str:
    """Return the beginning of *secret*, which identifies it in a list."""
    return secret[:PREFIX_CHARS]


def fault_of_secret_key(secret: str) -> str | None:
    """Return what is wrong with *secret* as the secret key, as the end of a sentence."""
    if len(secret) < SECRET_KEY_CHARS_MIN:
        return f"must have at least {SECRET_KEY_CHARS_MIN} characters"
    if "<" in secret or ">" in secret:
        return "must be a secret, and not the placeholder of a document"
    if len(set(secret)) < SECRET_KEY_DISTINCT_MIN:
        return "must be random: `openssl rand -hex 32` makes one"
    return None


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):0{CHECKSUM_CHARS}x}"
