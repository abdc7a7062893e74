"""The keys that sign bearer tokens, as stored: private keys are encrypted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.session import CatalogSession, RowId, fetch_or_raise
from tenantry.catalog.tables import catalog, signing_key
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.errors import NotFound

SIGNING_KEYS_MAX = 100


class SigningKeyNotFound(NotFound):
    """There is no such signing key."""


class SigningKey(msgspec.Struct, frozen=True):
    """A key pair.

    Attributes:
        public_key: 32 bytes (Ed25519, RFC 8032).
        sealed_private_key: Encrypted with the service's secret key.
        signs_from: When it starts to sign; it verifies tokens as soon as it is stored.
        signs_until: When its successor starts to sign; None while it has no successor.
    """

    id: UUID
    public_key: bytes
    sealed_private_key: bytes
    created_at: datetime
    signs_from: datetime
    signs_until: datetime | None


# SQLite has no row locks; there, a transaction that writes locks the database from its start.
_LOCK = Statement(sa.select(catalog.c.id).with_for_update(), RowId)
_ADD = Statement[Any](sa.insert(signing_key))
_ALL = Statement(
    sa.select(*columns_of(signing_key, SigningKey))
    .order_by(signing_key.c.signs_from.desc(), signing_key.c.id.desc())
    .limit(LIMIT),
    SigningKey,
)
_RESEAL = Statement[Any](
    sa.update(signing_key)
    .values(sealed_private_key=sa.bindparam("sealed"))
    .where(signing_key.c.id == sa.bindparam("key"))
)
_END = Statement[Any](
    sa.update(signing_key)
    .values(signs_until=sa.bindparam("at", type_=signing_key.c.signs_until.type))
    .where(signing_key.c.signs_until.is_(None))
)
_REMOVE = Statement(
    sa.delete(signing_key)
    .where(signing_key.c.id == sa.bindparam("id"))
    .returning(signing_key.c.id),
    RowId,
)
_REMOVE_ALL = Statement[Any](sa.delete(signing_key))


async def lock(session: CatalogChange) -> None:
    """Lock the signing keys until the transaction ends."""
    await session.fetch_one(_LOCK)


async def add(session: CatalogChange, added: SigningKey) -> None:
    """Insert a key, as the successor of those without a successor."""
    await session.execute(_END, at=added.signs_from)
    await session.execute(_ADD, **msgspec.structs.asdict(added))


async def every(session: CatalogSession, *, limit: int = SIGNING_KEYS_MAX) -> list[SigningKey]:
    """Return the newest *limit* keys, in the order in which they sign."""
    newest_first = await session.fetch_all(_ALL, limit=limit)
    return newest_first[::-1]


async def reseal(session: CatalogChange, sealed: Mapping[UUID, bytes]) -> None:
    """Replace the sealed private halves of keys."""
    await session.execute_many(
        _RESEAL, [{"key": key_id, "sealed": sealed[key_id]} for key_id in sorted(sealed)]
    )


async def remove(session: CatalogChange, key_id: UUID) -> None:
    """Remove a key: the tokens that it has signed become invalid.

    Raises:
        SigningKeyNotFound: No key has this id.
    """
    await fetch_or_raise(session, _REMOVE, SigningKeyNotFound, id=key_id)


async def remove_all(session: CatalogChange) -> None:
    """Remove every key: all tokens become invalid. The next process creates a new key."""
    await session.execute(_REMOVE_ALL)
