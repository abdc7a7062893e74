"""Archives in S3-compatible storage, with the library `obstore`, which is an optional extra.

Endpoint, region and credentials are read from the standard variables of AWS clients.
These functions block: call them in a thread. Each call has a deadline, and ends when the work of
its thread is stopped.
"""

import contextlib
import io
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, BinaryIO, TypeVar

from tenantry.backup.archive import TAIL_BYTES, ArchiveNotFound, Sink, checked_name, is_name
from tenantry.kit.errors import Invalid, TenantryError, Unavailable
from tenantry.kit.stopping import Stop, Stopped, current_stop

Result = TypeVar("Result")

SCHEME = "s3://"
# With 10,000 parts of an upload, 80 GB.
PART_BYTES = 8 * 2**20
READ_BYTES = 4 * 2**20
UPLOADS_MAX = 2
ANSWER_SECONDS_MAX = 10.0
# For one call that sends or returns up to a part: at least 140 kB/s.
PART_SECONDS_MAX = 60.0
# For the removal of an archive if its upload was cancelled during its completion.
DISCARD_SECONDS_MAX = 1.5
RETRIES_MAX = 3
# Objects under the prefix, of which each page of a list has 1,000: 20 MB.
OBJECTS_MAX = 100_000
# The user and the password in a URL.
_USER = re.compile(r"//[^/@\s]*@")


class S3Missing(Unavailable):
    """S3 needs the package `obstore`: install `tenantry[s3]`."""


class S3UrlHasCredentials(Invalid):
    """The target has credentials: set the variables `AWS_ACCESS_KEY_ID` and so on instead."""


class S3Unavailable(Unavailable):
    """The backup storage cannot be reached, or rejects the request; the message says why."""


class S3Target:
    """A prefix in a bucket. An archive appears there when it is complete.

    Args:
        url: ``s3://bucket/prefix``.
        answer_seconds: For one call that sends or returns little, with its retries.

    Raises:
        S3Missing: The library is not installed.
        S3UrlHasCredentials: It contains a user or a password.
    """

    folder = None
    names_at_once = False

    def __init__(self, url: str, *, answer_seconds: float = ANSWER_SECONDS_MAX) -> None:
        try:
            import obstore  # noqa: PLC0415 - optional
            from obstore.store import S3Store  # noqa: PLC0415
        except ImportError as error:
            raise S3Missing from error
        if "@" in url.removeprefix(SCHEME).partition("/")[0]:
            raise S3UrlHasCredentials
        self._url = url.rstrip("/")
        self._answer_seconds = answer_seconds
        self._s3 = obstore
        with self._errors():
            self._store = S3Store.from_url(
                self._url,
                client_options={"allow_http": True, "timeout": timedelta(seconds=PART_SECONDS_MAX)},
                retry_config={
                    "max_retries": RETRIES_MAX,
                    "retry_timeout": timedelta(seconds=ANSWER_SECONDS_MAX),
                },
            )

    def place(self, name: str) -> str:
        """Return the URL of the archive *name*."""
        return f"{self._url}/{name}"

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        """Yield an upload, which is completed when the block ends without error.

        Raises:
            S3Unavailable: Also if the storage does not have all of it then.
        """
        with self._errors():
            # Without the context manager of the library, which would also complete the upload
            # after an error.
            writer = self._s3.open_writer_async(
                self._store, name, buffer_size=PART_BYTES, max_concurrency=UPLOADS_MAX
            )
        sink = _Writer(writer, self._call)
        yield sink
        try:
            self._call(writer.close, seconds=PART_SECONDS_MAX)
            self._check_kept(name, sink.size)
        except Stopped:
            with contextlib.suppress(Exception):  # the storage may have completed it
                Stop().call(partial(self._delete, name), seconds=DISCARD_SECONDS_MAX)
            raise

    def names(self) -> list[str]:
        """Return the names of the archives.

        Raises:
            S3Unavailable: Also if there are more than `OBJECTS_MAX` objects.
        """
        pages = self._s3.list(self._store, chunk_size=1_000)
        paths: list[str] = []
        while page := self._call(partial(_next_page, pages)):
            paths += [one["path"] for one in page]
            if len(paths) > OBJECTS_MAX:
                raise S3Unavailable(
                    f"The backup storage {self._url} lists more than {OBJECTS_MAX:,} objects: "
                    "use a prefix that has only archives."
                )
        return sorted(path for path in paths if is_name(path))

    def size(self, name: str) -> int:
        """Return the size of an archive in bytes.

        Raises:
            ArchiveNotFound: There is none of this name.
        """
        head = self._call(lambda: self._s3.head_async(self._store, name), missing=ArchiveNotFound)
        return int(head["size"])

    @contextmanager
    def reading(self, name: str, *, buffer_bytes: int = READ_BYTES) -> Iterator[BinaryIO]:
        """Open an archive. *name* is never a path; *buffer_bytes* are read at once.

        Raises:
            ArchiveNotFound: There is none of this name.
        """
        name = checked_name(name)
        file = self._call(
            lambda: self._s3.open_reader_async(self._store, name, buffer_size=buffer_bytes),
            missing=ArchiveNotFound,
        )
        with io.BufferedReader(_Reader(file, self._call), buffer_bytes) as stream:
            yield stream

    def tail(self, name: str, size: int) -> bytes:
        """Return the last `TAIL_BYTES` of an archive of *size* bytes.

        Raises:
            ArchiveNotFound: There is none of this name.
        """
        start = max(size - TAIL_BYTES, 0)
        return bytes(
            self._call(
                lambda: self._s3.get_range_async(self._store, name, start=start, end=size),
                missing=ArchiveNotFound,
            )
        )

    def remove(self, name: str) -> None:
        """Remove an archive."""
        self._call(partial(self._delete, name))

    def remove_partial(self) -> list[str]:
        """Return nothing: the storage removes incomplete uploads by its lifecycle rule."""
        return []

    def _delete(self, name: str) -> Awaitable[None]:
        return self._s3.delete_async(self._store, name)

    def _check_kept(self, name: str, written: int) -> None:
        """Check that the storage has all bytes of a new archive.

        Raises:
            S3Unavailable: It has not.
        """
        try:
            kept = self.size(name)
        except ArchiveNotFound:
            kept = 0
        if kept != written:
            raise S3Unavailable(
                f"The backup storage {self._url} accepted {written:,} bytes of {name}, and has "
                f"{kept:,}: do not use it before that is corrected."
            )

    def _call(
        self,
        work: Callable[[], Awaitable[Result]],
        *,
        seconds: float | None = None,
        missing: type[TenantryError] | None = None,
    ) -> Result:
        """Return the response of one call; raise *missing* if an object is missing.

        Raises:
            S3Unavailable: There was none in time, or an error.
            Stopped: The work of this thread was stopped.
        """
        seconds = self._answer_seconds if seconds is None else seconds
        with self._errors(missing=missing):
            try:
                return current_stop().call(work, seconds=seconds)
            except TimeoutError as error:
                raise S3Unavailable(
                    f"The backup storage {self._url} did not answer in {seconds:g} s."
                ) from error

    @contextmanager
    def _errors(self, *, missing: type[TenantryError] | None = None) -> Iterator[None]:
        """Raise errors of Tenantry; *missing* if an object is missing."""
        try:
            yield
        except (S3Unavailable, Stopped):
            raise
        except Exception as error:
            if missing is not None and isinstance(error, FileNotFoundError):
                raise missing from error
            # The first line names the operation, the URL and the status.
            reason = _USER.sub("//", str(error).partition("\n")[0])
            raise S3Unavailable(f"The backup storage {self._url}: {reason[:300]}") from error


Call = Callable[..., Any]


async def _next_page(pages: Any) -> Any:
    return await anext(pages, None)


class _Writer:
    """The stream of an upload, with deadlines and errors of Tenantry.

    Attributes:
        size: Bytes written.
    """

    def __init__(self, writer: Any, call: Call) -> None:
        self._writer = writer
        self._call = call
        self.size = 0

    def write(self, data: bytes) -> int:
        """Upload *data*."""
        self._call(lambda: self._writer.write(data), seconds=PART_SECONDS_MAX)
        self.size += len(data)
        return len(data)


class _Reader(io.RawIOBase):
    """The stream of a download, with deadlines and errors of Tenantry."""

    def __init__(self, file: Any, call: Call) -> None:
        self._file = file
        self._call = call

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* with the next bytes."""
        read = self._call(lambda: self._file.read(len(buffer)), seconds=PART_SECONDS_MAX)
        data = bytes(read)[: len(buffer)]
        buffer[: len(data)] = data
        return len(data)
