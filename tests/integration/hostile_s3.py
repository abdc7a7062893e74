"""A small S3 server on loopback that can misbehave in one way at a time."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LISTED_AT_ONCE = 1_000
PAGE = (
    "<ListBucketResult><Name>b</Name><IsTruncated>{more}</IsTruncated>"
    "<NextContinuationToken>{count}</NextContinuationToken>{contents}</ListBucketResult>"
)
ENTRY = (
    "<Contents><Key>tenantry/{name}</Key><Size>1</Size>"
    "<LastModified>2026-11-22T09:30:00.000Z</LastModified></Contents>"
)


class HostileS3:
    """What the server has, and how it behaves.

    Attributes:
        fault: "silent", "slow", "endless", "forgetful", "failing" or "truncating"; empty for none.
        after: Requests that are answered properly before that.
        requests: The methods and paths so far.
    """

    def __init__(self) -> None:
        self.url = ""
        self.fault = ""
        self.after = 0
        self.requests: list[tuple[str, str]] = []
        self.objects: dict[str, bytes] = {}
        self.ended = threading.Event()

    def fault_now(self) -> str:
        """The fault of this request."""
        return self.fault if len(self.requests) > self.after else ""


@contextmanager
def hostile_s3() -> Iterator[HostileS3]:
    """Serve until the block ends."""
    state = HostileS3()

    class Handler(_Handler):
        s3 = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3: HostileS3

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(self._page())
            return
        body = self.s3.objects.get(self.path)
        if body is None:
            self._answer(b"", HTTPStatus.NOT_FOUND)
            return
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = body[int(first) : int(last) + 1]
        stated = f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}"
        self._answer(part, HTTPStatus.PARTIAL_CONTENT, {"Content-Range": stated})

    def do_HEAD(self) -> None:
        body = self.s3.objects.get(self.path)
        self._answer(body or b"", HTTPStatus.NOT_FOUND if body is None else HTTPStatus.OK)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.s3.fault != "forgetful":
            self.s3.objects[self.path] = body
        self._answer(b"", HTTPStatus.OK, {"ETag": '"1"'})

    def do_POST(self) -> None:
        """Remove objects: the library sends a list of one."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.s3.objects.pop(f"/b/{key}", None)
        done = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(f"<DeleteResult>{done}</DeleteResult>".encode())

    def _page(self) -> bytes:
        if self.s3.fault != "endless":
            names = [path.rpartition("/")[2] for path in self.s3.objects]
            contents = "".join(ENTRY.format(name=name) for name in names)
            return PAGE.format(more="false", count=0, contents=contents).encode()
        count = len(self.s3.requests)
        contents = "".join(
            ENTRY.format(name=f"{count:08}-{number}.tar") for number in range(LISTED_AT_ONCE)
        )
        return PAGE.format(more="true", count=count, contents=contents).encode()

    def _answer(
        self,
        body: bytes,
        status: HTTPStatus = HTTPStatus.OK,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.s3.requests.append((self.command, self.path))
        fault = self.s3.fault_now()
        if fault == "silent":
            self.s3.ended.wait()
            return
        if fault == "failing":
            body, status = b"", HTTPStatus.SERVICE_UNAVAILABLE
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Sun, 22 Nov 2026 09:30:00 GMT")
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "truncating":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif fault == "slow":
            for one in body:
                if self.s3.ended.wait(1):
                    return
                self.wfile.write(bytes([one]))
        else:
            self.wfile.write(body)
