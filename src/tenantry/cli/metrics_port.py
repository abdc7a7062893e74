"""The port that answers with the metrics, without credentials: a few threads, and no patience.

It is in the process that serves, so what it holds open is taken from there.
"""

import socket
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

# A scraper has one or two.
CONNECTIONS_MAX = 16
# Between any two bytes of a request, or of its answer.
SILENCE_SECONDS_MAX = 5.0


def bound(host: str, port: int, registry: CollectorRegistry) -> WSGIServer:
    """Return a server of what is in *registry*, which is bound and does not serve yet.

    Raises:
        OSError: The address cannot be used.
    """
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]

    class Server(_Server):
        address_family = family

    return make_server(host, port, make_wsgi_app(registry), Server, _Handler)


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS_MAX

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the base class
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each of `CONNECTIONS_MAX` connections; more are closed at once."""

    daemon_threads = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there is a place."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was too slow, or has gone."""
