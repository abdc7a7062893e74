"""The clients of `make cluster` notice a server that loses a write which it has acknowledged."""

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.cluster.posts import PostTraffic
from harness.registers import History
from harness.world import Tenant, User

SECONDS = 4
NEVER = 1_000_000
TENANTS = [Tenant("acme", "", "key", [User("1", "ada@example.com", "token")])]


@contextmanager
def a_server(*, loses_every: int) -> Iterator[str]:
    """Yield the URL of a server of posts. One of *loses_every* changes is acknowledged and lost."""
    posts: dict[str, str] = {}
    numbers = itertools.count()
    changes = 0
    lock = threading.Lock()

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
                text = posts.pop(post, None) if self.command == "DELETE" else posts.get(post)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"id": post, "content": text}}).encode())

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - as the base class wants it

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("loses_every", [5, NEVER])
def test_a_lost_write_is_noticed_and_nothing_else(loses_every: int):
    history, chance = History(), random.Random(5)  # noqa: S311 - it chooses what is sent
    with a_server(loses_every=loses_every) as url:
        traffic = PostTraffic(TENANTS, lambda: [url], history, chance=chance)
        with traffic.running():
            time.sleep(SECONDS)
        traffic.read_all()

    assert sum(map(len, history.registers.values())) > 10
    assert bool(history.check()) is (loses_every < NEVER)
    assert not traffic.faults
