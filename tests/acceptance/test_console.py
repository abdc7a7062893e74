"""The console's files: public, cached, compressed, with a strict policy."""

import gzip
import json
import re

import httpx
import pytest

from tenantry.app import app_over
from tenantry.console.door import SAFEGUARDS
from tenantry.console.files import (
    MANUAL,
    PAGES,
    PREFIX,
    VERSION_CHARS,
    manual_paths,
    read_files,
)
from tenantry.services import Services
from testkit import asgi
from tests.conftest import client_of

FILES = sorted(read_files())
SCRIPT = f"{PREFIX}app.js"


@pytest.fixture(name="engine")
def _engine() -> str:
    """No database is used, so one engine suffices."""
    return "sqlite"


@pytest.fixture(name="stranger")
def _stranger(services: Services) -> httpx.AsyncClient:
    return client_of(app_over(services), accept_encoding="identity", accept="text/html,*/*;q=0.8")


async def ask(client: httpx.AsyncClient, path: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.get(path, headers=named)


class TestFile:
    async def test_needs_no_credentials(self, stranger: httpx.AsyncClient):
        """Every file, with its content type and a request id."""
        kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

        for path in FILES:
            answer = await ask(stranger, path)

            assert answer.status_code == 200
            assert answer.content
            kind = next((kinds[one] for one in kinds if path.endswith(one)), "text/html")
            assert answer.headers["content-type"].partition(";")[0] == kind
            assert answer.headers["x-request-id"]

    @pytest.mark.parametrize("path", sorted(PAGES))
    async def test_is_a_page_at_its_address(self, stranger: httpx.AsyncClient, path: str):
        """A page has an address without the name of its file."""
        assert (await ask(stranger, path)).text.startswith("<!doctype html>")

    @pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html;q=0"])
    async def test_at_the_root_is_for_browsers(self, stranger: httpx.AsyncClient, accept: str):
        """An API client gets the 404 of any unknown path."""
        answer = await ask(stranger, "/", accept=accept)

        assert answer.status_code == 404
        assert answer.json()["success"] is False
        page = (await ask(stranger, "/")).text
        assert all(f'href="{path}"' in page for path in ("/console", "/docs", "/readyz"))

    async def test_is_sent_without_its_body_to_head(self, services: Services):
        """HEAD says what GET would."""
        app = app_over(services)
        whole = await asgi.ask(app, "GET", SCRIPT)
        head = await asgi.ask(app, "HEAD", SCRIPT)

        assert (head.status, head.body) == (200, b"")
        assert head.said["content-length"] == str(len(whole.body))
        assert head.said["etag"] == whole.said["etag"]

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    async def test_accepts_no_other_method(self, stranger: httpx.AsyncClient, method: str):
        """Any other method is a 405 in the envelope."""
        answer = await stranger.request(method, "/console")

        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"
        assert answer.json() == {
            "success": False,
            "data": None,
            "message": "This path does not support this method.",
        }

    @pytest.mark.parametrize(
        "path",
        ["/console/nothing.js", "/console/../door.py", "/console/%2e%2e/door.py", "/consoles"],
    )
    async def test_that_does_not_exist_is_the_apis_404(
        self, stranger: httpx.AsyncClient, path: str
    ):
        """Whatever is no file of the console is a path like any other."""
        answer = await ask(stranger, path)

        assert answer.status_code == 404
        assert answer.json()["success"] is False


class TestManual:
    async def test_is_found_where_it_has_been_built(self, stranger: httpx.AsyncClient):
        """Its address leads to its folder; without a manual, there is nothing."""
        answer = await ask(stranger, MANUAL)

        if manual_paths():
            assert (answer.status_code, answer.headers["location"]) == (308, f"{MANUAL}/")
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        else:
            assert answer.status_code == 404

    @pytest.mark.parametrize("path", ["nothing.html", "../door.py", "%2e%2e/door.py", "_static/"])
    async def test_has_no_other_files(self, stranger: httpx.AsyncClient, path: str):
        """Only what has been built is sent."""
        assert (await ask(stranger, f"{MANUAL}/{path}")).status_code == 404


class TestPolicy:
    @pytest.mark.parametrize("path", [*sorted(PAGES), SCRIPT, "/console/console.css"])
    async def test_goes_with_every_answer(self, stranger: httpx.AsyncClient, path: str):
        """Also with one that says that nothing has changed."""
        first = await ask(stranger, path)
        second = await ask(stranger, path, if_none_match=first.headers["etag"])

        for answer in (first, second):
            for name, value in SAFEGUARDS:
                assert answer.headers[name.decode()] == value.decode()

    async def test_allows_nothing_inline_and_nothing_from_elsewhere(
        self, stranger: httpx.AsyncClient
    ):
        """Only the console's own files run, and no other page may frame them."""
        text = (await ask(stranger, "/console")).headers["content-security-policy"]
        policy = dict(one.strip().split(" ", 1) for one in text.split(";"))

        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["base-uri"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert {policy[one] for one in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert "unsafe" not in text

    async def test_is_not_the_apis(self, stranger: httpx.AsyncClient):
        """Other paths are answered as if there were no console."""
        assert "content-security-policy" not in (await ask(stranger, "/livez")).headers


class TestCaching:
    @pytest.mark.parametrize("coding", ["identity", "gzip"])
    async def test_sends_nothing_twice(self, stranger: httpx.AsyncClient, coding: str):
        """A client that has the file gets 304 without a body."""
        first = await ask(stranger, SCRIPT, accept_encoding=coding)
        etag = first.headers["etag"]

        for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            again = await ask(stranger, SCRIPT, accept_encoding=coding, if_none_match=known)

            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == etag
            assert "content-length" not in again.headers

    async def test_sends_a_file_when_the_tag_differs(self, stranger: httpx.AsyncClient):
        """The tag of another file, or of another encoding, does not match."""
        plain = (await ask(stranger, SCRIPT)).headers["etag"]

        for known in ('"other"', "", plain.replace('"', "")):
            assert (await ask(stranger, SCRIPT, if_none_match=known)).status_code == 200
        zipped = await ask(stranger, SCRIPT, accept_encoding="gzip", if_none_match=plain)
        assert zipped.status_code == 200
        assert zipped.headers["etag"] != plain

    @pytest.mark.parametrize("path", [*sorted(PAGES), SCRIPT])
    async def test_requires_revalidation(self, stranger: httpx.AsyncClient, path: str):
        """A new release is seen at the next request."""
        answer = await ask(stranger, path)

        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["vary"] == "accept, accept-encoding"

    @pytest.mark.parametrize("page", ["/console", "/docs", "/"])
    async def test_keeps_what_a_page_refers_to(self, stranger: httpx.AsyncClient, page: str):
        """Its path has the version of all files, so it never changes."""
        text = (await ask(stranger, page)).text
        referred = re.findall(rf'"({PREFIX}[^"]+)"', text)

        assert len(referred) > 1
        for path in referred:
            answer = await ask(stranger, path)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"

    async def test_keeps_no_file_of_another_release(self, stranger: httpx.AsyncClient):
        """While one release replaces another, its pages get files, and ask again later."""
        answer = await ask(stranger, f"{PREFIX}{'0' * VERSION_CHARS}/app.js")

        assert answer.content == read_files()[SCRIPT].plain.body
        assert answer.headers["cache-control"] == "no-cache"


class TestCompression:
    @pytest.mark.parametrize(
        "accepted", ["gzip", "br, gzip;q=0.5", "GZIP", "*", "deflate, *;q=0.1"]
    )
    async def test_is_used_where_it_is_accepted(self, services: Services, accepted: str):
        """The response is a fraction of the file."""
        client = client_of(app_over(services), accept_encoding=accepted)
        async with client.stream("GET", SCRIPT) as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])

        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(raw) == read_files()[SCRIPT].plain.body
        assert len(raw) < len(read_files()[SCRIPT].plain.body) / 2

    @pytest.mark.parametrize(
        "accepted", ["", "identity", "br", "gzip;q=0", "*;q=0.0", "gzip;q=0.0000"]
    )
    async def test_is_left_where_it_is_not(self, stranger: httpx.AsyncClient, accepted: str):
        """A client that does not accept it, or with `q=0`, gets the plain file."""
        answer = await ask(stranger, SCRIPT, accept_encoding=accepted)

        assert "content-encoding" not in answer.headers
        assert answer.content == read_files()[SCRIPT].plain.body


class TestAccount:
    async def test_is_logged_and_counted(
        self, services: Services, capsys: pytest.CaptureFixture[str]
    ):
        """A request for a file has its line and its number, under one name for all of them."""
        async with client_of(app_over(services)) as client:
            answer = await client.get(SCRIPT)

        logged = json.loads(capsys.readouterr().err)
        assert logged["path"] == "/console/{file}"
        assert (logged["method"], logged["status"]) == ("GET", 200)
        assert logged["request_id"] == answer.headers["x-request-id"]
        route = 'tenantry_requests_total{method="GET",route="/console/{file}",status="200"} 1.0'
        assert route in services.metrics.render().decode()
