"""/api/tenant/blog/posts: writing and reading posts."""
# ruff: noqa: RUF001 - they write in several scripts

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.shapes import OWN_POST, OWN_POST_SUMMARY, instant, must_be, page_of
from tests.acceptance.support import (
    OWN_POSTS,
    POSTS,
    UNKNOWN_ID,
    catalog_of,
    database_of,
    done,
    encoded,
    ok,
    patch_tenant,
    refused,
)
from tests.conftest import World

HELLO = "Hello from acme"
MARKUP = "<script>alert('1 < 2 & 3')</script>\r\n\t<b>\u00fcber</b> \U0001f3a3 \u2028"


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


def paths_of(post: Any) -> list[tuple[str, str]]:
    """Return every endpoint, for one post."""
    one = f"{OWN_POSTS}/{post['id']}"
    return [
        ("GET", OWN_POSTS),
        ("POST", OWN_POSTS),
        ("GET", one),
        ("PUT", one),
        ("POST", f"{one}/publish"),
        ("POST", f"{one}/unpublish"),
        ("DELETE", one),
    ]


def counts_of(blog: Blog) -> list[tuple[int, int]]:
    """Return the counts of posts and of published ones, which must be right, those of tags too."""
    raw = database_of(blog.world, blog.world.acme.tenant)
    counted = raw.run("SELECT count(*), count(published_at) FROM tenantry_post")
    assert raw.run("SELECT post_count, published_count FROM tenantry_blog_state") == counted
    by_tag = raw.run(
        "SELECT t.tag, count(*), count(p.published_at) FROM tenantry_post_tag t"
        " JOIN tenantry_post p ON p.id = t.post_id GROUP BY t.tag ORDER BY t.tag"
    )
    assert raw.run("SELECT * FROM tenantry_tag ORDER BY tag") == by_tag
    return [(posts, published) for posts, published in counted]


class TestCreate:
    async def test_writes_a_draft(self, blog: Blog) -> None:
        """201 with the whole post; only writers see it."""
        draft = await blog.write("Spring is here", tags=["news"])

        must_be(draft, OWN_POST)
        assert draft["slug"] == "spring-is-here"
        assert draft["publishedAt"] is None
        assert draft["createdAt"] == draft["updatedAt"]
        assert draft["authorName"] == "Owner acme-canary"
        assert ok(await blog.owner.get(f"{OWN_POSTS}/{draft['id']}")) == draft
        assert await blog.titles() == ["Spring is here", HELLO]
        assert await blog.public_titles() == [HELLO]
        assert await blog.public_titles(tag="news") == [HELLO]
        refused(await blog.public.get(f"{POSTS}/spring-is-here"), 404)

    async def test_keeps_what_was_typed(self, blog: Blog) -> None:
        """Markup is plain text: it is not escaped, cleaned or trimmed."""
        draft = await blog.write("<b>Fish & \u00dc</b>", MARKUP, excerpt="<i>Fish</i>")

        shown = ok(await blog.owner.get(f"{OWN_POSTS}/{draft['id']}"))

        assert shown["title"] == "<b>Fish & \u00dc</b>"
        assert shown["content"] == MARKUP
        assert shown["excerpt"] == "<i>Fish</i>"

    async def test_makes_an_excerpt(self, blog: Blog) -> None:
        """By default: the beginning of the content on one line, cut between words."""
        short = await blog.write("Short", "  One\n\ntwo  three ")
        blank = await blog.write("Blank", "Four", excerpt=" \n")
        long = await blog.write("Long", "word " * 200)
        unparted = await blog.write("Unparted", "\u7070" * 300)
        empty = await blog.write("Empty", "")

        assert [short["excerpt"], blank["excerpt"], empty["excerpt"]] == [
            "One two three",
            "Four",
            "",
        ]
        assert long["excerpt"] == ("word " * 40).strip() + "\u2026"
        assert unparted["excerpt"] == "\u7070" * 200 + "\u2026"

    async def test_makes_a_slug_that_is_free(self, blog: Blog) -> None:
        """Of any script; the next one of the same title has a number."""
        titles = {
            "Pastéis de nata, every Friday!": "pastéis-de-nata-every-friday",
            "Don't panic": "dont-panic",
            "灰釉の作り方": "灰釉の作り方",
            "हिन्दी में लिखें": "हिन्दी-में-लिखें",
            "Ｆｕｌｌ　ｗｉｄｔｈ": "full-width",
            "  --Trimmed--  ": "trimmed",
            "☕️ 🎉": "post",
            "x" * 200: "x" * 200,
        }

        for title, slug in titles.items():
            made = [(await blog.publish(title))["slug"] for _ in range(3)]

            assert made == [slug, f"{slug[:198]}-2", f"{slug[:198]}-3"]
            for one in made:
                assert ok(await blog.public.get(f"{POSTS}/{one}"))["title"] == title

    async def test_finds_a_slug_when_many_are_taken(self, blog: Blog) -> None:
        """After some numbers it takes a random suffix, so the number of tries is bounded."""
        slugs = [(await blog.write("News"))["slug"] for _ in range(23)]

        assert slugs[:20] == ["news", *(f"news-{number}" for number in range(2, 21))]
        assert len(set(slugs)) == 23
        assert all(slug.startswith("news-") and len(slug) > 10 for slug in slugs[20:])

    async def test_takes_the_slug_that_is_given(self, blog: Blog) -> None:
        """In lower case, and once in a tenant: the second is 409."""
        assert (await blog.write("One", slug="Über-Uns"))["slug"] == "über-uns"

        for taken in ("über-uns", "ÜBER-UNS", "U\u0308ber-uns", "hello-from-acme"):
            body = {"title": "Two", "content": "", "slug": taken}
            refused(await blog.owner.post(OWN_POSTS, json=body), 409)
        assert await blog.titles() == ["One", HELLO]
        other = await blog.owner_of(blog.world.globex)
        body = {"title": "Theirs", "content": "", "slug": "über-uns"}
        ok(await other.post(OWN_POSTS, json=body), 201)

    async def test_gives_a_slug_to_one_alone(self, blog: Blog) -> None:
        """Of many who want it at once, one has it and the others 409; a title has room for all."""
        body = {"title": "Race", "content": "", "slug": "wanted"}
        answers = await asyncio.gather(*(blog.owner.post(OWN_POSTS, json=body) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [201, *[409] * 7]

        same = await asyncio.gather(*(blog.write("The same") for _ in range(8)))
        numbered = {f"the-same-{number}" for number in range(2, 9)}
        assert {post["slug"] for post in same} == {"the-same", *numbered}

    async def test_keeps_each_tag_once(self, blog: Blog) -> None:
        """Those that mean the same are one, as it was typed first; the order stays."""
        tags = ["News", "\u00dcber uns", " news ", "U\u0308BER UNS", "b", "NEWS", "a"]

        assert (await blog.write("Tagged", tags=tags))["tags"] == [
            "News",
            "\u00dcber uns",
            "b",
            "a",
        ]
        assert await blog.titles(tag="\u00fcber uns") == ["Tagged"]

    async def test_names_the_author(self, blog: Blog) -> None:
        """The user of the session or of the token; empty for an unbound token."""
        body = {"title": "By a token", "content": "Text"}
        bound = await blog.token("content:write")
        unbound = await blog.token("content:write", bound=False)

        names = [
            ok(await client.post(OWN_POSTS, json=body), 201)["authorName"]
            for client in (blog.owner, bound, unbound)
        ]

        assert names == ["Owner acme-canary", "Owner acme-canary", ""]

    async def test_refuses_what_breaks_a_rule(self, blog: Blog) -> None:
        """400 that names the member, and nothing is written."""
        for member, values in {
            "title": ["", " ", "x" * 201, "a\nb", "a\x00b", "\ud800", 1, None],
            "content": ["x" * 1_000_001, "a\x00b", "\udfff", None, ["a"]],
            "slug": [
                "",
                "-",
                "a b",
                "a--b",
                "-a",
                "a/b",
                "a_b",
                "x" * 201,
                "\ud800",
                "a\x00",
                None,
            ],
            "excerpt": ["x" * 501, "a\x00b", None],
            "tags": ["news", [""], [" "], ["a\nb"], ["x" * 51], [1], [None], ["a"] * 21, None],
        }.items():
            for value in values:
                body = {"title": "Bad", "content": "", member: value}
                answer = await blog.owner.post(OWN_POSTS, content=encoded(body))
                message = refused(answer, 400)
                assert member in message or "\\ud" in repr(value), (member, value, message)
        refused(await blog.owner.post(OWN_POSTS, json={"title": "No content"}), 400)
        assert await blog.titles() == [HELLO]

    async def test_takes_a_long_content(self, blog: Blog) -> None:
        """A body may have 1 MiB here."""
        content = "\u00fc" * 520_000

        long = await blog.publish("Long", content)

        assert ok(await blog.public.get(f"{POSTS}/{long['slug']}"))["content"] == content
        body = {"title": "Too long", "content": "\u7070" * 350_000}
        refused(await blog.owner.post(OWN_POSTS, json=body), 413)


class TestList:
    async def test_narrows_by_status_and_tag(self, blog: Blog) -> None:
        """Drafts, published ones or both, each list counted and the newest first."""
        for number in range(3):
            await blog.write(f"Draft {number}", tags=["x", "drafts"])
            await blog.publish(f"Post {number}", tags=["X"])
        drafts, published = ["Draft 2", "Draft 1", "Draft 0"], ["Post 2", "Post 1", "Post 0"]
        both = ["Post 2", "Draft 2", "Post 1", "Draft 1", "Post 0", "Draft 0"]

        must_be(ok(await blog.owner.get(OWN_POSTS)), page_of(OWN_POST_SUMMARY))
        assert await blog.titles() == await blog.titles(status="all") == [*both, HELLO]
        assert await blog.titles(status="draft") == drafts
        assert await blog.titles(status="published") == [*published, HELLO]
        assert await blog.titles(tag="x") == both
        assert await blog.titles(tag="x", status="draft") == drafts
        assert await blog.titles(tag="x", status="published") == published
        assert await blog.titles(tag="drafts", status="published") == []
        assert await blog.titles(tag="nobody has it") == []
        assert await blog.public_titles(tag="X") == published
        page = ok(await blog.owner.get(OWN_POSTS, params={"page": 3, "pageSize": 2, "tag": "x"}))
        assert [post["title"] for post in page["items"]] == ["Post 0", "Draft 0"]
        assert (page["totalCount"], page["totalPages"]) == (6, 3)
        beyond = ok(await blog.owner.get(OWN_POSTS, params={"page": 9, "status": "draft"}))
        assert (beyond["items"], beyond["totalCount"]) == ([], 3)

    async def test_orders_published_ones_by_publication(self, blog: Blog) -> None:
        """The latest published post is first, whenever it was written."""
        first, second = await blog.write("First"), await blog.write("Second")

        for post in (second, first):
            ok(await blog.owner.post(f"{OWN_POSTS}/{post['id']}/publish"))

        assert await blog.titles(status="published") == ["First", "Second", HELLO]
        assert await blog.public_titles() == ["First", "Second", HELLO]
        assert await blog.titles() == ["Second", "First", HELLO]

    async def test_searches_title_and_content(self, blog: Blog) -> None:
        """In any case and script, across line breaks; special characters match themselves."""
        await blog.publish("Große ÜBERRASCHUNG", "100% pure_gold\\n")
        await blog.write("Το πρώτο ΛΑΔΙ", "Ο ΔΡΟΜΟΣ\n\t ΕΙΝΑΙ μακρύς")
        await blog.write("ﬁne ＷＩＤＥ", "İstanbul 'quoted' \"too\" -- ; % [a-z] *")

        for search, found in {
            "überraschung": ["Große ÜBERRASCHUNG"],
            "U\u0308BERRASCH": ["Große ÜBERRASCHUNG"],
            "GROSSE": ["Große ÜBERRASCHUNG"],
            "100%": ["Große ÜBERRASCHUNG"],
            "0% PURE_G": ["Große ÜBERRASCHUNG"],
            "%": ["ﬁne ＷＩＤＥ", "Große ÜBERRASCHUNG"],
            "e_g": ["Große ÜBERRASCHUNG"],
            "_": ["Große ÜBERRASCHUNG"],
            "\\": ["Große ÜBERRASCHUNG"],
            "\\n": ["Große ÜBERRASCHUNG"],
            "λάδι": [],
            "λαδι": ["Το πρώτο ΛΑΔΙ"],
            "δρομοσ  ειναι": ["Το πρώτο ΛΑΔΙ"],
            "δρόμος": [],
            "λαδι ο": [],
            "fine wide": ["ﬁne ＷＩＤＥ"],
            "'QUOTED' \"": ["ﬁne ＷＩＤＥ"],
            "[a-z]": ["ﬁne ＷＩＤＥ"],
            "nothing": [],
            "CANARY": [HELLO],
        }.items():
            assert await blog.titles(search=search) == found, search
        assert await blog.titles(search="wide", status="published") == []
        assert await blog.titles(search="a", tag="news") == [HELLO]
        page = ok(await blog.owner.get(OWN_POSTS, params={"search": "e", "page": 2, "pageSize": 1}))
        assert (len(page["items"]), page["totalCount"]) == (1, 3)

    async def test_finds_the_current_text(self, blog: Blog) -> None:
        """A change is found at once, and the old text is not."""
        post = await blog.write("Before", "An old text")

        await blog.change(post, title="After", content="A new text")

        assert await blog.titles(search="before") == await blog.titles(search="old") == []
        assert await blog.titles(search="after") == await blog.titles(search="NEW") == ["After"]

    async def test_refuses_a_bad_query(self, blog: Blog) -> None:
        """400 that names the parameter."""
        for query in (
            "status=",
            "status=Draft",
            "status=none",
            "status=all&status=draft",
            "search=",
            "search=%20",
            "search=%00",
            "search=%ff",
            f"search={'x' * 201}",
            f"tag={'x' * 51}",
            "tag=%00",
            "page=0",
            "pageSize=x",
        ):
            message = refused(await blog.owner.get(f"{OWN_POSTS}?{query}"), 400)
            assert query.partition("=")[0] in message or "%ff" in query


class TestUpdate:
    async def test_replaces_title_and_content(self, blog: Blog) -> None:
        """What is left out of the rest stays, but for an excerpt that was made."""
        post = await blog.publish("Before", "Old text", tags=["a", "b"])
        own = await blog.write("Own", "Old text", slug="own", excerpt="Mine")

        after = await blog.change(post, title="After", content="New text")
        kept = await blog.change(own, title="Kept", content="New text")

        changed = {"title": "After", "content": "New text", "excerpt": "New text", "version": 2}
        assert after == {**post, **changed, "updatedAt": after["updatedAt"]}
        assert instant(after["updatedAt"]) > instant(post["updatedAt"])
        assert ok(await blog.public.get(f"{POSTS}/before"))["content"] == "New text"
        assert (kept["slug"], kept["excerpt"]) == ("own", "Mine")
        assert (await blog.change(kept, excerpt=""))["excerpt"] == "New text"

    async def test_replaces_what_is_given(self, blog: Blog) -> None:
        """Slug, excerpt and tags too; the old values find nothing."""
        post = await blog.publish("Post", tags=["a", "b"])

        after = await blog.change(post, slug="other", excerpt="Short", tags=["b", "c"])

        assert (after["slug"], after["excerpt"], after["tags"]) == ("other", "Short", ["b", "c"])
        refused(await blog.public.get(f"{POSTS}/post"), 404)
        assert ok(await blog.public.get(f"{POSTS}/other"))["excerpt"] == "Short"
        for tag, found in {"a": [], "b": ["Post"], "c": ["Post"]}.items():
            assert await blog.titles(tag=tag) == await blog.public_titles(tag=tag) == found
        assert (await blog.change(after, tags=[]))["tags"] == []
        assert await blog.titles(tag="b") == await blog.public_titles(tag="b") == []

    async def test_refuses_a_slug_that_is_taken(self, blog: Blog) -> None:
        """409, and the post is as it was; its own slug is no conflict."""
        post = await blog.write("Post")

        body = {"title": "Changed", "content": "Changed", "slug": "hello-from-acme"}
        refused(await blog.owner.put(f"{OWN_POSTS}/{post['id']}", json=body), 409)

        assert ok(await blog.owner.get(f"{OWN_POSTS}/{post['id']}")) == post
        assert (await blog.change(post, slug="POST"))["slug"] == "post"

    async def test_refuses_what_breaks_a_rule_before_it_reads_the_post(self, blog: Blog) -> None:
        """400 for a bad body even if there is no such post; 404 for a good one."""
        path = f"{OWN_POSTS}/{UNKNOWN_ID}"

        refused(await blog.owner.put(path, json={"title": "", "content": ""}), 400)
        refused(await blog.owner.put(path, json={"title": "A", "content": ""}), 404)


class TestPublish:
    async def test_shows_a_post_and_hides_it_again(self, blog: Blog) -> None:
        """A second time it changes nothing; after a draft it is published again."""
        draft = await blog.write("Post", tags=["a"])
        path = f"{OWN_POSTS}/{draft['id']}"

        published = ok(await blog.owner.post(f"{path}/publish"))
        must_be(published, OWN_POST)
        assert published["publishedAt"] == published["updatedAt"] > draft["updatedAt"]
        assert ok(await blog.owner.post(f"{path}/publish")) == published
        assert await blog.public_titles(tag="a") == ["Post"]

        hidden = ok(await blog.owner.post(f"{path}/unpublish"))
        assert hidden == {**published, "publishedAt": None, "updatedAt": hidden["updatedAt"]}
        assert ok(await blog.owner.post(f"{path}/unpublish")) == hidden
        assert await blog.public_titles() == [HELLO]
        assert await blog.public_titles(tag="a") == []
        refused(await blog.public.get(f"{POSTS}/post"), 404)

        again = ok(await blog.owner.post(f"{path}/publish"))
        assert again["publishedAt"] > published["publishedAt"]


class TestDelete:
    async def test_leaves_nothing(self, blog: Blog) -> None:
        """The post and its tags are gone; its slug is free."""
        post = await blog.publish("Post", tags=["a"])

        assert await blog.delete(post)

        for method, path in paths_of(post)[2:]:
            body = {"title": "A", "content": "B"}
            refused(await blog.owner.request(method, path, json=body), 404)
        refused(await blog.public.get(f"{POSTS}/post"), 404)
        assert await blog.titles(tag="a") == await blog.public_titles(tag="a") == []
        assert await blog.titles() == [HELLO]
        raw = database_of(blog.world, blog.world.acme.tenant)
        assert raw.run("SELECT count(*) FROM tenantry_tag WHERE tag = 'a'") == [(0,)]
        assert (await blog.write("Post"))["slug"] == "post"


class TestCounts:
    @pytest.mark.slow
    async def test_are_right_after_many_writers(self, blog: Blog) -> None:
        """However many clients write at the same time, no count and no tag is lost."""

        async def live(number: int) -> None:
            post = await blog.write(f"Post {number}", tags=["all", f"t{number % 3}"])
            path = f"{OWN_POSTS}/{post['id']}"
            for _ in range(number % 3):
                await blog.owner.post(f"{path}/publish")
                await blog.change(post, tags=["all", "changed"])
                await blog.owner.post(f"{path}/unpublish")
            if number % 2:
                await blog.owner.post(f"{path}/publish")
            if number % 5 == 0:
                await blog.delete(post)

        await asyncio.gather(*(live(number) for number in range(20)))

        assert counts_of(blog) == [(17, 9)]
        assert len(await blog.titles(tag="all")) == 16
        assert len(await blog.public_titles(tag="all")) == 8

    async def test_are_right_after_a_race_for_one_post(self, blog: Blog) -> None:
        """Publishing, hiding, changing and deleting one post are serialised."""
        for _ in range(4):
            path = f"{OWN_POSTS}/{(await blog.write('Post', tags=['a']))['id']}"
            body = {"title": "Post", "content": "", "tags": ["b", "c"]}
            deed = [
                blog.owner.post(f"{path}/publish"),
                blog.owner.post(f"{path}/publish"),
                blog.owner.put(path, json=body),
                blog.owner.post(f"{path}/unpublish"),
                blog.owner.put(path, json={**body, "tags": ["a", "b"]}),
                blog.owner.post(f"{path}/publish"),
                blog.owner.post(f"{path}/unpublish"),
                blog.owner.post(f"{path}/publish"),
            ]

            answers = await asyncio.gather(*deed)

            assert {answer.status_code for answer in answers} == {200}
            counts_of(blog)
            answers = await asyncio.gather(
                *(blog.owner.delete(path) for _ in range(3)), blog.owner.post(f"{path}/publish")
            )
            assert sorted(one.status_code for one in answers)[:3] in (
                [200, 404, 404],
                [200, 200, 404],
            )
            assert counts_of(blog) == [(1, 1)]


class TestAccess:
    async def test_depends_on_the_scopes_of_a_token(self, blog: Blog) -> None:
        """A reader sees no draft, by list, search or id; a token that may only write reads none."""
        draft, post = await blog.write("Draft", tags=["a"]), await blog.publish("Post", tags=["a"])
        reader = await blog.token("content:read")
        writer = await blog.token("content:write", "content:read", bound=False)
        silent = await blog.token("content:write")
        body = {"title": "A", "content": "B"}

        for query in ({}, {"status": "all"}, {"status": "published"}):
            page = ok(await reader.get(OWN_POSTS, params=query))
            assert [one["title"] for one in page["items"]] == ["Post", HELLO]
            assert page["totalCount"] == 2
        page = ok(await reader.get(OWN_POSTS, params={"status": "draft"}))
        assert (page["items"], page["totalCount"]) == ([], 0)
        for query in ({"search": "draft"}, {"search": "draft", "tag": "a", "status": "draft"}):
            page = ok(await reader.get(OWN_POSTS, params=query))
            assert (page["items"], page["totalCount"]) == ([], 0)
        refused(await reader.get(f"{OWN_POSTS}/{draft['id']}"), 404)
        ok(await reader.get(f"{OWN_POSTS}/{post['id']}"))
        assert len(ok(await writer.get(OWN_POSTS))["items"]) == 3
        ok(await writer.get(f"{OWN_POSTS}/{draft['id']}"))
        for method, path in paths_of(post):
            client = silent if method == "GET" else reader
            refused(await client.request(method, path, json=body), 403)
        ok(await silent.post(f"{OWN_POSTS}/{draft['id']}/publish"))

    async def test_needs_the_module(self, blog: Blog) -> None:
        """403 at every endpoint, for every caller, and at no other tenant."""
        post, token = await blog.publish("Post"), await blog.token()
        body = {"title": "A", "content": "B"}

        await patch_tenant(blog.world, blog.world.acme, modules=["mcp"])

        for method, path in paths_of(post):
            for client in (blog.owner, token):
                refused(await client.request(method, path, json=body), 403)
        for client in (blog.public, token):
            refused(await client.get(POSTS), 403)
            refused(await client.get(f"{POSTS}/post"), 403)
        ok(await (await blog.owner_of(blog.world.globex)).get(OWN_POSTS))
        await patch_tenant(blog.world, blog.world.acme, modules=["blog", "mcp"])
        assert await blog.titles() == ["Post", HELLO]

    async def test_hides_the_posts_of_others(self, blog: Blog) -> None:
        """Another tenant's post is answered like one that does not exist: 404, same body."""
        post = await blog.publish("Post")
        other = await blog.owner_of(blog.world.globex)
        body = {"title": "A", "content": "B"}

        for method, path in paths_of(post)[2:]:
            theirs = await other.request(method, path, json=body)
            absent = await other.request(method, path.replace(post["id"], UNKNOWN_ID), json=body)
            refused(theirs, 404)
            assert theirs.content == absent.content
        assert ok(await blog.owner.get(f"{OWN_POSTS}/{post['id']}")) == post


class TestAudit:
    async def test_has_what_a_token_writes(self, blog: Blog) -> None:
        """With the token's id, once for each change; and what a person writes, with theirs."""
        catalog = catalog_of(blog.world)
        token = await blog.token("content:write")
        [(token_id,)] = catalog.run("SELECT id FROM mcp_token")
        body = {"title": "A", "content": "B"}
        written = await blog.publish("By a person")
        by_person = written["id"]
        await blog.delete(written)

        post = ok(await token.post(OWN_POSTS, json=body), 201)
        path = f"{OWN_POSTS}/{post['id']}"
        for _ in range(2):
            ok(await token.put(path, json={**body, "content": "C"}))
        for verb in ("publish", "publish", "unpublish", "unpublish"):
            ok(await token.post(f"{path}/{verb}"))
        refused(await token.put(path, json={**body, "slug": "hello-from-acme"}), 409)
        last = await token.delete(path)
        done(last)

        own = database_of(blog.world, blog.world.acme.tenant)
        entries = [
            entry
            for entry in own.run(
                "SELECT action, actor, target, request_id FROM tenantry_audit ORDER BY id"
            )
            if entry[0].startswith("post.") and entry[1].startswith("mcp-token:")
        ]
        [person] = own.run("SELECT DISTINCT actor FROM tenantry_audit WHERE target = ?", by_person)
        assert person == (f"user:{blog.world.acme.owner.id}",)
        verbs = ["create", "update", "publish", "unpublish", "delete"]
        assert [entry[0] for entry in entries] == [f"post.{verb}" for verb in verbs]
        assert {entry[1].replace("-", "") for entry in entries} == {
            f"mcptoken:{str(token_id).replace('-', '')}"
        }
        assert {entry[2] for entry in entries} == {post["id"]}
        assert entries[-1][3] == last.headers["x-request-id"]
