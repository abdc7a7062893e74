"""The keys that sign bearer tokens. The private half is sealed before it comes here."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import signing_key
from tenantry.db.statements import Statement, columns_of

SIGNING_KEYS_MAX = 100


class SigningKey(msgspec.Struct, frozen=True):
    """A key pair.

    Attributes:
        public_key: 32 bytes (Ed25519, RFC 8032).
        sealed_private_key: Of no use without the service's secret key.
        signs_from: When it begins to sign; it verifies from the moment it is here.
    """

    id: UUID
    public_key: bytes
    sealed_private_key: bytes
    created_at: datetime
    signs_from: datetime


_ADD = Statement[Any](sa.insert(signing_key))
_ALL = Statement(
    sa.select(*columns_of(signing_key, SigningKey))
    .order_by(signing_key.c.signs_from.desc(), signing_key.c.id.desc())
    .limit(SIGNING_KEYS_MAX),
    SigningKey,
)
_REMOVE = Statement[Any](sa.delete(signing_key).where(signing_key.c.id == sa.bindparam("id")))


async def add(session: CatalogChange, added: SigningKey) -> None:
    """Publish a key."""
    await session.execute(_ADD, **msgspec.structs.asdict(added))


async def every(session: CatalogSession) -> list[SigningKey]:
    """Return the keys, in the order in which they (began to) sign."""
    newest_first = await session.fetch_all(_ALL)
    return newest_first[::-1]


async def remove(session: CatalogChange, key_id: UUID) -> None:
    """Remove a key whose last token is dead."""
    await session.execute(_REMOVE, id=key_id)
