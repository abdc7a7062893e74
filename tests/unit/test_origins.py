"""The host names and origins that ``/mcp`` accepts."""

from typing import Any

import pytest

from tenantry.api.origins import ForeignHost, ForeignOrigin, check_origin
from tenantry.settings import Settings

HERE = "127.0.0.1"
ODD_ORIGINS = (
    "null",
    "http",
    "http:",
    "http://",
    "//127.0.0.1",
    "127.0.0.1",
    "127.0.0.1:8000",
    "ftp://127.0.0.1",
    "file://127.0.0.1",
    "file:///127.0.0.1",
    "javascript://127.0.0.1",
    "chrome-extension://127.0.0.1",
    "ws://127.0.0.1",
    "httpss://127.0.0.1",
    "http:/127.0.0.1",
    "http:127.0.0.1",
    "http:///127.0.0.1",
    "http://127.0.0.1:",
    "http://127.0.0.1:x",
    "http://127.0.0.1:0",
    "http://127.0.0.1:65536",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:-1",
    "http://127.0.0.1:+80",
    "http://127.0.0.1: 80",
    "http://127.0.0.1:8_0",
    "http://127.0.0.1:80:80",
    "http://127.0.0.1:\N{ARABIC-INDIC DIGIT EIGHT}",
    "http://127.0.0.1:000080",
    "http://user@127.0.0.1",
    "http://user:password@127.0.0.1",
    "http://@127.0.0.1",
    "http://127.0.0.1@evil.example.com",
    "http://127.0.0.1#@evil.example.com",
    "http://127.0.0.1\\@evil.example.com",
    "http://127.0.0.1.evil.example.com",
    "http://evil.example.com/127.0.0.1",
    "http://127.0.0.1/",
    "http://127.0.0.1/path",
    "http://127.0.0.1?",
    "http://127.0.0.1?query",
    "http://127.0.0.1#",
    "http://127.0.0.1;",
    "http://127.0.0.1\\",
    "http://127.0.0.1\t",
    "http://127.0.\t0.1",
    " http://127.0.0.1",
    "http://127.0.0.1 ",
    "http://127.0.0.1\n",
    "http://127.0.0.1\0",
    "http://127.0.0.1.",
    "http://127.1",
    "http://0x7f000001",
    "http://2130706433",
    "http://127.0.0.2",
    "http://[127.0.0.1]",
    "http://::1",
    "http://[::1",
    "http://::1]",
    "http://[[::1]]",
    "http://[::1]x",
    "http://[::1%25eth0]",
    "http://loc\N{LATIN SMALL LETTER LONG S}t",
    "http://127.0.0.1, http://127.0.0.1",
    "http://127.0.0.1,http://127.0.0.1",
    "http://127.0.0.1 http://127.0.0.1",
    "http://127.0.0.1, ",
    ", http://127.0.0.1",
    ", ",
    ",",
)
ODD_HOSTS = (
    "",
    ":",
    ":80",
    "http://127.0.0.1",
    "//127.0.0.1",
    "127.0.0.1/",
    "127.0.0.1?",
    "127.0.0.1#",
    "user@127.0.0.1",
    "127.0.0.1:x",
    "127.0.0.1:",
    "127.0.0.1:65536",
    "::1",
    "[::1",
    "127.0.0.1, 127.0.0.1",
    ", 127.0.0.1",
    "127.0.0.1:80, 127.0.0.1:80",
    "evil.example.com",
)


class TestNames:
    @pytest.mark.parametrize("origin", ODD_ORIGINS)
    def test_do_not_match_a_malformed_origin(self, origin: str):
        with pytest.raises(ForeignOrigin):
            check_origin(Settings(), host=HERE, origin=origin)

    @pytest.mark.parametrize("host", ODD_HOSTS)
    def test_do_not_match_a_malformed_host(self, host: str):
        with pytest.raises(ForeignHost):
            check_origin(Settings(), host=host, origin="")

    @pytest.mark.parametrize(
        "name", ["127.0.0.1", "localhost", "LocalHost", "[::1]", "cms.example.com"]
    )
    @pytest.mark.parametrize("port", ["", ":1", ":8000", ":65535"])
    @pytest.mark.parametrize("scheme", ["http", "https", "HTTP"])
    def test_are_ours_with_any_port(self, name: str, port: str, scheme: str):
        settings = Settings(host="CMS.Example.com")

        check_origin(settings, host=name + port, origin=f"{scheme}://{name}{port}")

    def test_is_the_public_one_in_any_case(self):
        settings = Settings(public_url="https://CMS.Example.com:8443/")

        check_origin(settings, host="cms.example.COM", origin="https://Cms.example.com")
        with pytest.raises(ForeignHost):
            check_origin(settings, host=HERE, origin="")

    @pytest.mark.parametrize(
        "settings", [{"host": "FD00::1"}, {"public_url": "http://[fd00::1]:1"}]
    )
    def test_may_be_addresses(self, settings: dict[str, Any]):
        check_origin(Settings(**settings), host="[fd00::1]:80", origin="http://[fd00::1]")

    def test_are_none_where_the_public_url_has_none(self):
        for host in ("", ":80", HERE):
            with pytest.raises(ForeignHost):
                check_origin(Settings(public_url="https://:8443"), host=host, origin="")
