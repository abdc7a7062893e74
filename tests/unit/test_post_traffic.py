"""The clients of `make cluster` notice a server that loses a write which it has acknowledged."""

import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.cluster.posts import PostTraffic
from harness.registers import History
from harness.world import Tenant, User

CHANGES = 60
SECONDS_MAX = 60
NEVER = 1_000_000
TENANTS = [Tenant("acme", "", "key", [User("1", "ada@example.com", "token")])]


@contextmanager
def a_server(*, loses_every: int) -> Iterator[tuple[str, threading.Event]]:
    """Yield the URL of a server of posts, and an event: there were `CHANGES` changes.

    One of *loses_every* changes is acknowledged and lost.
    """
    posts: dict[str, str] = {}
    numbers = itertools.count()
    changes = 0
    lock, is_enough = threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            nonlocal changes
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size) or "{}")
            post = self.path.rpartition("/")[2]
            with lock:
                if self.command == "POST":
                    post = f"post-{next(numbers)}"  # no id is used again
                    posts[post] = body["content"]
                elif self.command == "PUT" and post in posts:
                    changes += 1
                    if changes % loses_every:
                        posts[post] = body["content"]
                    if changes == CHANGES:
                        is_enough.set()
                text = posts.pop(post, None) if self.command == "DELETE" else posts.get(post)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"id": post, "content": text}}).encode())

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - as the base class wants it

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", is_enough
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("loses_every", [5, NEVER])
def test_a_lost_write_is_noticed_and_nothing_else(loses_every: int):
    history, chance = History(), random.Random(5)  # noqa: S311 - it chooses what is sent
    with a_server(loses_every=loses_every) as (url, is_enough):
        traffic = PostTraffic(TENANTS, lambda: [url], history, chance=chance)
        with traffic.running():
            assert is_enough.wait(SECONDS_MAX)
        traffic.read_all()

    assert sum(map(len, history.registers.values())) > 10
    assert bool(history.check()) is (loses_every < NEVER)
    assert not traffic.faults
