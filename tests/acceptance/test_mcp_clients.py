"""The configurations that come with an McpToken: each connects, as its client would read it."""

import json
import shlex
import tomllib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tenantry.app import app_over
from tenantry.schemas.credentials import configurations
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.programs import free_port
from tests.acceptance.assistants import connected, data_of
from tests.acceptance.sockets import served
from tests.acceptance.support import OWN_TOKENS, TENANTS, ok
from tests.conftest import PASSWORD, World, make_world

LOCAL = "http://127.0.0.1:8000"
CLIENTS = [one.client for one in configurations(LOCAL, "tnm_x")]


@dataclass(frozen=True)
class Connection:
    """What a client makes of its configuration: where to ask, and with which headers."""

    url: str
    headers: Mapping[str, str]


def read(configuration: Mapping[str, str]) -> Connection:
    """Return what the client would make of a configuration."""
    return READERS[configuration["client"]](configuration["text"])


def _claude_code(text: str) -> Connection:
    program, mcp, add, *words = shlex.split(text)
    assert [program, mcp, add, *words[:3]] == [
        *["claude", "mcp", "add", "--transport", "http", "tenantry"]
    ]
    url, option, header = words[3:]
    assert option == "--header"
    return Connection(url, dict([header.split(": ")]))


def _in_servers(member: str) -> Any:
    def read_servers(text: str) -> Connection:
        server = json.loads(text)[member]["tenantry"]
        return Connection(server["url"], server["headers"])

    return read_servers


def _codex(text: str) -> Connection:
    server = tomllib.loads(text)["mcp_servers"]["tenantry"]
    assert server.keys() == {"url", "http_headers"}
    return Connection(server["url"], server["http_headers"])


def _bridge(text: str) -> Connection:
    server = json.loads(text)["mcpServers"]["tenantry"]
    yes, package, url, option, header, *_ = server["args"]
    assert (server["command"], yes, package, option) == ("npx", "-y", "mcp-remote", "--header")
    assert not [word for word in server["args"] if " " in word], "some clients break it there"
    name, _, value = header.partition(":")
    for variable, text_ in server["env"].items():
        value = value.replace(f"${{{variable}}}", text_)
    return Connection(url, {name: value})


READERS = dict(
    zip(
        CLIENTS,
        (_claude_code, _in_servers("mcpServers"), _in_servers("servers"), _codex, _bridge),
        strict=True,
    )
)


@pytest.fixture(name="address")
async def _address(settings: Settings) -> AsyncIterator[tuple[World, str]]:
    """A world on a socket, with its URL as the public URL of the settings."""
    port = free_port()
    public = settings.model_copy(update={"public_url": f"http://127.0.0.1:{port}"})
    async with open_services(public) as services:
        world = await make_world(services)
        async with served(app_over(services), port=port) as server:
            yield world, f"http://{server.host}:{server.port}"


class TestConfigurations:
    @pytest.mark.slow
    async def test_connect_in_every_client(self, address: tuple[World, str]):
        """Configurations for an admin and for a user: with each, the first tool works."""
        world, url = address
        admin, owner = await world.admin(), await world.owner(world.acme)
        tokens = f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens"

        for client, path in ((admin, tokens), (owner, OWN_TOKENS)):
            body = {"name": "assistant", "password": PASSWORD}
            issued = ok(await client.post(path, json=body), 201)
            configured = issued["clientConfigurations"]

            assert [one["client"] for one in configured] == CLIENTS
            for one in configured:
                said = read(one)
                assert said.url == f"{url}/mcp"
                assert said.headers == {"X-Mcp-Token": issued["token"]}
                async with connected(said.url, **said.headers) as assistant:
                    me = data_of(await assistant.call_tool("whoami"))
                    assert me["tokenName"] == "assistant"

    async def test_are_in_no_list(self, address: tuple[World, str]):
        """They hold the token, which is shown once."""
        world, _ = address
        owner = await world.owner(world.acme)
        await owner.post(OWN_TOKENS, json={"name": "assistant", "password": PASSWORD})

        [listed] = ok(await owner.get(OWN_TOKENS))["items"]

        assert "clientConfigurations" not in listed

    def test_name_the_public_url(self):
        settings = Settings(public_url="https://cms.example.com/", host="::")

        found = [read(vars_of(one)) for one in configurations(settings.base_url, "tnm_x")]

        assert {one.url for one in found} == {"https://cms.example.com/mcp"}

    @pytest.mark.parametrize(
        ("host", "url"),
        [("127.0.0.1", LOCAL), ("::", "http://[::1]:8000"), ("cms", "http://cms:8000")],
    )
    def test_name_the_address_where_there_is_no_public_url(self, host: str, url: str):
        assert Settings(host=host).base_url == url

    def test_allow_the_bridge_plain_http_where_it_refuses_it(self):
        """Without an option, it refuses http except on this machine."""
        for url, allows in ((LOCAL, False), ("https://a.example.com", False), ("http://lan", True)):
            bridge = configurations(url, "tnm_x")[-1]

            assert ("--allow-http" in bridge.text) == allows


def vars_of(configuration: Any) -> dict[str, str]:
    return {"client": configuration.client, "text": configuration.text}
