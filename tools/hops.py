"""Print the hops of a request: the functions of ours that it passes through, in order.

`python -m tools.hops` sends each request of `REQUESTS` several times, in process and over SQLite,
and traces them with `sys.setprofile`. `--list profile` prints the functions of one of them.
What happens in other threads and in the server below the application is not counted.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any

import tenantry
from tenantry.access import admins
from tenantry.app import app_over
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser
from testkit.asgi import Answer, ask
from testkit.request_samples import PASSWORD

SOURCE = str(Path(tenantry.__file__).parent)
EMAIL = "ada@acme.example"
ADMIN = "root@tenantry.example"
TRIES = 25


@dataclass
class Hops:
    """The functions that were called.

    Attributes:
        parts: What is counted: the request, and the worker if it is part of the answer. Not what
            else runs in between.
        functions: As ``module:qualified name``, in the order of their first call.
    """

    parts: tuple[str, ...]
    functions: dict[str, None] = field(default_factory=dict)

    @property
    def modules(self) -> set[str]:
        """The modules of the functions."""
        return {name.partition(":")[0] for name in self.functions}

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call; a hook of `sys.setprofile`."""
        code = frame.f_code
        if event == "call" and _DOES.get() in self.parts and code.co_filename.startswith(SOURCE):
            module = code.co_filename[len(SOURCE) + 1 :].removesuffix(".py")
            self.functions.setdefault(f"{module}:{code.co_qualname}")


REQUEST, WORKER, OTHER = "request", "worker", "other"
# What the current task does: it answers a request, migrates what one has asked for, or neither.
_DOES = ContextVar("does", default=OTHER)


@contextmanager
def tracing(*parts: str) -> Iterator[Hops]:
    """Yield the hops of the block, in this thread; see `Hops`."""
    hops = Hops((REQUEST, *parts))
    token = _DOES.set(REQUEST)
    sys.setprofile(hops.note)
    try:
        yield hops
    finally:
        sys.setprofile(None)
        _DOES.reset(token)


@dataclass(frozen=True)
class Stage:
    """One tenant with a user, a published post and an API key, and an admin."""

    app: Any
    key: str

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request, and return its response.

        Raises:
            RuntimeError: It was refused.
        """
        named = [("x-api-key", self.key), ("content-type", "application/json"), *headers.items()]
        answer = await ask(self.app, method, path, headers=named, body=body)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body.decode()}")
        return answer

    async def bearer(self, path: str, email: str) -> str:
        """Return the authorization of an account that logs in at *path*."""
        answer = await self.send("POST", path, _login(email))
        return f"Bearer {answer.json()['data']['token']}"


def _login(email: str) -> bytes:
    return f'{{"email": "{email}", "password": "{PASSWORD}"}}'.encode()


async def _profile(stage: Stage) -> Callable[[], Awaitable[Answer]]:
    bearer = await stage.bearer("/api/tenant/auth/login", EMAIL)
    body = f'{{"fullName": "Ada", "email": "{EMAIL}"}}'.encode()
    return lambda: stage.send("PUT", "/api/tenant/auth/profile", body, authorization=bearer)


async def _posts(stage: Stage) -> Callable[[], Awaitable[Answer]]:
    return lambda: stage.send("GET", "/api/public/blog/posts")


async def _sign_in(stage: Stage) -> Callable[[], Awaitable[Answer]]:
    return lambda: stage.send("POST", "/api/tenant/auth/login", _login(EMAIL))


async def _migrate(stage: Stage) -> Callable[[], Awaitable[Answer]]:
    bearer = await stage.bearer("/api/admin/auth/login", ADMIN)
    path = "/api/admin/tenants/migrate-all"
    return lambda: stage.send("POST", path, b"{}", authorization=bearer)


REQUESTS: dict[str, Any] = {
    "profile": ("PUT profile", _profile),
    "login": ("tenant login", _sign_in),
    "posts": ("GET published posts", _posts),
    "migrate-all": ("migrate-all, one tenant", _migrate, WORKER),
}


async def hops_of(stage: Stage, name: str) -> Hops:
    """Return the hops of the shortest of `TRIES` requests, after a first one.

    The others may have met a timer of theirs.
    """
    _, prepare, *parts = REQUESTS[name]
    send = await prepare(stage)
    await send()
    shortest: Hops | None = None
    for _ in range(TRIES):
        with tracing(*parts) as hops:
            await send()
        if shortest is None or len(hops.functions) < len(shortest.functions):
            shortest = hops
    assert shortest is not None
    return shortest


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """Yield a stage over SQLite in *folder*."""
    settings = Settings(data_dir=folder, host="127.0.0.1")
    async with open_services(settings, works=False) as services:
        worker = copy_context().run(_start_worker, services)
        yield Stage(app_over(services), await _provision(services))
        worker.cancel()


def _start_worker(services: Services) -> "asyncio.Task[None]":
    _DOES.set(WORKER)
    return asyncio.create_task(services.worker.work())


async def _provision(services: Services) -> str:
    ctx = system_context("hops")
    await admins.create(ctx, services.catalog, services.passwords, email=ADMIN, password=PASSWORD)
    owner = NewUser(full_name="Ada", email=EMAIL, password=PASSWORD)
    made = await services.lifecycle.provision(ctx, name="acme", owner=owner, module_keys=None)
    return made.key.secret


async def main(listed: str | None) -> None:
    """Print the table, or the functions of the request *listed*."""
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder)) as stage:
            if listed is not None:
                print(*(await hops_of(stage, listed)).functions, sep="\n")
                return
            print("| request | modules | functions |\n|---|---|---|")
            for name, (title, *_) in REQUESTS.items():
                hops = await hops_of(stage, name)
                print(f"| {title} | {len(hops.modules)} | {len(hops.functions)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.hops", description=__doc__)
    parser.add_argument("--list", choices=REQUESTS, metavar="REQUEST", help=", ".join(REQUESTS))
    asyncio.run(main(parser.parse_args().list))
