"""Saves posts over the HTTP door of a process of its own, and goes on after failures."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.world import settings_of
from tenantry.app import app_over
from tenantry.kit import log
from tenantry.services import open_services
from testkit.asgi import ask

POSTS = "/api/tenant/blog/posts"
WANTED = 3
# A tenant whose file cannot be opened is not tried again at once.
TRIES_MAX = 40
PAUSE_SECONDS = 0.1


def main(caller: str, arm: Callable[[], None]) -> None:
    """Save posts until `WANTED` are acknowledged; print a line of JSON for each try.

    Args:
        caller: A file with the headers of a user, by name.
        arm: Called before the first post.
    """
    sys.exit(asyncio.run(_post(json.loads(Path(caller).read_text()), arm)))


async def _post(headers: dict[str, str], arm: Callable[[], None]) -> int:
    environment = {name: one for name, one in os.environ.items() if name.startswith("TENANTRY_")}
    log.configure(log_format="json", level="error")
    saved = 0
    async with open_services(settings_of(environment), works=False) as services:
        app = app_over(services)
        arm()
        for number in range(TRIES_MAX):
            title = f"Post {number}"
            body = {"title": title, "content": "Some text. " * 400, "tags": ["a"]}
            sent = [*headers.items(), ("content-type", "application/json")]
            answer = await ask(app, "POST", POSTS, headers=sent, body=json.dumps(body).encode())
            saved += answer.status == 201
            _say(title, answer.status, answer.json())
            if saved == WANTED:
                return 0
            if answer.status != 201:
                await asyncio.sleep(PAUSE_SECONDS)
    return 1


def _say(title: str, status: int, answer: Any) -> None:
    print(json.dumps({"title": title, "status": status, "message": answer.get("message")}))
    sys.stdout.flush()
