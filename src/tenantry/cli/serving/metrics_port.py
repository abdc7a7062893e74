"""The port that answers `/metrics` without credentials: few threads, short timeouts.

It runs in the process that serves the API, so its connections and threads are bounded.
"""

import socket
import threading
from http import HTTPStatus
from http.server import HTTPServer
from socketserver import ThreadingMixIn
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler

# A scraper needs one or two.
CONNECTIONS_MAX = 16
# Between any two bytes of a request, or of its response.
SILENCE_SECONDS_MAX = 5.0
PATH = "/metrics"


def bound(host: str, port: int, registry: CollectorRegistry) -> HTTPServer:
    """Return a server for the metrics in *registry*, which is bound but does not serve yet.

    Raises:
        OSError: The address cannot be used.
    """
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    return _Server(family, (host, port), _Handler.factory(registry))


class _Handler(MetricsHandler):
    timeout = SILENCE_SECONDS_MAX
    error_message_format = "%(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:  # noqa: N802 - named by the base class
        """Send the metrics, or 404 for any other path."""
        if self.path.partition("?")[0] == PATH:
            super().do_GET()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def send_response(self, code: int, message: str | None = None) -> None:
        """Begin a response, without the header that names this server and its version."""
        self.send_response_only(code, message)
        self.send_header("Date", self.date_time_string())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the base class
        """Log nothing."""


class _Server(ThreadingMixIn, HTTPServer):
    """A thread for each of `CONNECTIONS_MAX` connections; others are closed immediately."""

    daemon_threads = True

    def __init__(self, family: socket.AddressFamily, *args: Any) -> None:
        self.address_family = family
        super().__init__(*args)
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if the limit allows."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and release the place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about a client that was too slow, or has disconnected."""
