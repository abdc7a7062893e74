"""A service with one run of thousands of tenants, which are invented: no database is migrated."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tenantry.console.files import find
from tenantry.kit.clock import utc_now
from tenantry.kit.ids import new_id
from testkit.programs import free_port

# As the service does, outcomes are sent in groups.
GROUP_SECONDS = 0.1
IN_WORK = 16
FAILS_EVERY = 40
CAUSE = "0002_create_invoices: SQLite: table … already exists."


class InventedRun:
    """A run whose tenants end at a steady rate from the first request for its events.

    Args:
        tenants: In the run.
        seconds: From the first to the last end.
    """

    def __init__(self, tenants: int, seconds: float) -> None:
        self.id = str(new_id())
        self.total = tenants
        self.ended = 0
        self._each = max(1, round(tenants * GROUP_SECONDS / seconds))
        self._began = utc_now()

    @property
    def state(self) -> dict[str, Any]:
        """The run, as the API returns it."""
        failed = self.ended // FAILS_EVERY
        names = ("label", "head", "stopReason", "retryOf")
        since = (utc_now() - timedelta(seconds=1)).isoformat()
        in_work = range(self.ended, min(self.total, self.ended + IN_WORK))
        is_over = self.ended == self.total
        return {
            **dict.fromkeys(names),
            "id": self.id,
            "state": ("failed" if failed else "success") if is_over else "running",
            "startedAt": self._began.isoformat(),
            "finishedAt": utc_now().isoformat() if is_over else None,
            "totalCount": self.total,
            "successCount": self.ended - failed,
            "failedCount": failed,
            "notAttemptedCount": 0,
            "triggeredBy": "ada@example.com",
            "waves": [1, self.total // 10, self.total],
            "maxFailures": self.total // 20,
            "inWork": [{**_named(place), "since": since} for place in in_work],
        }

    def tenant(self, place: int) -> dict[str, Any]:
        """The result of a tenant, as the API returns it."""
        is_failed = place % FAILS_EVERY == FAILS_EVERY - 1
        now = utc_now()
        return {
            **_named(place),
            "databaseName": f"tenantry_{place:032}",
            "status": "Failed" if is_failed else "Success",
            "isAttempted": True,
            "appliedMigrations": None if is_failed else "0002_create_invoices",
            "errorMessage": CAUSE.replace("…", "invoices") if is_failed else None,
            "cause": CAUSE if is_failed else None,
            "startedAt": (now - timedelta(seconds=0.2)).isoformat(),
            "finishedAt": now.isoformat(),
        }

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events of the stream."""
        while self.ended < self.total:
            await asyncio.sleep(GROUP_SECONDS)
            ends = min(self.total, self.ended + self._each)
            tenants = [_event("tenant", self.tenant(place)) for place in range(self.ended, ends)]
            self.ended = ends
            yield b"".join([*tenants, _event("run", self.state)])


def _named(place: int) -> dict[str, str]:
    return {
        "customerId": f"00000000-0000-7000-8000-{place:012x}",
        "customerName": f"Customer {place:05}",
    }


def _event(kind: str, data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def serving(run: InventedRun) -> Iterator[str]:
    """Serve the console over the run; yield the address."""
    port = free_port()
    config = uvicorn.Config(_app(run), port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)


def _app(run: InventedRun) -> Starlette:
    def envelope(data: object) -> Response:
        return Response(json.dumps({"success": True, "data": data}), media_type="application/json")

    async def answer(request: Request) -> Response:
        path = request.url.path
        file, _ = find(path)
        if file is not None:
            return Response(file.plain.body, headers={"content-type": file.media_type.decode()})
        if path.endswith("/events"):
            return StreamingResponse(run.events(), media_type="text/event-stream")
        return envelope(_data(run, path.rsplit("/", 1)[-1]))

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


def _data(run: InventedRun, name: str) -> dict[str, Any]:
    """Return the data of the answer for the last segment of a path."""
    if name == run.id:
        return run.state
    if name == "login":
        return {"token": _token()}
    failed = run.ended // FAILS_EVERY
    items = {
        "failure-causes": [{"cause": CAUSE, "count": failed, "left": failed}],
        "tenants": [run.tenant(place) for place in range(run.ended)],
    }
    return {"items": items.get(name, [run.state]), "totalCount": 1, "totalPages": 1}


def _token() -> str:
    now = int(utc_now().timestamp())
    claims = json.dumps({"iat": now, "exp": now + 86_400, "jti": str(new_id())})
    return f".{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}."
