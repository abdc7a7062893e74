"""Requests as bytes, and the least that can be known of an answer."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass

ANSWER_SECONDS_MAX = 30
CHUNK_BYTES = 262_144
SUCCESS = b'"success":true'
NOT_MODIFIED = b"HTTP/1.1 304"


class WrongAnswer(Exception):
    """A server answered something else than it should."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and what its answer must hold.

    Attributes:
        wire: The whole request.
        expected: A part of the answer, in addition to the success of the envelope.
        begins: How the answer begins. One that was not modified has no envelope.
        success: What says that it went well: the envelope, unless the answer has none.
    """

    wire: bytes
    expected: bytes = SUCCESS
    begins: bytes = b"HTTP/1.1 20"
    success: bytes = SUCCESS

    def fits(self, answer: bytes) -> bool:
        """Return whether *answer*, head and body, is as expected."""
        is_success = self.success in answer or self.begins == NOT_MODIFIED
        return answer.startswith(self.begins) and is_success and self.expected in answer


@dataclass(frozen=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    raw: bytes


def request(
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: object = None,
) -> bytes:
    """Return a request. It has only the headers it needs: more would flatter the ratios."""
    lines = [f"{method} {path} HTTP/1.1", "host: tenantry.test"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    if content:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def ask(port: int, wire: bytes, *, seconds: float = ANSWER_SECONDS_MAX) -> Answer:
    """Return the answer to one request, over a connection of its own.

    Raises:
        OSError: There is no listener, or the connection broke.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(wire)
        got = b""
        while length_of(got) != len(got):
            chunk = connection.recv(CHUNK_BYTES)
            if not chunk:
                raise ConnectionResetError("the answer was cut short")
            got += chunk
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(": ") for line in lines]
    return Answer(int(first.split()[1]), [(name, value) for name, _, value in pairs], body, got)


def length_of(begun: bytes) -> int:
    """Return how long an answer will be that has *begun* like this; -1 if that is unknown yet.

    Every server here writes ``content-length`` in lower case, unless nothing was modified.
    """
    end = begun.find(b"\r\n\r\n")
    if end < 0:
        return -1
    if begun.startswith(NOT_MODIFIED):
        return end + 4
    at = begun.find(b"content-length: ", 0, end)
    if at < 0:
        raise WrongAnswer(f"no content-length: {begun[:200]!r}")
    return end + 4 + int(begun[at + 16 : begun.find(b"\r", at)])
