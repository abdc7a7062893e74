"""The limit: an ASGI application that reads a request whole and answers a constant.

It answers what Tenantry has answered once, headers and body, so that the same bytes travel.
"""

import sys
from pathlib import Path
from typing import Any

from harness.bench.servers.run import run

# Uvicorn adds it.
LEFT_OUT = {b"date"}


def application(answer: bytes) -> Any:
    """Return the application that gives this *answer*: the status, lines of headers, a body."""
    head, _, body = answer.partition(b"\n\n")
    status, *lines = head.splitlines()
    pairs = [line.split(b": ", 1) for line in lines]
    headers = [(name, value) for name, value in pairs if name not in LEFT_OUT]

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        chunks = []
        while True:
            message = await receive()
            chunks.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        b"".join(chunks)
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


if __name__ == "__main__":
    run(application(Path(sys.argv[2]).read_bytes()), int(sys.argv[1]))
