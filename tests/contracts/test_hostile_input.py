"""Bad input of any kind is 400 (or 404, 413, 415, 431), and never a 5xx."""

import re
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from msgspec import inspect

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from tenantry.schemas.base import Nothing, PageRequest
from testkit.asgi import ask
from testkit.decision_table import LOOKED_AT, level_of
from testkit.request_samples import STRICT, items_of, kinds_of, members_of, params, path_of
from testkit.response_form import faults, message_of
from tests.contracts.stage import Stage

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

KIB_64 = 65_536
MIB = 1_048_576
# Posts may be longer than everything else.
CONTENT_PATHS = ("/api/tenant/blog/", "/mcp")


EVERY = params(ENDPOINTS)
WITH_BODY = params([one for one in ENDPOINTS if one.reads_body])
WITH_MEMBERS = params([one for one in ENDPOINTS if one.reads_body and members_of(one)])
WITH_QUERY = params([o for o in ENDPOINTS if not o.reads_body and o.request is not Nothing])
WITH_PAGES = params([o for o in ENDPOINTS if issubclass(o.request, PageRequest)])
CLOSED = params([one for one in ENDPOINTS if level_of(one.path) != "Open"])
WITH_IDS = params([o for o in ENDPOINTS if "{" in o.path.replace("{slug}", "")])
INSIDE_A_TENANT = params([o for o in ENDPOINTS if re.search(r"\{tenantId}/.*Id}", o.path)])
PATHS = sorted({one.path for one in ENDPOINTS})

# Longer than any text may be, and shorter than a body or the headers may be.
LONG = "long - at `$.long." * 3_000
HEADER_CHARS = 2_000
REFUSAL_BYTES_MAX = 400

NO_JSON_OBJECTS = {
    "unparsable": b"nonsense",
    "half an object": b"{",
    "half a member": b'{"email": "a@example.com',
    "no value": b'{"email":}',
    "a comma too many": b'{"email": "a",}',
    "two objects": b"{}{}",
    "a comment": b"{} // done",
    "single quotes": b"{'email': 'a'}",
    "an array": b"[]",
    "an array of objects": b"[{}]",
    "a text": b'"email"',
    "a number": b"1",
    "null": b"null",
    "true": b"true",
    "not a number": b"NaN",
    "infinity": b"-Infinity",
    "spaces": b"   ",
    "nesting": b"[" * 30_000,
    "nesting, closed": b"[" * 30_000 + b"]" * 30_000,
    "nesting of objects": b'{"a":' * 10_000,
    "nesting of objects, closed": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a huge integer": b"9" * 5_000,
    "a byte order mark": b"\xef\xbb\xbf{}",
    "no UTF-8": b"\xff\xfe",
    "UTF-16": '{"email": "a"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"email": "a"}'.encode("utf-16-le"),
    "UTF-32": '{"email": "a"}'.encode("utf-32"),
    "a NUL": b'{"email": "a\x00b"}',
    "NULs": b"\x00" * 100,
    "a control character": b'{"email": "a\x01b"}',
    "a bad escape": rb'{"email": "\x41"}',
    "half an escape": rb'{"email": "\u12"}',
}
BROKEN_TEXTS = {
    "a high surrogate": rb'"\ud800"',
    "a low surrogate": rb'"\udc00"',
    "surrogates the wrong way round": rb'"\udc00\ud800"',
    "a surrogate in the middle": rb'"a\ud800b@example.com"',
    "NUL": rb'"\u0000"',
    "NUL in the middle": rb'"a\u0000b@example.com"',
    "a tab that is not escaped": b'"a\tb"',
    "no UTF-8": b'"\xff\xfe"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
}
NUMBERS = {
    "zero": b"0",
    "a huge integer": b"9" * 5_000,
    "a negative one": b"-1",
    "a huge float": b"1e999",
    "a float": b"1.5",
    "minus infinity": b"-1e999",
}
WRONG = {
    "null": b"null",
    "an array of null": b"[null]",
    "an array of arrays": b"[[[]]]",
    "an array of broken text": rb'["\ud800"]',
    "an array with NUL": rb'["\u0000"]',
    "an object": b'{"a": {"b": [1]}}',
    "nesting": b"[" * 20_000 + b"]" * 20_000,
    **BROKEN_TEXTS,
}
OF_KIND = {
    inspect.StrType: {"true": b"true", "an array": b"[]", **NUMBERS},
    inspect.BoolType: {"a text": b'"true"', "an array": b"[]", **NUMBERS},
    inspect.IntType: {"a text": b'"x"', "true": b"true", "a huge float": b"1e999"},
    inspect.UUIDType: {"a text": b'"x"', "empty": b'""', "true": b"true", **NUMBERS},
    inspect.DateTimeType: {
        "a text": b'"yesterday"',
        "no such day": b'"2030-02-30T00:00:00Z"',
        "no time zone": b'"2030-01-01T00:00:00"',
        "a year too far": b'"99999-01-01T00:00:00Z"',
        "the past": b'"2001-01-01T00:00:00Z"',
        "true": b"true",
    },
    inspect.ListType: {"a text": b'"x"', "an array of numbers": b"[1]", **NUMBERS},
    inspect.StructType: {"a text": b'"x"', "an array": b"[]", "true": b"true", **NUMBERS},
}


def with_member(stage: Stage, endpoint: Endpoint, member: str, value: bytes) -> bytes:
    """Return a good body, but for the *value* of one member."""
    others = {n: v for n, v in stage.body(endpoint).items() if n != member}
    begin = msgspec.json.encode(others)[:-1] + (b"," if others else b"")
    return begin + b'"' + member.encode() + b'": ' + value + b"}"


def encoded(stage: Stage, endpoint: Endpoint) -> bytes:
    return msgspec.json.encode(stage.body(endpoint)) if endpoint.reads_body else b""


async def refused(
    stage: Stage, endpoint: Endpoint, bodies: dict[str, tuple[bytes, str]], *, status: int = 400
) -> None:
    """Assert that each body is refused, that the message has its word, and nothing changes."""
    wrong = []
    for what, (body, word) in bodies.items():
        answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
        found = list(faults(answer, endpoint.path))
        if answer.status != status:
            found.append(f"{answer.status} instead of {status}: {answer.body[:200]!r}")
        elif word not in message_of(answer):
            found.append(f"does not name {word}: {message_of(answer)!r}")
        wrong += [f"[{what}] {fault}" for fault in found]
    changed = stage.changes()
    await stage.restore()
    assert not wrong + changed, "\n".join(wrong + changed)


@pytest.mark.parametrize("endpoint", WITH_BODY)
class TestBody:
    async def test_must_be_a_json_object(self, stage: Stage, endpoint: Endpoint):
        """Invalid JSON, and JSON that is not an object, is 400."""
        await refused(stage, endpoint, {k: (v, "") for k, v in NO_JSON_OBJECTS.items()})

    async def test_must_be_whole(self, stage: Stage, endpoint: Endpoint):
        """A good body that was cut off somewhere is 400."""
        good = msgspec.json.encode(stage.body(endpoint))

        cut = {f"{at} bytes": (good[:at], "") for at in range(1, len(good))}

        await refused(stage, endpoint, cut)

    async def test_must_be_json_by_name(self, stage: Stage, endpoint: Endpoint):
        """A content type that is not JSON is 415."""
        body = msgspec.json.encode(stage.body(endpoint)) or b"{}"
        wrong = []
        for type_ in (
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonx",
            "application/xml, application/json",
            "",
            ";",
            "x" * 1_000,
        ):
            headers = [*stage.good(endpoint), ("content-type", type_)]
            answer = await stage.ask(endpoint, headers=headers, body=body)
            found = list(faults(answer, endpoint.path))
            if answer.status != 415 and type_.strip(" ;"):
                found.append(f"{answer.status} instead of 415")
            wrong += [f"[{type_!r}] {fault}" for fault in found]
            await stage.restore()
        assert not wrong, "\n".join(wrong)

    async def test_has_no_coding(self, stage: Stage, endpoint: Endpoint):
        """Whether the body has it or not: a proxy could have read another body than the service."""
        body = msgspec.json.encode(stage.body(endpoint)) or b"{}"
        for coding in ("gzip", "br", "deflate, gzip", "x"):
            headers = [*stage.good(endpoint), ("content-encoding", coding)]
            answer = await stage.ask(endpoint, headers=headers, body=body)

            assert answer.status == 415, coding

    async def test_is_json_by_any_good_name(self, stage: Stage, endpoint: Endpoint):
        """The content type may have any case and parameters, and may be missing."""
        for headers in (
            [],
            [("content-type", "application/json")],
            [("content-type", "Application/JSON; charset=utf-8")],
            [("content-type", "application/json;charset=utf-8")],
        ):
            answer = await stage.ask(
                endpoint, headers=[*stage.good(endpoint), *headers], body=b"[]"
            )

            assert answer.status == 400

    async def test_must_not_be_too_large(self, stage: Stage, endpoint: Endpoint):
        """More than the limit is 413, however it comes; the limit itself is not."""
        is_short = endpoint.path.endswith(("/restore", "/preview-links"))
        is_short |= not endpoint.path.startswith(CONTENT_PATHS)
        limit = KIB_64 if is_short else MIB
        large = b"[" + b" " * limit
        headers = stage.good(endpoint)
        announced = [*headers, ("content-length", str(len(large)))]
        chunks = [large[at : at + 1_000] for at in range(0, len(large), 1_000)]

        assert (await stage.ask(endpoint, headers=announced, body=large)).status == 413
        assert (await stage.ask(endpoint, headers=headers, body=chunks)).status == 413
        assert (await stage.ask(endpoint, headers=headers, body=[*chunks, b"", b""])).status == 413
        assert (await stage.ask(endpoint, headers=headers, body=b"[" * 100 * limit)).status == 413
        assert (await stage.ask(endpoint, headers=headers, body=large[:-1])).status == 400
        assert (await stage.ask(endpoint, headers=headers, body=[b"", large[:-1]])).status == 400

    async def test_ignores_unknown_members(self, stage: Stage, endpoint: Endpoint):
        """An unknown member is ignored, except where a typo would select every tenant."""
        good = stage.body(endpoint)
        unknown = msgspec.json.encode({"surprise": {"a": [1, None, "x"]}, **good})

        answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=unknown)
        await stage.restore()

        if endpoint.path in STRICT:
            assert answer.status == 400
            assert "surprise" in answer.json()["message"]
        else:
            assert answer.status != 400, answer.body

    @pytest.mark.parametrize("unknown", [rb'"\ud800": 1', rb'"dryRun\udc00": true'])
    async def test_ignores_unknown_members_of_no_name(
        self, stage: Stage, endpoint: Endpoint, unknown: bytes
    ):
        """A name that is not valid Unicode is unknown, too: `migrate-all` and others refuse it."""
        rest = msgspec.json.encode(stage.body(endpoint))[1:]
        body = b"{" + unknown + (b"" if rest == b"}" else b", ") + rest

        answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
        await stage.restore()

        assert (answer.status == 400) == (endpoint.path in STRICT), answer.body

    async def test_must_be_json_beside_broken_text(self, stage: Stage, endpoint: Endpoint):
        """Broken text in an unknown member is ignored; other errors in the body are not."""
        rest = msgspec.json.encode(stage.body(endpoint))[1:]
        begin = rb'{"surprise": "\ud800"'
        no_json = {
            name: (
                begin + b', "other": ' + name.encode() + (b"" if rest == b"}" else b", ") + rest,
                "",
            )
            for name in ("NaN", "Infinity", "-Infinity", "nan")
        }

        await refused(stage, endpoint, no_json)

    async def test_survives_any_unknown_member(self, stage: Stage, endpoint: Endpoint):
        """The value of an unknown member is ignored, and causes no error."""
        wrong = []
        values = {**NO_JSON_OBJECTS, **NUMBERS, **WRONG}
        for what, value in values.items():
            for body in (b'{"surprise": ' + value + b"}", b"{" + value + b": 1}"):
                answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
                if answer.status < 300:
                    await stage.restore()
                if answer.status >= 500:
                    wrong.append(f"[{what}] {answer.status}")
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("endpoint", WITH_MEMBERS)
class TestMember:
    async def test_must_be_there(self, stage: Stage, endpoint: Endpoint):
        """A required member that is missing is 400, and the message names it."""
        good = stage.body(endpoint)
        missing = {
            name: (msgspec.json.encode({n: v for n, v in good.items() if n != name}), name)
            for name, member in members_of(endpoint).items()
            if member.required
        }

        await refused(stage, endpoint, missing)

    async def test_must_be_of_its_type(self, stage: Stage, endpoint: Endpoint):
        """A member that is null, of another type or no text is 400, and the message names it."""
        bodies = {}
        for name, member in members_of(endpoint).items():
            kinds = kinds_of(member.type)
            values = dict(WRONG)
            for kind in kinds & OF_KIND.keys():
                values |= OF_KIND[kind]
            if inspect.IntType in items_of(member.type):
                del values["an array of numbers"]
            if inspect.NoneType in kinds:
                del values["null"]
            if inspect.StrType in kinds:
                values.pop("a text", None)
            for other in kinds - {inspect.StrType}:
                values = {k: v for k, v in values.items() if not _may_be(other, v)}
            # Text that is none cannot be read, so there is no member yet to be named.
            unnamed = {"nesting"} | BROKEN_TEXTS.keys() | {"an array of broken text"}
            for what, value in values.items():
                word = "" if what in unnamed else name
                bodies[f"{name}: {what}"] = (with_member(stage, endpoint, name, value), word)

        await refused(stage, endpoint, bodies)

    async def test_may_come_twice(self, stage: Stage, endpoint: Endpoint):
        """Of two members of one name each must be good; it is never a 5xx."""
        good = msgspec.json.encode(stage.body(endpoint))
        name = next(iter(members_of(endpoint)))

        body = b'{"' + name.encode() + b'": [[]],' + good[1:]
        answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
        await stage.restore()

        assert answer.status == 400
        assert name in message_of(answer)

    @bounded(
        max_examples=20,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(data=st.data())
    async def test_may_be_anything(self, stage: Stage, endpoint: Endpoint, data: st.DataObject):
        """Whatever JSON the members hold, the answer has the envelope and is no 5xx."""
        values = {
            name: data.draw(st.just(good) | ANYTHING, label=name)
            for name, good in stage.body(endpoint).items()
        }
        dropped = data.draw(st.sets(st.sampled_from(sorted(members_of(endpoint))), max_size=1))
        body = {name: value for name, value in values.items() if name not in dropped}

        answer = await stage.ask(
            endpoint, headers=stage.good(endpoint), body=msgspec.json.encode(body)
        )
        if answer.status < 300:
            await stage.restore()

        assert list(faults(answer, endpoint.path)) == []
        assert answer.status < 300 or answer.status in {400, 404, 409} | _of_login(endpoint)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", " ", "\0", "\u202e", "\r\n", "x" * 2_000, "' OR 1=1 --", "a@example.com", "%00", "\uffff"]
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.uuids().map(str)
    | st.datetimes().map(lambda at: at.isoformat() + "Z"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


def _of_login(endpoint: Endpoint) -> set[int]:
    """A wrong password is not bad input."""
    return {401, 429} if endpoint.path.endswith(("/login", "/change-password")) else set()


def _may_be(kind: type[inspect.Type], value: bytes) -> bool:
    """Return whether a member of several types may have a value that is wrong for another."""
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    types = {
        inspect.BoolType: bool,
        inspect.IntType: int,
        inspect.FloatType: int | float,
        inspect.NoneType: type(None),
        inspect.DictType: dict,
    }
    return kind in types and isinstance(decoded, types[kind])


@pytest.mark.parametrize("endpoint", WITH_QUERY)
class TestQuery:
    async def test_must_not_repeat_itself(self, stage: Stage, endpoint: Endpoint):
        """A repeated parameter is 400, because its value is ambiguous."""
        names = [name.encode() for name in members_of(endpoint)]

        await _refuses(stage, endpoint, [name + b"=1&" + name + b"=1" for name in names])

    async def test_must_be_text(self, stage: Stage, endpoint: Endpoint):
        """Invalid UTF-8, or text with NUL, is 400."""
        bad = (b"%ff", b"%C0%AF", b"%ED%A0%80", b"\xff\xfe", b"a%00b", b"\0")

        queries = [name.encode() + b"=" + text for name in members_of(endpoint) for text in bad]

        await _refuses(stage, endpoint, queries)

    async def test_ignores_unknown_parameters(self, stage: Stage, endpoint: Endpoint):
        """An unknown parameter is ignored."""
        answer = await stage.ask(
            endpoint,
            headers=stage.good(endpoint),
            query=stage.query(endpoint) + b"&surprise=1&surprise=2&x&=&&",
        )
        await stage.restore()

        # The tenant of the stage is not deleted.
        missing = {404} if endpoint.path.startswith("/api/admin/deleted-tenants/") else set()
        assert answer.status in {200, 409} | missing


@pytest.mark.parametrize("endpoint", WITH_PAGES)
class TestPage:
    async def test_must_hold_positive_numbers(self, stage: Stage, endpoint: Endpoint):
        """A page is a number from 1, in digits."""
        numbers = [b"0", b"-1", b"x", b"1.5", b"", b"%20", b"0x10", b"NaN", b"true"]
        numbers += [
            b"-" + b"9" * 5_000,
            b"9" * 5_000 + b"x",
            b"0" * 5_000,
            b"%00",
            b"%ff",
            b"1%00",
            b"%ED%A0%80",
        ]
        numbers += [b"\xff", b"null", b"[1]", b"1,2", "\u0661".encode(), b"%D9%A1", b"1_0"]

        queries = [name + b"=" + value for name in (b"page", b"pageSize") for value in numbers]

        await _refuses(stage, endpoint, queries)

    async def test_must_hold_digits(self, stage: Stage, endpoint: Endpoint):
        """A page is a number in digits: ``1e3`` is none."""
        await _refuses(stage, endpoint, [b"page=1e3", b"pageSize=1E3", b"page=1e0"])

    @pytest.mark.parametrize(
        "number",
        [str(2**31 - 1), str(2**31), str(2**63), "9" * 20, "9" * 4_000, "9" * 5_000],
        ids=lambda number: f"{len(number)} digits",
    )
    async def test_serves_the_largest_pages(self, stage: Stage, endpoint: Endpoint, number: str):
        """A page past the end is empty, and more than 100 on a page are 100."""
        query = f"page={number}&pageSize={number}".encode()
        answer = await stage.ask(endpoint, headers=stage.good(endpoint), query=query)

        page = answer.json()["data"]
        assert answer.status == 200
        assert (page["items"], page["page"], page["pageSize"]) == ([], 2147483647, 100)

    async def test_ignores_zeros_before_a_number(self, stage: Stage, endpoint: Endpoint):
        """``page=0…02`` is the second page."""
        query = b"page=" + b"0" * 4_000 + b"2"
        answer = await stage.ask(endpoint, headers=stage.good(endpoint), query=query)

        assert (answer.status, answer.json()["data"]["page"]) == (200, 2)


async def _refuses(stage: Stage, endpoint: Endpoint, queries: list[bytes]) -> None:
    wrong = []
    for query in queries:
        answer = await stage.ask(endpoint, headers=stage.good(endpoint), query=query)
        found = list(faults(answer, endpoint.path))
        if answer.status != 400:
            found.append(f"{answer.status} instead of 400: {answer.body[:100]!r}")
        wrong += [f"[{query[:60]!r}] {fault}" for fault in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("endpoint", EVERY)
class TestEveryEndpoint:
    async def test_survives_any_query(self, stage: Stage, endpoint: Endpoint):
        """No query string is a 5xx, wherever it is sent."""
        queries = [b"%", b"%zz", b"=", b"&" * 5_000, b"a=1&" * 200, b"page=%ff", b"\xff\x00"]
        queries += [b"surprise=%00", b"surprise=%ff", b"a" * 60_000, b"?" * 9, b"page[]=1"]
        wrong = []
        for query in queries:
            answer = await stage.ask(
                endpoint, headers=stage.good(endpoint), query=query, body=b"[]"
            )
            found = list(faults(answer, endpoint.path))
            if answer.status >= 500:
                found.append(str(answer.status))
            wrong += [f"[{query[:60]!r}] {fault}" for fault in found]
            if endpoint.method == "DELETE":
                await stage.restore()
        assert not wrong, "\n".join(wrong)

    async def test_refuses_headers_that_are_too_large(self, stage: Stage, endpoint: Endpoint):
        """More than 16 KiB of headers are 431, in one piece or in many."""
        one = [("x-junk", "x" * 16_400)]
        many = [(f"x-junk-{at}", "x" * 100) for at in range(160)]

        for headers in (one, many, [("cookie", "x" * 20_000)], [("x-api-key", "x" * 20_000)]):
            answer = await stage.ask(endpoint, headers=[*stage.good(endpoint)[1:], *headers])

            assert answer.status == 431
            assert list(faults(answer, endpoint.path)) == []

    async def test_survives_any_credential(self, stage: Stage, endpoint: Endpoint):
        """No text in a credential header is a 5xx, and none is accepted."""
        level = level_of(endpoint.path)
        texts = ["\xff\xfe", "Bearer \xff", "Bearer a.b.c", "Bearer ..", "Bearer " + "a" * 8_000]
        texts += ["Bearer e30.e30.", "tnk_\xe9", "tnm_" + "0" * 51, "Bearer " + "[" * 5_000, "\0"]
        texts += ["Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer\ttnk_", "bearer", "tnk_", ","]
        for header in sorted(LOOKED_AT[level]):
            for text in texts:
                answer = await stage.ask(endpoint, headers=[(header, text)])

                assert answer.status == 401, (header, text)
                assert list(faults(answer, endpoint.path)) == []

    async def test_repeats_little_of_what_was_sent(self, stage: Stage, endpoint: Endpoint):
        """However long a name or a value is that is refused, the message about it is short."""
        good = stage.good(endpoint)
        long = [(name.lower(), LONG[:HEADER_CHARS]) for name in endpoint.headers]
        asked = [(good, *request) for request in _with_long_texts(stage, endpoint)]
        asked.append(([*good, *long], encoded(stage, endpoint), b""))
        wrong = []
        for headers, body, query in asked:
            answer = await stage.ask(endpoint, headers=headers, body=body, query=query)
            if answer.status < 400:
                await stage.restore()
            elif len(answer.body) > REFUSAL_BYTES_MAX:
                wrong.append(f"{body[:60]!r} {query[:60]!r}: {answer.body[:200]!r}")
        assert not wrong, "\n".join(wrong)


def _with_long_texts(stage: Stage, endpoint: Endpoint) -> Iterator[tuple[bytes, bytes]]:
    """Yield bodies and queries with a long text: as a name, as a value, and inside one."""
    if not endpoint.reads_body:
        for name in (LONG, *members_of(endpoint)):
            yield b"", f"{name}={LONG}".encode()
        return
    yield msgspec.json.encode({LONG: 1, **stage.body(endpoint)}), b""
    for name in members_of(endpoint):
        for value in (LONG, [LONG], {LONG: 1}, [{LONG: 1}]):
            yield with_member(stage, endpoint, name, msgspec.json.encode(value)), b""


@pytest.mark.parametrize("endpoint", CLOSED)
class TestClosedEndpoint:
    async def test_reads_credentials_from_their_headers_alone(
        self, stage: Stage, endpoint: Endpoint
    ):
        """A credential in the query, a cookie, the body or another header is ignored."""
        named = dict(stage.good(endpoint))
        bare = {name: value.removeprefix("Bearer ") for name, value in named.items()}
        aliases = {
            **named,
            **{name.replace("-", "_"): value for name, value in bare.items()},
            "access_token": bare.get("authorization", ""),
            "apiKey": bare.get("x-api-key", ""),
            "token": bare.get("authorization", ""),
        }
        query = "&".join(f"{name}={value.replace(' ', '%20')}" for name, value in aliases.items())
        cookie = "; ".join(f"{name}={value}" for name, value in aliases.items())
        others = [("proxy-authorization", named.get("authorization", "")), ("cookie", cookie)]
        others += [("api-key", bare.get("x-api-key", "")), ("x_api_key", bare.get("x-api-key", ""))]
        body = msgspec.json.encode(aliases | stage.body(endpoint) if endpoint.reads_body else {})

        answer = await stage.ask(endpoint, headers=others, query=query.encode(), body=body)

        assert answer.status == 401
        assert answer.said["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("endpoint", WITH_IDS)
class TestId:
    async def test_must_be_a_guid(self, stage: Stage, endpoint: Endpoint):
        """An id that is not a GUID does not exist: 404."""
        guid = "01900000-0000-7000-8000-000000000000"
        bad = ["x", "1", "-1", guid.replace("-", ""), f"{{{guid}}}", f"urn:uuid:{guid}", guid[:-1]]
        bad += [guid + "0", f" {guid}", f"{guid}\n", guid.replace("0", "\u0660"), "\0", "..", "%00"]
        bad += [
            "x" * 5_000,
            "null",
            "'",
            "\ufffd",
            "\udcff",
            guid.replace("-", "_"),
            "*",
            guid + "\0",
        ]
        body, query = encoded(stage, endpoint), stage.query(endpoint)
        wrong = []
        for name in _ids(endpoint):
            for text in bad:
                if name == "number" and text == "1":
                    continue  # not a GUID, and the number of the first version
                path = path_of(endpoint, {**stage.ids, name: text})
                answer = await stage.ask(
                    endpoint, headers=stage.good(endpoint), path=path, body=body, query=query
                )
                found = list(faults(answer, endpoint.path))
                if answer.status != 404:
                    found.append(f"{answer.status} instead of 404")
                wrong += [f"[{name}: {text[:60]!r}] {fault}" for fault in found]
        changed = stage.changes()
        await stage.restore()
        assert not wrong + changed, "\n".join(wrong + changed)

    async def test_may_be_in_upper_case(self, stage: Stage, endpoint: Endpoint):
        """A GUID is the same one in any case."""
        body, query = encoded(stage, endpoint), stage.query(endpoint)
        answers = []
        for ids in (stage.ids, {name: text.upper() for name, text in stage.ids.items()}):
            path = path_of(endpoint, {**ids, "slug": stage.ids["slug"]})
            answers.append(
                await stage.ask(
                    endpoint, headers=stage.good(endpoint), path=path, body=body, query=query
                )
            )
            await stage.restore()

        assert answers[0].status == answers[1].status

    async def test_that_does_not_exist_is_404(self, stage: Stage, endpoint: Endpoint):
        """A resource with an unknown id is 404."""
        answer = await stage.ask(
            endpoint,
            headers=stage.good(endpoint),
            path=path_of(endpoint, {}),
            body=encoded(stage, endpoint),
            query=stage.query(endpoint),
        )

        assert answer.status == 404


@pytest.mark.parametrize("endpoint", INSIDE_A_TENANT)
class TestIdInsideATenant:
    async def test_of_another_tenant_is_404(self, stage: Stage, endpoint: Endpoint):
        """A resource of another tenant gets the response of one that does not exist."""
        body = encoded(stage, endpoint)
        path = path_of(endpoint, {**stage.ids, "tenantId": str(stage.world.globex.tenant.id)})

        answer = await stage.ask(endpoint, headers=stage.good(endpoint), path=path, body=body)
        changed = stage.changes()
        await stage.restore()

        assert answer.status == 404
        assert not changed, "\n".join(changed)


class TestPath:
    async def test_that_is_unknown_is_404(self, stage: Stage):
        """A path that is not in the table is 404 in the envelope, for every caller."""
        paths = ["/", "", "/api", "/api/", "/nope", "//livez", "/livez/", "/LIVEZ", "/api/admin"]
        paths += ["/api/tenant/auth/login/", "/api/admin/tenants//users", "/api//tenant/modules"]
        paths += ["/api/tenant/../admin/tenants", "/\0", "/%2e%2e", "/" + "x" * 9_000, "/a" * 3_000]
        paths += ["/api/public/blog/posts/a/b", "/api/tenant/auth/profile\n", "/.env"]
        for path in paths:
            for method in ("GET", "POST", "HEAD", "OPTIONS", "BREW"):
                answer = await ask(stage.world.app, method, path)

                assert answer.status == 404, (method, path)
                assert list(faults(answer, path, has_body=method != "HEAD")) == []

    async def test_with_a_slug_that_is_not_text_is_404(self, stage: Stage):
        """A slug may be any text; an unknown one is 404."""
        headers = [("x-api-key", stage.world.acme.key.secret)]
        for slug in ("\0", "a\0b", "\ufffd", "x" * 9_000, "'", "%", "..", "\u202e", "\n"):
            answer = await ask(
                stage.world.app, "GET", f"/api/public/blog/posts/{slug}", headers=headers
            )

            assert answer.status == 404, slug
            assert list(faults(answer, "")) == []

    async def test_is_not_normalised(self, stage: Stage):
        """A needlessly percent-encoded path is another path, and `%2F` is not a slash."""
        headers = [("x-api-key", stage.world.acme.key.secret)]
        slug = stage.ids["slug"]
        good = f"/api/public/blog/posts/{slug}"
        for path in (
            "/livez".replace("l", "%6c"),
            "/%6Civez",
            "/livez%2F",
            "/livez%00",
            "/console%2F",
            "/%63onsole/",
            good.replace("hello", "hell%6f"),
            good.replace("-", "%2D"),
            good.replace("posts/", "posts%2F"),
            good.replace("public/", "public%2f"),
            f"/api/public/blog/posts/x%2F..%2F{slug}",
            f"{good}%",
            f"{good}%zz",
            f"{good}%ff",
            f"{good}%C0%AF",
            f"{good}%ED%A0%80",
        ):
            answer = await ask(stage.world.app, "GET", path, headers=headers)

            assert answer.status == 404, path
        assert (await ask(stage.world.app, "GET", good, headers=headers)).status == 200

    @pytest.mark.parametrize("path", PATHS)
    async def test_takes_its_methods_alone(self, stage: Stage, path: str):
        """Another method is 405 with what is allowed, in the envelope, for every caller."""
        allowed = {one.method for one in ENDPOINTS if one.path == path}
        known = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
        known |= {"BREW", "get", "", "\u00e9"}
        real = path_of(next(one for one in ENDPOINTS if one.path == path), stage.ids)

        for method in sorted(known - allowed):
            answer = await ask(stage.world.app, method, real)

            assert answer.status == 405, method
            assert set(answer.said["allow"].split(", ")) - {"HEAD", "OPTIONS"} == allowed
            assert list(faults(answer, "")) == []


def _ids(endpoint: Endpoint) -> list[str]:
    parts = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    return [part for part in parts if part != "slug"]
