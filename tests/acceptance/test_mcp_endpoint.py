"""POST /mcp: authentication, accepted host names, and malformed messages."""

import json
import subprocess
import sys
import time
from typing import Any

import httpx
import mcp_types as types
import msgspec
import pytest

from tenantry.app import app_over
from tenantry.mcp import server
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant.blog import posts
from testkit.faults import Faults
from tests.acceptance.assistants import (
    BEFORE,
    ENVELOPE,
    NEWEST,
    PATH,
    answer_of,
    assistant,
    call,
    data_of,
    error_of,
    message,
    newest,
    post,
)
from tests.acceptance.support import TENANTS, add_owner, ok, patch_tenant, patch_user, refused
from tests.acceptance.test_secrets import everything_logged
from tests.conftest import HOST, World, client_of, make_world

# A message of this size is decoded in 0.02 s; the SDK took 0.6 s.
SIZE_SECONDS_MAX = 0.2
# Lists in lists, deeper than the SDK reads.
DEEP = [json.loads("[" * 300 + "]" * 300) for _ in range(48)]

NO_MESSAGES: tuple[bytes, ...] = (
    b"",
    b"[]",
    b"[" + message("ping") + b"]",
    b"{}",
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 9007199254740992, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": "' + b"x" * 201 + b'", "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": "\\u0000", "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 7}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b'{"a":' * 9000,
    b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 101 + b'"}',
)
WRONG_CALLS: tuple[Any, ...] = (
    {},
    {"name": None},
    {"name": 1},
    {"name": "whoami", "arguments": []},
    {"name": "whoami", "arguments": "x"},
    {"name": "whoami", "arguments": 7},
    {"name": "whoami", "_meta": []},
    {"name": "nonsense"},
    {"name": "\0"},
    {"name": "x" * 100_000},
)

# A second of work for a decoder, in a megabyte: numbers near the largest double, and deep lists.
TEDIOUS = (b"9e307,", b"[" * 190 + b"]" * 190 + b",")


async def client_of_acme(world: World, *scopes: str, **kind: Any) -> httpx.AsyncClient:
    return world.client(x_mcp_token=await world.mcp_token(world.acme, *scopes, **kind))


class TestCredentials:
    async def test_are_the_token_in_either_header(self, world: World):
        token = await world.mcp_token(world.acme)

        for headers in (
            {"x_mcp_token": token},
            {"authorization": f"Bearer {token}"},
            {"authorization": f"bearer {token}"},
            {"x_mcp_token": token, "authorization": "Bearer forged"},
            {"x_mcp_token": token, "x_api_key": world.acme.key.secret},
            {"x_mcp_token": "", "authorization": f"Bearer {token}"},
        ):
            said = answer_of(await post(world.client(**headers), message("ping")))

            assert said == {"jsonrpc": "2.0", "id": 1, "result": {}}

    async def test_are_nothing_else(self, world: World):
        token = await world.mcp_token(world.acme)

        for headers in (
            {},
            {"x_api_key": world.acme.key.secret},
            {"x_api_key": token},
            {"authorization": f"Bearer {await world.token(world.acme)}"},
            {"authorization": f"Bearer {await world.admin_token()}"},
            {"authorization": token},
            {"authorization": f"Basic {token}"},
            {"x_mcp_token": "tnm_unknown", "authorization": f"Bearer {token}"},
        ):
            response = await post(world.client(**headers), b"{not JSON")

            refused(response, 401)
        challenge = (await post(world.stranger(), b"")).headers["www-authenticate"]
        assert challenge == "Bearer"

    async def test_must_agree_with_the_key_of_the_same_request(self, world: World):
        token = await world.mcp_token(world.acme)

        foreign = world.client(x_mcp_token=token, x_api_key=world.globex.key.secret)

        refused(await post(foreign, message("ping")), 403)

    async def test_end_when_the_token_is_revoked_between_two_calls(self, world: World):
        admin, base = await world.admin(), f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens"
        issued = ok(await admin.post(base, json={"name": "assistant"}), 201)
        client = world.client(x_mcp_token=issued["token"])

        answer_of(await post(client, call("whoami")))
        await admin.delete(f"{base}/{issued['id']}")

        refused(await post(client, call("whoami")), 401)

    async def test_do_not_suffice_while_their_user_is_inactive(self, world: World):
        client = await client_of_acme(world)

        await add_owner(world, world.acme)
        await patch_user(world, world.acme, world.acme.owner.id, isActive=False)

        refused(await post(client, call("whoami")), 403)
        answer_of(await post(await client_of_acme(world, bound=False), call("whoami")))

    async def test_do_not_suffice_while_the_tenant_or_the_module_is_off(self, world: World):
        client = await client_of_acme(world)

        for change in ({"isActive": False}, {"modules": ["blog"]}):
            await patch_tenant(world, world.acme, isActive=True)
            await patch_tenant(world, world.acme, **change)
            refused(await post(client, message("tools/list")), 403)

    async def test_are_noted_when_they_are_used(self, world: World):
        admin, base = await world.admin(), f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens"
        issued = ok(await admin.post(base, json={"name": "assistant"}), 201)

        await post(world.client(authorization=f"Bearer {issued['token']}"), message("ping"))
        await world.services.usage.write()

        [listed] = ok(await admin.get(base))["items"]
        assert listed["lastUsedAt"] is not None


class TestNames:
    async def test_must_match_in_host(self, world: World):
        """A page sends its own host name after DNS rebinding."""
        client = await client_of_acme(world)

        for host in ("evil.example.com", f"{HOST}.evil.example.com", "[::1", "a b"):
            refused(await post(client, message("ping"), host=host), 403)

    async def test_must_match_in_origin(self, world: World):
        """A page of another origin is refused, whatever token it sends."""
        client = await client_of_acme(world)

        for origin in ("https://evil.example.com", "null", "http://[", "//"):
            refused(await post(client, message("ping"), origin=origin), 403)

    async def test_may_be_any_of_ours(self, world: World):
        client = await client_of_acme(world)

        for host in (HOST, f"{HOST}:8443", "LOCALHOST:1", "127.0.0.1", "[::1]:80"):
            answer_of(await post(client, message("ping"), host=host, origin=f"http://{host}"))

    async def test_must_be_sent_once(self, world: World):
        """A proxy might check one of the two values, and the server use the other."""
        client = await client_of_acme(world)
        ours = {"host": HOST, "origin": f"http://{HOST}"}

        for name, value in ours.items():
            for twice in ((value, value), ("", value), (value, "")):
                pairs = [*({**ours, name: twice[0]}).items(), (name, twice[1])]
                answered = await client.post(PATH, content=message("ping"), headers=pairs)
                refused(answered, 403)

    async def test_are_checked_after_the_credentials(self, world: World):
        refused(await post(world.stranger(), message("ping"), host="evil.example.com"), 401)

    @pytest.mark.slow
    async def test_is_the_public_one_alone_where_it_is_set(self, settings: Settings):
        public = settings.model_copy(update={"public_url": "https://cms.example.com/"})
        async with open_services(public) as services:
            world = await make_world(services)
            client = await client_of_acme(world)

            for host, status in (("cms.example.com", 200), (HOST, 403), ("localhost", 403)):
                answered = await post(client, message("ping"), host=host)
                assert answered.status_code == status


class TestRevisions:
    async def test_are_the_newest_and_the_one_before(self, world: World):
        for revision in (NEWEST, BEFORE):
            async with assistant(world, await world.mcp_token(world.acme), revision) as client:
                assert client.protocol_version == revision
                assert data_of(await client.call_tool("whoami"))["customerName"] == "acme"

    async def test_handshake_names_the_server_and_its_capabilities(self, world: World):
        params = {"protocolVersion": BEFORE, "capabilities": {}, "clientInfo": {}}
        params["clientInfo"] = {"name": "test", "version": "1"}
        client = await client_of_acme(world)

        said = answer_of(await post(client, message("initialize", params)))["result"]

        assert said["protocolVersion"] == BEFORE
        assert said["serverInfo"]["name"] == "tenantry"
        assert said["instructions"] == server.INSTRUCTIONS
        assert said["capabilities"].keys() == {"tools", "resources"}
        noted = await post(client, message("notifications/initialized", id_=None))
        assert (noted.status_code, noted.content) == (202, b"")

    async def test_newest_needs_no_handshake(self, world: World):
        body, headers = newest("server/discover")

        said = answer_of(await post(await client_of_acme(world), body, **headers))["result"]

        assert said["supportedVersions"] == [NEWEST]
        assert said["instructions"] == server.INSTRUCTIONS

    async def test_others_are_refused_with_the_supported_ones(self, world: World):
        client = await client_of_acme(world)
        body, headers = newest("ping")
        for version in ("2099-01-01", "", "0", "x" * 1000, f"{NEWEST}, {NEWEST}"):
            response = await post(client, body, **{**headers, "mcp_protocol_version": version})

            assert response.status_code == (400 if version else 200), version

    async def test_that_is_unknown_is_not_repeated_at_length(self, world: World):
        client = await client_of_acme(world)
        for version in ("2099-01-01", "x" * 10_000):
            params = {"_meta": {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": version}}
            headers = {"mcp_protocol_version": version, "mcp_method": "ping"}
            response = await post(client, message("ping", params), **headers)

            assert response.status_code == 400
            assert len(response.content) < 400

    async def test_headers_must_say_what_the_message_says(self, world: World):
        client = await client_of_acme(world)
        body, headers = newest("tools/call", name="whoami", arguments={})

        answer_of(await post(client, body, **headers))
        for wrong in ({"mcp_method": "tools/list"}, {"mcp_name": "get_post"}, {"mcp_name": ""}):
            error_of(await post(client, body, **{**headers, **wrong}), types.HEADER_MISMATCH, 400)

    async def test_get_and_delete_have_nothing_to_do(self, world: World):
        """There is no session, and no stream besides the responses."""
        client = await client_of_acme(world)

        for method in ("GET", "DELETE", "PUT"):
            response = await client.request(method, PATH)
            refused(response, 405)
            assert response.headers["allow"] == "POST"


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body or b"{}")
    except msgspec.ValidationError:
        return True
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class TestMessages:
    async def test_that_are_malformed_are_refused(self, world: World):
        client = await client_of_acme(world)

        for body in NO_MESSAGES:
            response = await post(client, body)
            code = response.json()["error"]["code"]

            assert response.json()["id"] is None
            assert code in {types.PARSE_ERROR, types.INVALID_REQUEST}
            assert error_of(response, code, 400)
            assert (code == types.INVALID_REQUEST) == _is_json(body), body
            assert response.headers["x-error-code"] in {"bad_request", "bad_text"}

    async def test_of_unknown_methods_are_refused(self, world: World):
        client = await client_of_acme(world)

        for method in ("nonsense", "prompts/list", "tools/Call", ""):
            error_of(await post(client, message(method, {})), types.METHOD_NOT_FOUND)
        body, headers = newest("nonsense")
        error_of(await post(client, body, **headers), types.METHOD_NOT_FOUND, 404)

    async def test_with_wrong_parameters_are_refused(self, world: World):
        client = await client_of_acme(world)

        for params in WRONG_CALLS:
            said = error_of(await post(client, message("tools/call", params)), types.INVALID_PARAMS)

            assert len(said) < 200
            assert "pydantic" not in said

    async def test_keep_their_ids(self, world: World):
        client = await client_of_acme(world)

        for id_ in (0, -1, 2**53 - 1, "", "a", "1", "\N{SNOWMAN}"):
            assert answer_of(await post(client, message("ping", id_=id_)))["id"] == id_

    async def test_ignore_unknown_members(self, world: World):
        body = json.dumps({**json.loads(message("ping")), "extra": {"tenant": "globex"}}).encode()

        answer_of(await post(await client_of_acme(world), body))

    async def test_may_be_as_large_as_a_post(self, world: World):
        client = await client_of_acme(world)
        large = message("ping", {"text": "x" * 1_000_000})

        answer_of(await post(client, large))
        refused(await post(client, large + b" " * 50_000), 413)

    async def test_that_we_cannot_serve_are_logged_and_no_more(self, world: World, faults: Faults):
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("secret-canary")

        faults.before(posts, "page", fail)
        token = await world.mcp_token(world.acme)

        with everything_logged("json") as logged:
            client = client_of(app_over(world.services), x_mcp_token=token)
            said = answer_of(await post(client, call("list_posts")))["result"]

        [content] = said["content"]
        assert said["isError"] is True
        assert content["text"].startswith("Something went wrong on our side.")
        assert "RuntimeError" in logged.getvalue()
        assert "secret-canary" not in logged.getvalue() + content["text"]


class TestSdk:
    def test_is_not_imported_by_a_command_that_serves_nothing(self):
        """It would make every command a second slower."""
        looked = "import sys, tenantry.cli.main; print({'mcp', 'mcp_types'} & sys.modules.keys())"

        printed = subprocess.check_output([sys.executable, "-c", looked], encoding="utf-8")

        assert printed == "set()\n"


class TestAccessLog:
    async def test_has_the_path_and_no_argument(self, world: World):
        token = await world.mcp_token(world.acme)

        with everything_logged("json") as logged:
            client = client_of(app_over(world.services), x_mcp_token=token)
            await post(client, call("get_post", slug="argument-canary"))

        written = logged.getvalue()
        [entry] = [json.loads(line) for line in written.splitlines() if '"path"' in line]
        assert (entry["method"], entry["path"], entry["status"]) == ("POST", PATH, 200)
        assert entry["actor"].startswith("mcp-token:")
        assert "argument-canary" not in written
        assert token not in written


class TestSize:
    """The SDK reads parameters element by element, in the event loop."""

    @pytest.mark.parametrize(
        ("method", "where"),
        [
            ("initialize", ("clientInfo", "icons")),
            ("initialize", ("capabilities", "experimental")),
            ("tools/list", ("_meta", "io.modelcontextprotocol/clientInfo")),
            ("resources/read", ("arguments", "x")),
        ],
    )
    async def test_of_parameters_is_limited(
        self, world: World, method: str, where: tuple[str, str]
    ) -> None:
        """Whatever is in them, so that no message holds up the other tenants."""
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        large = message(method, {where[0]: {where[1]: [{}] * 230_000}})
        began = time.process_time()

        error = error_of(await post(client, large), types.INVALID_PARAMS)

        assert time.process_time() - began < SIZE_SECONDS_MAX
        assert "at most 32,768 bytes" in error

    @pytest.mark.parametrize(
        "where",
        [
            ("_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", "a"),
            ("inputResponses", "a", "content"),
        ],
    )
    @pytest.mark.parametrize("value", [DEEP, [{}] * 7_000], ids=["deep", "wide"])
    async def test_of_the_values_is_limited(
        self, world: World, where: tuple[str, ...], value: object
    ) -> None:
        """30 kB that are nested deeply cost the SDK seconds, and gigabytes."""
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        params: Any = {where[-1]: value}
        for name in reversed(where[:-1]):
            params = {name: params}
        meta = {"io.modelcontextprotocol/protocolVersion": NEWEST, **params.pop("_meta", {})}
        headers = {"mcp_protocol_version": NEWEST, "mcp_method": "tools/list"}
        body = message("tools/list", {"_meta": meta, **params})
        assert len(body) < 32_768
        began = time.process_time()

        said = await post(client, body, **headers)

        assert time.process_time() - began < SIZE_SECONDS_MAX
        assert "200 values" in said.json()["error"]["message"]

    @pytest.mark.parametrize("text", TEDIOUS, ids=["numbers", "lists"])
    async def test_is_checked_before_anything_is_decoded(self, world: World, text: bytes) -> None:
        """A megabyte of such JSON takes a second to decode, for each of the two types."""
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[%b]}}'
        call_ = b"""{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_post",
            "arguments":{"title":"a","content":"b","tags":[%b]}}}"""
        many = text * ((1_048_576 - len(call_)) // len(text)) + b"1"
        began = time.process_time()

        error = error_of(await post(client, body % many), types.INVALID_PARAMS)
        said = answer_of(await post(client, call_ % many))

        assert time.process_time() - began < SIZE_SECONDS_MAX
        assert "at most 32,768 bytes" in error
        assert said["result"]["isError"]

    async def test_of_a_number_is_limited_too(self, world: World) -> None:
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a": 1e999}}'

        assert "valid JSON" in error_of(await post(client, body), types.INVALID_PARAMS)

    async def test_of_arguments_is_not(self, world: World) -> None:
        """The longest post is written."""
        client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        said = await post(client, call("create_post", title="Long", content="x" * 900_000))

        assert answer_of(said)["result"]["structuredContent"]["slug"] == "long"
