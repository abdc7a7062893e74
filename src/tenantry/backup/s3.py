"""Archives in S3-compatible storage, with the library `obstore`, which is an optional extra.

Endpoint, region and credentials are read from the standard variables of AWS clients.
These functions block: call them in a thread.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from tenantry.backup.archive import TAIL_BYTES, Sink
from tenantry.backup.targets import ArchiveNotFound, checked_name, is_name
from tenantry.kit.errors import Invalid, Unavailable

SCHEME = "s3://"
# With 10,000 parts of an upload, 80 GB.
PART_BYTES = 8 * 2**20
READ_BYTES = 4 * 2**20
UPLOADS_MAX = 2
# The user and the password in a URL.
_USER = re.compile(r"//[^/@\s]*@")


class S3Missing(Unavailable):
    """S3 needs the package `obstore`: install `tenantry[s3]`."""


class S3UrlHasCredentials(Invalid):
    """The target has credentials: set the variables `AWS_ACCESS_KEY_ID` and so on instead."""


class S3Unavailable(Unavailable):
    """The S3 storage cannot be reached, or rejects the request; the message says why."""


class S3Target:
    """A `Target`: a prefix in a bucket. An archive appears there when it is complete.

    Args:
        url: ``s3://bucket/prefix``.

    Raises:
        S3Missing: The library is not installed.
        S3UrlHasCredentials: It contains a user or a password.
    """

    def __init__(self, url: str) -> None:
        try:
            import obstore  # noqa: PLC0415 - optional
            from obstore.store import S3Store  # noqa: PLC0415
        except ImportError as error:
            raise S3Missing from error
        if "@" in url.removeprefix(SCHEME).partition("/")[0]:
            raise S3UrlHasCredentials
        self._url = url.rstrip("/")
        self._s3 = obstore
        with _errors():
            self._store = S3Store.from_url(self._url, client_options={"allow_http": True})

    def place(self, name: str) -> str:
        """Return the URL of the archive *name*."""
        return f"{self._url}/{name}"

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        """Yield an upload, which is completed when the block ends without error."""
        with _errors():
            # Without the context manager of the library, which would also complete the upload
            # after an error.
            writer = self._s3.open_writer(
                self._store, name, buffer_size=PART_BYTES, max_concurrency=UPLOADS_MAX
            )
        yield _Writer(writer)
        with _errors():
            writer.close()

    def names(self) -> list[str]:
        """Return the names of the archives."""
        with _errors():
            paths = [one["path"] for page in self._s3.list(self._store) for one in page]
        return sorted(path for path in paths if is_name(path))

    def size(self, name: str) -> int:
        """Return the size of an archive in bytes."""
        with _errors(missing=ArchiveNotFound):
            return int(self._s3.head(self._store, name)["size"])

    @contextmanager
    def reading(self, name: str, *, buffer_bytes: int = READ_BYTES) -> Iterator[BinaryIO]:
        """Open an archive."""
        with _errors(missing=ArchiveNotFound):
            file = self._s3.open_reader(self._store, checked_name(name), buffer_size=buffer_bytes)
        with io.BufferedReader(_Reader(file), buffer_bytes) as stream:
            yield stream

    def tail(self, name: str, size: int) -> bytes:
        """Return the end of an archive."""
        start = max(size - TAIL_BYTES, 0)
        with _errors(missing=ArchiveNotFound):
            return bytes(self._s3.get_range(self._store, name, start=start, end=size))

    def remove(self, name: str) -> None:
        """Remove an archive."""
        with _errors():
            self._s3.delete(self._store, name)

    def remove_partial(self) -> list[str]:
        """Return nothing: the storage removes incomplete uploads by its lifecycle rule."""
        return []


class _Writer:
    """The stream of an upload, with errors of Tenantry."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, data: bytes) -> int:
        """Upload *data*."""
        with _errors():
            return int(self._writer.write(data))


class _Reader(io.RawIOBase):
    """The stream of a download, with errors of Tenantry."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* with the next bytes."""
        with _errors():
            data = bytes(self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _errors(*, missing: type[Exception] | None = None) -> Iterator[None]:
    """Raise errors of Tenantry; *missing* if an object is missing."""
    try:
        yield
    except (Unavailable, ArchiveNotFound):
        raise
    except Exception as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            raise missing from error
        # The first line names the operation, the URL and the status.
        reason = _USER.sub("//", str(error).partition("\n")[0])
        raise S3Unavailable(f"S3 storage: {reason[:300]}") from error
