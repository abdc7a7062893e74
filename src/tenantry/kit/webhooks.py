"""Send one message to a webhook, signed as Standard Webhooks says (standardwebhooks.com).

The answer is its status: the body is not read, a redirect is not followed, no proxy is used, and
certificates are verified. Everything together has one deadline, which a client with a timeout for
each operation would not keep.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import httptools

DEADLINE_SECONDS = 10.0
ANSWER_BYTES_MAX = 65_536
"""An answer with no status and no complete headers in so many bytes is no answer."""
READ_BYTES = 4_096
DELIVERED = range(200, 300)


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


async def post(
    url: str, headers: Mapping[str, str], body: bytes, *, seconds: float = DEADLINE_SECONDS
) -> int:
    """Send a JSON body; return the status of the answer.

    Raises:
        TimeoutError: There was no answer within *seconds*.
        OSError: The connection failed, or was closed without an answer, or TLS failed.
        ValueError: The answer is not HTTP.
    """
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = {
        "host": parts.netloc,
        "content-type": "application/json",
        "content-length": str(len(body)),
        "user-agent": "tenantry",
        "connection": "close",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(
            parts.hostname,
            parts.port or (443 if is_tls else 80),
            ssl=await asyncio.to_thread(ssl.create_default_context) if is_tls else None,
        )
        try:
            writer.write(f"POST {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
            # Not drained: an endpoint may answer before it has read everything.
            return await _status(reader)
        finally:
            with contextlib.suppress(OSError):
                writer.transport.abort()


async def _status(reader: asyncio.StreamReader) -> int:
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    answer.parser = parser
    read = 0
    while answer.status is None:
        data = await reader.read(READ_BYTES)
        read += len(data)
        if not data or read > ANSWER_BYTES_MAX:
            raise ConnectionResetError("no answer")
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise ValueError("the answer is not HTTP") from error
    return answer.status


class _Answer:
    """Takes the status of the first answer that is final: 1xx is not."""

    parser: httptools.HttpResponseParser
    status: int | None = None

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if self.status is None and status >= DELIVERED.start:
            self.status = status
