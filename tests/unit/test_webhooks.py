"""One message to a webhook: its signature, and answers of bad endpoints."""

import base64
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.kit import webhooks
from testkit.hook_endpoint import Endpoint, endpoint, redirect_to
from tests.tls_front import certificates

BODY = b'{"type":"run.ended"}'
# Also of a busy machine; without the deadline, it is twice that.
LATE_SECONDS_MAX = 20.0


@pytest.fixture(name="hooked")
def _hooked() -> Iterator[Endpoint]:
    with endpoint() as served:
        yield served


def test_the_signature_is_that_of_the_example_of_standard_webhooks():
    """The example of the specification, and of its reference libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    signed = webhooks.signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("status", [200, 204, 299, 400, 410, 500])
async def test_the_status_is_returned(hooked: Endpoint, status: int):
    hooked.answers = [status]
    assert await webhooks.post(hooked.url, {"webhook-id": "1"}, BODY) == status
    headers, body = hooked.received[0]
    assert (headers["webhook-id"], headers["content-type"], body) == ("1", "application/json", BODY)


@pytest.mark.parametrize("bad", ["hang", "drip"])
async def test_an_endpoint_without_an_answer_is_cut_at_the_deadline(hooked: Endpoint, bad: str):
    hooked.answers = [getattr(hooked, bad)]
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await webhooks.post(hooked.url, {}, BODY, seconds=0.4)
    assert time.monotonic() - began < LATE_SECONDS_MAX


async def test_a_body_of_a_gigabyte_is_not_read(hooked: Endpoint):
    hooked.answers = [hooked.flood]
    assert await webhooks.post(hooked.url, {}, BODY) == 200
    assert hooked.sent_bytes < 2**24


async def test_headers_of_a_gigabyte_are_no_answer(hooked: Endpoint):
    hooked.answers = [hooked.endless_headers]
    with pytest.raises((OSError, ValueError)):
        await webhooks.post(hooked.url, {}, BODY)
    assert hooked.sent_bytes < 2**24


async def test_a_redirect_is_not_followed(hooked: Endpoint):
    with endpoint() as other:
        hooked.answers = [redirect_to(other.url)]
        assert await webhooks.post(hooked.url, {}, BODY) == 307
        assert other.received == []


async def test_a_proxy_of_the_environment_is_not_used(
    hooked: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    with endpoint() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert await webhooks.post(hooked.url, {}, BODY) == 200
        assert proxy.received == []


async def test_an_endpoint_that_is_away_is_an_error_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="Connect call failed"):
            await webhooks.post(f"http://127.0.0.1:{port}/", {}, BODY)


async def test_an_answer_that_changes_the_protocol_is_an_error(hooked: Endpoint):
    answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    hooked.answers = [lambda handler: handler.wfile.write(answer)]
    with pytest.raises(ValueError, match="HTTP"):
        await webhooks.post(hooked.url, {}, BODY)


async def test_an_answer_that_is_not_http_is_an_error(hooked: Endpoint):
    hooked.answers = [lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")]
    with pytest.raises(ValueError, match="HTTP"):
        await webhooks.post(hooked.url, {}, BODY)


async def test_a_certificate_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = certificates(tmp_path / "tls", "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made.server)
    with endpoint(tls) as served:
        with pytest.raises(ssl.SSLCertVerificationError):
            await webhooks.post(served.url, {}, BODY)
        assert served.received == []
        monkeypatch.setenv("SSL_CERT_FILE", str(made.root))
        assert await webhooks.post(served.url, {}, BODY) == 200
