"""The tools and resources of /mcp, as the SDK's own client sees them."""

import itertools
import json
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from mcp import MCPError

from tenantry.access.principal import ALL_SCOPES
from tenantry.mcp.tools import TOOLS
from testkit import raw_sql
from tests.acceptance.assistants import (
    BEFORE,
    NEWEST,
    assistant,
    connected,
    data_of,
    refusal_of,
)
from tests.acceptance.shapes import TENANT_USER_PROFILE, must_be
from tests.acceptance.sockets import served
from tests.acceptance.support import PROFILE as PROFILE_PATH
from tests.acceptance.support import database_of, ok, patch_tenant
from tests.conftest import World

TENANT_POSTS = "/api/tenant/blog/posts"
LONG = "x" * 30_000
READING = {"list_posts", "search_posts", "get_post"}
VERSIONS = {"list_versions", "get_version"}
WRITING = {"create_post", "update_post", "delete_post"}
PUBLISHING = {"publish_post", "unpublish_post"}
TEXTS = {"search_posts", "get_post", "get_version"}
EVERY = {"whoami", "list_modules", *READING, *VERSIONS, *WRITING, *PUBLISHING, "update_profile"}


def expected(scopes: frozenset[str], modules: frozenset[str], *, bound: bool) -> set[str]:
    """Return the expected tools."""
    tools = {"whoami"}
    tools |= {"list_modules"} if "modules:read" in scopes else set()
    tools |= {"update_profile"} if bound and "profile:write" in scopes else set()
    if "blog" in modules:
        tools |= READING if "content:read" in scopes else set()
        sees_drafts = scopes & {"content:draft", "content:publish", "content:write"}
        tools |= VERSIONS if "content:read" in scopes and sees_drafts else set()
        tools |= WRITING if scopes & {"content:draft", "content:write"} else set()
        tools |= PUBLISHING if scopes & {"content:publish", "content:write"} else set()
    return tools


async def use_everything(client: Any) -> None:
    """Call every tool once, and check that each result reflects the calls before."""
    assert data_of(await client.call_tool("whoami"))["customerName"] == "acme"
    modules = data_of(await client.call_tool("list_modules"))["items"]
    assert [one["key"] for one in modules] == ["blog", "mcp"]

    asked = {"title": "Årets første post", "content": "<b>Text</b>", "tags": ["News"]}
    draft = data_of(await client.call_tool("create_post", asked))
    slug = draft["slug"]
    assert (draft["title"], draft["content"], draft["publishedAt"]) == (
        asked["title"],
        asked["content"],
        None,
    )
    changed = {"slug": slug, "new_slug": "first", "content": "Other text", "excerpt": "E"}
    assert data_of(await client.call_tool("update_post", changed))["slug"] == "first"
    assert data_of(await client.call_tool("publish_post", {"slug": "first"}))["publishedAt"]
    searched = data_of(await client.call_tool("search_posts", {"query": "ÅRETS"}))
    assert [one["slug"] for one in searched["items"]] == ["first"]
    found = data_of(await client.call_tool("get_post", {"slug": "FIRST"}))
    assert (found["title"], found["content"], found["excerpt"]) == (
        asked["title"],
        "Other text",
        "E",
    )
    published = {"status": "published", "tag": "news", "page_size": 1}
    listed = data_of(await client.call_tool("list_posts", published))
    assert [one["slug"] for one in listed["items"]] == ["first"]
    assert (listed["page"], listed["pageSize"], listed["totalCount"]) == (1, 1, 2)
    beyond = data_of(await client.call_tool("list_posts", {"page": 10**30, "page_size": 10**30}))
    assert (beyond["items"], beyond["page"], beyond["pageSize"]) == ([], 2**31 - 1, 100)
    versions = data_of(await client.call_tool("list_versions", {"slug": "first"}))["items"]
    assert [one["number"] for one in versions] == [2, 1]
    number = {"slug": "first", "number": 1, "max_chars": 4}
    assert data_of(await client.call_tool("get_version", number))["content"] == "<b>T"
    renamed = {"slug": "first", "title": "Årets andre post"}
    assert data_of(await client.call_tool("update_post", renamed))["content"] == "Other text"
    for query, slugs in {"ANDRE": ["first"], "other TEXT": ["first"], "<b>": []}.items():
        searched = data_of(await client.call_tool("search_posts", {"query": query}))
        assert [one["slug"] for one in searched["items"]] == slugs, query
    assert not data_of(await client.call_tool("unpublish_post", {"slug": "first"}))["publishedAt"]
    assert data_of(await client.call_tool("delete_post", {"slug": "first"})).keys() == {"message"}
    refusal_of(await client.call_tool("get_post", {"slug": "first"}))
    profile = {"full_name": "Grace", "email": "grace@acme.example.com"}
    must_be(data_of(await client.call_tool("update_profile", profile)), TENANT_USER_PROFILE)


class TestTools:
    @pytest.mark.slow
    async def test_all_work_over_a_socket_in_each_revision(self, world: World):
        """The SDK's own client lists and calls every tool with one token."""
        async with served(world.app) as server:
            for revision in (NEWEST, BEFORE):
                token = await world.mcp_token(world.acme)
                url = f"http://{server.host}:{server.port}/mcp"
                async with connected(url, revision, x_mcp_token=token) as client:
                    assert {one.name for one in (await client.list_tools()).tools} == EVERY
                    await use_everything(client)

    @pytest.mark.slow
    async def test_are_listed_as_scopes_modules_and_the_user_allow(self, world: World):
        """Each scope alone, and all others, with the blog and without, bound to a user or not."""
        some = [
            frozenset(one)
            for count in (1, len(ALL_SCOPES) - 1, len(ALL_SCOPES))
            for one in itertools.combinations(sorted(ALL_SCOPES), count)
        ]
        for modules in (frozenset({"blog", "mcp"}), frozenset({"mcp"})):
            await patch_tenant(world, world.acme, modules=sorted(modules))
            for scopes, bound in itertools.product(some, (True, False)):
                token = await world.mcp_token(world.acme, *scopes, bound=bound)
                async with assistant(world, token) as client:
                    listed = {one.name for one in (await client.list_tools()).tools}

                assert listed == expected(scopes, modules, bound=bound), (scopes, modules, bound)

    @pytest.mark.parametrize(
        ("scopes", "are_listed"),
        [
            ("content:read", False),
            ("content:draft", False),
            ("content:publish", False),
            ("content:read content:draft", True),
            ("content:read content:publish", True),
        ],
    )
    async def test_of_versions_are_for_those_who_read_drafts(
        self, world: World, scopes: str, *, are_listed: bool
    ):
        """As over HTTP."""
        token = await world.mcp_token(world.acme, *scopes.split())
        async with assistant(world, token) as client:
            listed = {one.name for one in (await client.list_tools()).tools}

        assert (listed & VERSIONS == VERSIONS, bool(listed & VERSIONS)) == (are_listed, are_listed)

    async def test_that_are_not_listed_do_not_exist(self, world: World):
        """A tool that the token may not use gets the response of one that does not exist."""
        async with assistant(world, await world.mcp_token(world.acme, "modules:read")) as client:
            said = set()
            for name in (*sorted(EVERY - {"whoami", "list_modules"}), "nonsense"):
                with pytest.raises(MCPError) as refused:
                    await client.call_tool(name, {"slug": "hello-from-acme"})
                assert refused.value.code == types.INVALID_PARAMS
                said.add(refused.value.message)

        assert len(said) == 1

    async def test_name_the_tenant_and_the_user_that_they_act_for(self, world: World):
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}

        for tool in tools.values():
            assert tool.title
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.open_world_hint is False
            assert (tool.output_schema is None) == (tool.name in TEXTS)
            for schema in (tool.input_schema, tool.output_schema or tool.input_schema):
                assert schema["type"] == "object"
                jsonschema.Draft202012Validator.check_schema(schema)
            for argument in tool.input_schema["properties"].values():
                assert argument["description"]
            assert not {"tenant", "tenant_id", "customer"} & tool.input_schema["properties"].keys()
        reads = {name for name, one in tools.items() if one.annotations.read_only_hint}
        destroys = {name for name, one in tools.items() if one.annotations.destructive_hint}
        assert reads == {"whoami", "list_modules", *READING, *VERSIONS}
        assert destroys == {"update_post", "delete_post", "update_profile"}

    async def test_return_what_their_schemas_declare(self, world: World):
        """Each result is as the schema of its tool says, the members of the HTTP API."""
        owner = await world.owner(world.acme)
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            schemas = {one.name: one.output_schema for one in (await client.list_tools()).tools}
            for name, arguments, path in (
                ("whoami", {}, None),
                ("list_modules", {}, "/api/tenant/modules"),
                ("list_posts", {}, TENANT_POSTS),
                ("search_posts", {"query": "hello"}, f"{TENANT_POSTS}?search=hello"),
                ("get_post", {"slug": "hello-from-acme"}, None),
            ):
                data = data_of(await client.call_tool(name, arguments))
                if name not in TEXTS:
                    jsonschema.validate(data, schemas[name])
                if path is not None:
                    assert data == ok(await owner.get(path))
            [listed] = ok(await owner.get(TENANT_POSTS))["items"]
            post = ok(await owner.get(f"{TENANT_POSTS}/{listed['id']}"))
            part = {"contentChars": len(post["content"]), "nextOffset": None}
            found = data_of(await client.call_tool("get_post", {"slug": listed["slug"]}))
            assert found == {**post, **part}

    async def test_return_a_long_text_once_and_in_parts(self, world: World):
        """By default 20,000 characters; what writes does not return the rest at all."""
        text = "".join(f"{number:07}," for number in range(100_000))
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            made = await client.call_tool("create_post", {"title": "Long", "content": text})
            first = await client.call_tool("get_post", {"slug": "long"})
            parts, offset = [], 0
            while offset is not None:
                asked = {"slug": "long", "max_chars": 10**30, "offset": offset}
                part = data_of(await client.call_tool("get_post", asked))
                parts.append(part["content"])
                offset = part["nextOffset"]
            beyond = {"slug": "long", "offset": 10**30}
            ended = data_of(await client.call_tool("get_post", beyond))
            searched = {"query": "long", "max_chars": 5}
            [found] = data_of(await client.call_tool("search_posts", searched))["items"]

        assert data_of(made)["content"] == text[:20_000]
        assert first.structured_content is None
        assert (data_of(first)["contentChars"], data_of(first)["nextOffset"]) == (800_000, 20_000)
        assert len(first.model_dump_json()) < 25_000
        assert ([len(one) for one in parts], "".join(parts)) == ([200_000] * 4, text)
        assert (ended["content"], ended["nextOffset"]) == ("", None)
        assert found["excerpt"] == text[:5]

    async def test_name_the_argument_and_the_rule(self, world: World):
        hello = {"slug": "hello-from-acme"}
        wrong: tuple[tuple[str, dict[str, Any], str], ...] = (
            ("get_post", {}, "`slug`"),
            ("get_post", {"slug": 1}, "`slug`"),
            ("get_post", {"slug": None}, "`slug`"),
            ("get_post", {"slug": "a\0b"}, "`slug`"),
            ("get_post", {**hello, "tenant": "globex"}, "`tenant`"),
            ("get_post", {"slug": "x" * 100_000}, "no such post"),
            ("list_posts", {"page": 0}, "`page`"),
            ("list_posts", {"page_size": "many"}, "`page_size`"),
            ("list_posts", {"status": "lost"}, "`status`"),
            ("list_posts", {"tag": "\0"}, "`tag`"),
            ("search_posts", {"query": "  "}, "`query`"),
            ("search_posts", {"query": "x" * 1000}, "`query`"),
            ("create_post", {"title": "", "content": ""}, "`title`"),
            ("create_post", {"title": "a", "content": "a\0"}, "`content`"),
            ("create_post", {"title": "a", "content": "", "tags": ["x" * 100]}, "`tags`"),
            ("create_post", {"title": "a", "content": "", "tags": [1]}, "`tags"),
            ("create_post", {"title": "a", "content": "", "slug": "a b"}, "`slug`"),
            ("create_post", {"title": "a", "content": "", **hello}, "slug"),
            ("update_post", {"title": "a"}, "`slug`"),
            ("update_post", {**hello, "new_slug": "-"}, "`new_slug`"),
            ("update_profile", {"full_name": "", "email": "a@example.com"}, "`full_name`"),
            ("update_profile", {"full_name": "A", "email": "nobody"}, "mail"),
            ("delete_post", {"slug": "hello-from-globex"}, "no such post"),
        )
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            for name, arguments, word in wrong:
                said = refusal_of(await client.call_tool(name, arguments))

                assert word in said, (name, arguments, said)
                assert len(said) < 300

    async def test_hide_drafts_from_those_who_do_not_write(self, world: World):
        owner = await world.owner(world.acme)
        await owner.post(TENANT_POSTS, json={"title": "Draft", "content": "secret draft"})
        reader = await world.mcp_token(world.acme, "content:read")
        writer = await world.mcp_token(world.acme, "content:read", "content:write")

        for token, seen in ((reader, ["hello-from-acme"]), (writer, ["draft", "hello-from-acme"])):
            async with assistant(world, token) as client:
                listed = data_of(await client.call_tool("list_posts"))
                drafts = data_of(await client.call_tool("list_posts", {"status": "draft"}))
                found = data_of(await client.call_tool("search_posts", {"query": "e"}))
                got = await client.call_tool("get_post", {"slug": "draft"})
                resources = (await client.list_resources()).resources

            assert [one["slug"] for one in listed["items"]] == seen
            assert [one["slug"] for one in found["items"]] == seen
            assert [one["slug"] for one in drafts["items"]] == seen[:-1]
            assert [one.name for one in resources[1:]] == seen
            assert got.is_error == (len(seen) == 1)

    async def test_act_as_the_user_of_the_token(self, world: World):
        owner = await world.owner(world.acme)
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            me = data_of(await client.call_tool("whoami"))["user"]
            post = data_of(await client.call_tool("create_post", {"title": "Mine", "content": "x"}))
            profile = {"full_name": "Renamed", "email": "renamed@acme.example.com"}
            renamed = data_of(await client.call_tool("update_profile", profile))

        assert me["id"] == str(world.acme.owner.id)
        assert post["authorName"] == world.acme.owner.full_name
        assert ok(await owner.get(PROFILE_PATH)) == renamed

    async def test_act_without_a_user_with_an_unbound_token(self, world: World):
        async with assistant(world, await world.mcp_token(world.acme, bound=False)) as client:
            me = data_of(await client.call_tool("whoami"))
            post = data_of(await client.call_tool("create_post", {"title": "a", "content": "x"}))

        assert me["user"] is None
        assert post["authorName"] == ""

    async def test_repeat_little_of_a_long_argument(self, world: World):
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            for tool, arguments in (
                ("whoami", {LONG: 1}),
                ("get_post", {"slug": "hello", LONG: 1}),
                ("list_posts", {"status": LONG}),
                ("list_posts", {"tag": LONG}),
                ("search_posts", {"query": LONG}),
                ("update_profile", {"full_name": LONG, "email": LONG}),
            ):
                assert len(refusal_of(await client.call_tool(tool, arguments))) < 300

    async def test_hide_the_profile_without_its_scope(self, world: World):
        async with assistant(world, await world.mcp_token(world.acme, "content:read")) as client:
            me = data_of(await client.call_tool("whoami"))

        assert (me["user"], me["scopes"]) == (None, ["content:read"])

    async def test_are_in_the_audit_log_when_they_write(self, world: World):
        admin, token = await world.admin(), await world.mcp_token(world.acme)
        async with assistant(world, token) as client:
            await use_everything(client)

        path = f"/api/admin/tenants/{world.acme.tenant.id}/audit-log"
        listed = ok(await admin.get(f"{path}?pageSize=100"))["items"]
        noted = [one for one in listed if one["actor"].startswith("mcp-token:")]
        assert [one["action"] for one in reversed(noted)] == [
            "post.create",
            "post.update",
            "post.publish",
            "post.update",
            "post.unpublish",
            "post.delete",
            "profile.update",
        ]
        assert len({one["actor"] for one in noted}) == 1
        [email] = [one for one in noted[0]["changes"] if one["field"] == "email"]
        assert email["old"] == world.acme.owner.email != email["new"]
        assert "content" in {one["field"] for one in noted[-1]["changes"]}
        assert all(
            set(one) == {"field"} for one in noted[-1]["changes"] if one["field"] == "content"
        )

    def test_are_the_documented_ones(self):
        assert [tool.name for tool in TOOLS] == [
            "whoami",
            "list_modules",
            "list_posts",
            "search_posts",
            "get_post",
            "list_versions",
            "get_version",
            "create_post",
            "update_post",
            "publish_post",
            "unpublish_post",
            "delete_post",
            "update_profile",
        ]


class TestResources:
    async def test_are_the_posts_and_their_schema(self, world: World):
        owner = await world.owner(world.acme)
        title = "\N{CJK UNIFIED IDEOGRAPH-7070}\N{CJK UNIFIED IDEOGRAPH-91C9}"
        ok(await owner.post(TENANT_POSTS, json={"title": title, "content": "x"}), 201)

        async with assistant(world, await world.mcp_token(world.acme)) as client:
            [template] = (await client.list_resource_templates()).resource_templates
            schema, first, second = (await client.list_resources()).resources
            read = [await client.read_resource(one.uri) for one in (schema, first, second)]

        assert template.uri_template == "tenantry://posts/{slug}"
        assert (first.title, second.title) == (title, "Hello from acme")
        assert first.uri.isascii()
        schema_text, post, _ = (json.loads(one.contents[0].text) for one in read)
        jsonschema.validate(post, schema_text)
        assert (post["title"], post["content"]) == (title, "x")

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_name_an_outage(self, world: World):
        """It is no fault in the program: the client may try again."""
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            await client.list_resources()
            with raw_sql.connected(database_of(world, world.acme.tenant).url) as query:
                query("BEGIN")
                query("LOCK TABLE tenantry_post")
                with pytest.raises(MCPError, match="Try again in"):
                    await client.list_resources()

    async def test_come_in_pages(self, world: World):
        owner = await world.owner(world.acme)
        for number in range(60):
            await owner.post(TENANT_POSTS, json={"title": f"Post {number}", "content": "x"})

        async with assistant(world, await world.mcp_token(world.acme)) as client:
            first = await client.list_resources()
            second = await client.list_resources(cursor=first.next_cursor)
            for cursor in ("x", "-1", "9" * 30, ""):
                with pytest.raises(MCPError, match="cursor"):
                    await client.list_resources(cursor=cursor)

        uris = [one.uri for page in (first, second) for one in page.resources]
        assert (len(uris), len(set(uris))) == (62, 62)
        assert second.next_cursor is None

    async def test_are_empty_without_the_scope_or_the_module(self, world: World):
        reading = await world.mcp_token(world.acme, "content:read")
        other = await world.mcp_token(world.acme, "modules:read")
        await patch_tenant(world, world.globex, modules=["mcp"])
        blogless = await world.mcp_token(world.globex)

        for token, count in ((reading, 2), (other, 0), (blogless, 0)):
            async with assistant(world, token) as client:
                assert len((await client.list_resources()).resources) == count
                templates = (await client.list_resource_templates()).resource_templates
                assert len(templates) == (1 if count else 0)
                for uri in ("tenantry://schemas/post", "tenantry://posts/hello-from-acme"):
                    if count == 0:
                        with pytest.raises(MCPError, match="Unknown resource"):
                            await client.read_resource(uri)

    async def test_that_do_not_exist_are_refused(self, world: World):
        async with assistant(world, await world.mcp_token(world.acme)) as client:
            for uri in (
                "tenantry://posts/",
                "tenantry://posts/hello-from-globex",
                "tenantry://posts/%00",
                "tenantry://posts/%ff",
                "tenantry://users/1",
                "https://example.com/",
                "nonsense",
                "tenantry://posts/" + "x" * 5_000,
            ):
                with pytest.raises(MCPError, match="Unknown resource"):
                    await client.read_resource(uri)
