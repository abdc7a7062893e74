"""An admin's client of a server, with one connection."""

import http.client
import json
import time
from typing import Any

from harness.wire import WrongAnswer

ANSWER_SECONDS_MAX = 60


class Client:
    """Asks one thing after the other.

    Args:
        port: Of the server.
        token: Of an admin.
    """

    def __init__(self, port: int, token: str) -> None:
        self._token = token
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS_MAX)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[float, Any]:
        """Return the milliseconds of a request, and its data.

        Raises:
            WrongAnswer: The request failed.
        """
        sent = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        began = time.perf_counter()
        self._connection.request(
            method, path, None if body is None else json.dumps(body), {**sent, **headers}
        )
        answer = self._connection.getresponse()
        got = answer.read()
        took = (time.perf_counter() - began) * 1000
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise WrongAnswer(f"{method} {path}: {answer.status} {got[:500]!r}")
        return took, json.loads(got).get("data")
