"""The product in this process, asked over its HTTP door, for steps that are no coroutines."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from io import StringIO
from typing import Any

from harness.api import ADMIN_LOGIN
from harness.world import PASSWORD
from tenantry.access import admins
from tenantry.app import app_over
from tenantry.catalog.admins import AdminEmailInUse
from tenantry.kit import log
from tenantry.kit.context import system_context
from tenantry.kit.request_log import AccessLog
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.asgi import Answer, ask

ADMIN = "ada@example.com"
JOB_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
NOT_ENDED = {"queued", "running", "dropping"}


class Service:
    """One process of the product; `close` ends it.

    Args:
        settings: The admin is created if no service has run with them.
    """

    def __init__(self, settings: Settings) -> None:
        log.configure(log_format="json", level="critical")
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._runner.run(self._open(settings))
        login = self.ask("POST", ADMIN_LOGIN, {"email": ADMIN, "password": PASSWORD})
        self._admin = {"authorization": f"Bearer {login.json()['data']['token']}"}

    async def _open(self, settings: Settings) -> None:
        services = await self._stack.enter_async_context(open_services(settings))
        self._app = app_over(services, AccessLog(StringIO(), as_json=True))
        ctx, passwords = system_context("states"), services.passwords
        with suppress(AdminEmailInUse):
            await admins.create(ctx, services.catalog, passwords, email=ADMIN, password=PASSWORD)

    def close(self) -> None:
        """End the process."""
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Return the answer to a request; the names of *headers* have ``_`` instead of ``-``."""
        sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
        text = b""
        if body is not None:
            text = json.dumps(body).encode()
            sent.append(("content-type", "application/json"))
        address, _, query = path.partition("?")
        coroutine = ask(self._app, method, address, query=query.encode(), headers=sent, body=text)
        return self._runner.run(coroutine)

    def admin(self, method: str, path: str, body: object = None) -> Answer:
        """Return the answer to a request of an admin."""
        return self.ask(method, path, body, **self._admin)

    def run_until(self, is_over: Callable[[], bool], what: str) -> None:
        """Let the process work until *is_over*; it must be within `JOB_SECONDS_MAX`."""
        until = time.monotonic() + JOB_SECONDS_MAX
        while not is_over():
            assert time.monotonic() < until, what
            self._runner.run(asyncio.sleep(POLL_SECONDS))

    def job(self, path: str, body: object = None) -> Any:
        """Queue a job, and return it when it has ended; it must succeed."""
        queued = self.admin("POST", path, {} if body is None else body)
        assert queued.status == 202, queued.body
        job_id = queued.json()["data"]["id"]
        path = f"/api/admin/jobs/{job_id}"

        def read() -> Any:
            return self.admin("GET", path).json()["data"]

        self.run_until(lambda: read()["state"] not in NOT_ENDED, f"the job does not end: {path}")
        job = read()
        assert job["error"] is None, job
        return job
