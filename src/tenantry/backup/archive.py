"""The archive format: one tar stream that is written and read in one pass.

Each member is followed by its authentication code, so a reader rejects a changed member before it
uses it. The names of members are compared with the expected ones and are never used as paths.
`docs/backup-archives.md` documents the format.
"""

import hashlib
import hmac
import re
import tarfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, BinaryIO, Protocol, TypeVar
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tenantry.kit.errors import Conflict, Invalid, NotFound

FORMAT = 1
CHUNK_BYTES = 4 * 2**20
"""The size of each part of the database, except the last: what is in memory at once."""
HEADER_BYTES_MAX = 64 * 2**10
# A tenant with 100,000 McpTokens has 40 MiB of catalog rows.
RECORD_BYTES_MAX = 64 * 2**20
MANIFEST_BYTES_MAX = 64 * 2**20
CODE_CHARS = 64
SUFFIX = ".tar"
NAME_CHARS_MAX = 40
# Of a file name, on the file systems of Linux.
NAME_BYTES_MAX = 255

HEADER, RECORD, MANIFEST = "archive.json", "catalog.json", "manifest.json"
BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * BLOCK)
TAIL_BYTES = 4 * BLOCK
"""The end of every archive: the authentication code of the manifest, and two empty blocks."""

# A file name without a folder, and without control characters. Python reads a name that is not
# UTF-8 with surrogates, which no response can contain.
_NAME = re.compile(r"[^./\\\x00-\x1f\x7f\ud800-\udfff][^/\\\x00-\x1f\x7f\ud800-\udfff]{0,200}\.tar")

Content = TypeVar("Content", bound=msgspec.Struct)


class ArchiveNotFound(NotFound):
    """There is no archive of this name in the target, and no such file."""


class ArchiveDamaged(Conflict):
    """The archive is damaged, incomplete, or not an archive of Tenantry. Nothing was changed."""


class ArchiveForeign(Conflict):
    """The archive was made with another TENANTRY_SECRET_KEY."""


class ArchiveNewer(Invalid):
    """The archive was made by a newer release of Tenantry."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive is of.

    Attributes:
        key_id: Identifies the key of the authentication codes; it does not reveal the key.
        kind: ``tenant`` or ``catalog``.
        engine: ``sqlite``: the database is a SQLite file; ``postgresql``: a dump of pg_dump in
            its custom format.
        revision: The revision of the database as the catalog knew it.
    """

    format: int = FORMAT
    id: UUID
    key_id: str
    release: str
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    kind: str
    engine: str
    tenant_id: UUID | None
    tenant_name: str | None
    revision: str | None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an archive: what a restored database must have.

    Attributes:
        chunk_count: How many parts the database has.
        database_bytes: Their size in all.
        sha256: Over the names and the SHA-256 digests of all members before this one.
        schema_fingerprint: Of the tables, columns, indexes and constraints.
        row_counts: By table.
        search_path: The search path of the database; None on SQLite.
    """

    chunk_count: int
    database_bytes: int
    sha256: str
    schema_fingerprint: str
    row_counts: dict[str, int]
    search_path: str | None


def archive_name(header: Header) -> str:
    """Return the file name of an archive: the tenant, the time, and a part of the id.

    A tenant's name can contain any character, so all but letters and digits become hyphens.
    """
    label = label_of(header.tenant_name or header.kind)
    stamp = f"{header.created_at:%Y%m%dT%H%M%SZ}"
    return f"{label[:NAME_CHARS_MAX] or 'tenant'}-{stamp}-{header.id.hex[-8:]}{SUFFIX}"


def label_of(name: str) -> str:
    """Return the form of a tenant's name in the names of its archives."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def is_name(text: str) -> bool:
    """Return whether *text* can be the name of an archive in a target: it is no path."""
    return _NAME.fullmatch(text) is not None and len(text.encode()) <= NAME_BYTES_MAX


def checked_name(name: str) -> str:
    """Return *name*, if an archive can have it.

    Raises:
        ArchiveNotFound: None can.
    """
    if not is_name(name):
        raise ArchiveNotFound
    return name


class Keys:
    """The keys of the authentication codes, derived from secret keys.

    Args:
        secrets: The values of the secret key that are valid; the first one makes new archives.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        derived = [_derive(secret) for secret in secrets]
        self._by_id = {_key_id(key): key for key in reversed(derived)}
        self.current_id = _key_id(derived[0])

    def find(self, key_id: str) -> bytes | None:
        """Return the key with this id, or None."""
        return self._by_id.get(key_id)


class Sink(Protocol):
    """Where an archive is written to."""

    def write(self, data: bytes, /) -> object:
        """Write all of *data*."""


def is_tail(data: bytes) -> bool:
    """Return whether the last `TAIL_BYTES` of a file are those of a complete archive."""
    try:
        info = tarfile.TarInfo.frombuf(data[:BLOCK], "ascii", "strict")
    except (tarfile.TarError, UnicodeDecodeError, ValueError):
        return False
    return info.name == f"{MANIFEST}.hmac" and data[2 * BLOCK :] == _END


class ArchiveWriter:
    """Writes an archive; `finish` must be the last call.

    Args:
        keys: The current one is used.
    """

    def __init__(self, sink: Sink, keys: Keys, header: Header) -> None:
        key = keys.find(header.key_id)
        assert key is not None, "the header names the current key"
        self._sink = sink
        self._members = _Members(header.id, key)
        self._mtime = int(header.created_at.timestamp())
        self.chunk_count = 0
        self.database_bytes = 0
        self._add(HEADER, msgspec.json.encode(header))

    def add_record(self, record: msgspec.Struct) -> None:
        """Write the rows of the catalog."""
        self._add(RECORD, msgspec.json.encode(record))

    def add_chunk(self, data: bytes) -> None:
        """Write the next part of the database."""
        self._add(_chunk_name(self.chunk_count), data)
        self.chunk_count += 1
        self.database_bytes += len(data)

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and the end of the archive."""
        self._add(MANIFEST, msgspec.json.encode(manifest))
        self._sink.write(_END)

    @property
    def sha256(self) -> str:
        """The digest over all members so far, for the manifest."""
        return self._members.sha256

    def _add(self, name: str, data: bytes) -> None:
        code = self._members.code_of(name, data)
        self._write(name, data)
        self._write(f"{name}.hmac", code.encode())

    def _write(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), 0o600, self._mtime
        padding = bytes(-len(data) % BLOCK)
        self._sink.write(info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict"))
        self._sink.write(data + padding)


class ArchiveReader:
    """Reads an archive: the header at once, then `record`, then `chunks`, each one time.

    Args:
        source: The archive; it is read in one pass.
        keys: Those of this installation.
        accepts_foreign: Whether an archive with the codes of another key is read; then its
            checksums detect damage, and nothing detects a deliberate change.

    Attributes:
        header: What the archive is of.
        is_foreign: Whether its codes are of another key.

    Raises:
        ArchiveDamaged, ArchiveForeign, ArchiveNewer: It cannot be used.
    """

    def __init__(self, source: BinaryIO, keys: Keys, *, accepts_foreign: bool = False) -> None:
        self._source = source
        data = self._read(HEADER, HEADER_BYTES_MAX)
        self.header = header = _decode_header(data)
        key = keys.find(header.key_id)
        self.is_foreign = key is None
        if self.is_foreign and not accepts_foreign:
            raise ArchiveForeign
        self._members = _Members(header.id, key)
        self._check(HEADER, data)
        self._manifest: Manifest | None = None

    def record(self, content: type[Content]) -> Content:
        """Return the rows of the catalog.

        Raises:
            ArchiveDamaged: They cannot be read.
        """
        data = self._read(RECORD, RECORD_BYTES_MAX)
        self._check(RECORD, data)
        return _decode(data, content)

    def chunks(self) -> Iterator[bytes]:
        """Yield the parts of the database, then read the manifest.

        Raises:
            ArchiveDamaged: A part or the manifest is missing or changed.
        """
        count = size = 0
        while True:
            name, length = self._next()
            if name == MANIFEST:
                break
            if name != _chunk_name(count) or length > CHUNK_BYTES:
                raise ArchiveDamaged
            data = self._data(length)
            self._check(name, data)
            count, size = count + 1, size + len(data)
            yield data
        if length > MANIFEST_BYTES_MAX:
            raise ArchiveDamaged
        expected = self._members.sha256
        data = self._data(length)
        self._check(MANIFEST, data)
        manifest = _decode(data, Manifest)
        if (manifest.chunk_count, manifest.database_bytes) != (count, size):
            raise ArchiveDamaged
        if not hmac.compare_digest(manifest.sha256.encode(), expected.encode()):
            raise ArchiveDamaged
        self._manifest = manifest

    @property
    def manifest(self) -> Manifest:
        """The end of the archive, once `chunks` is exhausted."""
        assert self._manifest is not None, "chunks() is exhausted"
        return self._manifest

    def _check(self, name: str, data: bytes) -> None:
        """Read the code of a member and compare it; the digest is counted in any case."""
        code = self._read(f"{name}.hmac", CODE_CHARS)
        expected = self._members.code_of(name, data)
        if not self.is_foreign and not hmac.compare_digest(code, expected.encode()):
            raise ArchiveDamaged

    def _read(self, name: str, bytes_max: int) -> bytes:
        found, length = self._next()
        if found != name or length > bytes_max:
            raise ArchiveDamaged
        return self._data(length)

    def _next(self) -> tuple[str, int]:
        """Return the name and the size of the next member."""
        try:
            info = tarfile.TarInfo.frombuf(self._exactly(BLOCK), "ascii", "strict")
        except (tarfile.TarError, UnicodeDecodeError, ValueError) as error:
            raise ArchiveDamaged from error
        if info.type != tarfile.REGTYPE or info.size < 0:
            raise ArchiveDamaged
        return info.name, info.size

    def _data(self, length: int) -> bytes:
        return self._exactly(length + -length % BLOCK)[:length]

    def _exactly(self, length: int) -> bytes:
        data = self._source.read(length)
        if len(data) != length:
            raise ArchiveDamaged
        return data


class _Members:
    """The authentication codes of one archive, and the digest over all members."""

    def __init__(self, archive_id: UUID, key: bytes | None) -> None:
        self._id = archive_id
        self._key = key
        self._all = hashlib.sha256()

    def code_of(self, name: str, data: bytes) -> str:
        """Return the code of a member in hex, and add it to the digest; empty without a key."""
        digest = hashlib.sha256(data).digest()
        named = name.encode() + b"\0" + digest
        self._all.update(named)
        if self._key is None:
            return ""
        return hmac.digest(self._key, self._id.bytes + named, "sha256").hex()

    @property
    def sha256(self) -> str:
        """The digest over all members so far."""
        return self._all.hexdigest()


def _chunk_name(number: int) -> str:
    return f"database/{number:012}"


def _decode(data: bytes, content: type[Content]) -> Content:
    try:
        return msgspec.json.decode(data, type=content)
    # msgspec raises a UnicodeDecodeError for text that is not UTF-8.
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArchiveDamaged from error


class _Format(msgspec.Struct, frozen=True):
    format: int


def _decode_header(data: bytes) -> Header:
    if _decode(data, _Format).format > FORMAT:
        raise ArchiveNewer
    header = _decode(data, Header)
    try:
        header.created_at.astimezone(UTC)
    except OverflowError as error:  # every list shows the time in UTC
        raise ArchiveDamaged from error
    return header


def _derive(secret: str) -> bytes:
    derivation = HKDF(
        algorithm=hashes.SHA256(), length=32, salt=None, info=b"tenantry-backup-archives"
    )
    return derivation.derive(secret.encode())


def _key_id(key: bytes) -> str:
    return hmac.digest(key, b"id", "sha256").hex()[:16]
