"""The decision table of docs/api-conventions.md, for all endpoints and credentials."""

import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from tenantry.api.endpoints import Endpoint
from tenantry.api.openapi import statuses, successes
from tenantry.api.table import ENDPOINTS
from testkit.asgi import Answer
from testkit.decision_table import (
    ADMITTED,
    SCOPES,
    Asked,
    Combination,
    acting,
    asked_by,
    combinations,
    expected,
    is_token_sent,
    learns_of_body,
    level_of,
)
from testkit.request_samples import params, path_of
from testkit.response_form import FORBIDDEN, UNAUTHENTICATED, faults
from tests.contracts.cast import Cast
from tests.contracts.ledger import difference, essence

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

EVERY = params(ENDPOINTS)
CLOSED = params([one for one in ENDPOINTS if level_of(one.path) != "Open"])
READING = params([one for one in ENDPOINTS if one.method == "GET"])
COMBINATIONS = combinations()
MALFORMED = b'{"email": '
NO_TOKENS = {"scheme alone", "another scheme", "a token by another scheme"}
LEGITIMATE = {400, 404, 409}
# The credentials of a valid caller at each level.
CANONICAL = {
    Combination(),
    Combination(None, "admin"),
    Combination("acme"),
    Combination("acme", "user of acme"),
    Combination(None, None, "bound"),
}
# A request with a valid password costs a hash.
HASHING = ("/login", "/links/use")
# These are enough; the others send no password.
LOGINS_OF = CANONICAL | {Combination(key) for key in ("globex", "blogless", "mcpless")}


def cells(endpoint: Endpoint, *, admitted: bool) -> Iterator[tuple[Combination, int]]:
    """Return the combinations that are admitted, or those that are rejected, with their status."""
    asked = asked_by(endpoint)
    for sent in COMBINATIONS:
        status = expected(asked, sent)
        if (status == ADMITTED) == admitted:
            yield sent, status


def leaks(cast: Cast, answer: Answer, *, but: str | None = None) -> list[str]:
    """Return the canaries in an answer that are not those of the tenant *but*."""
    canaries = cast.stage.world.canaries
    return [
        f"tells {canary}"
        for tenant, canary in canaries.items()
        if tenant != but and canary.encode() in answer.raw
    ]


def refusal_faults(asked: Asked, sent: Combination, answer: Answer) -> Iterator[str]:
    """Return what is wrong with a 401 or a 403, beside its form."""
    message = answer.json()["message"]
    if answer.status == 403 and message != FORBIDDEN:
        yield f"a 403 that says {message!r}"
    if answer.status != 401:
        return
    if message != UNAUTHENTICATED:
        yield f"a 401 that says {message!r}"
    challenge = answer.said.get("www-authenticate")
    with_error = 'Bearer error="invalid_token"'
    if challenge not in {"Bearer", with_error}:
        yield f"challenges with {challenge}"
    if sent.bearer in NO_TOKENS:
        return  # see `test_sends_invalid_token_only_for_tokens`
    if challenge == with_error and not is_token_sent(asked, sent):
        yield "says invalid_token where none was sent"
    if challenge == "Bearer" and is_token_sent(asked, sent) and sent.key in {None, "acme"}:
        yield "does not say invalid_token"


def is_undeclared(endpoint: Endpoint, status: int) -> bool:
    return status not in map(int, [*successes(endpoint), *statuses(endpoint)])


@pytest.mark.parametrize("endpoint", EVERY)
class TestEveryEndpoint:
    async def test_refuses_as_the_decision_table_says(self, cast: Cast, endpoint: Endpoint):
        """Each combination that does not suffice has its status, and changes nothing."""
        asked, wrong = asked_by(endpoint), []
        bodies = [_encoded(cast, endpoint, "acme")]
        bodies += [MALFORMED] if endpoint.reads_body else []
        # The failures of the tests before are counted in memory, and written every few seconds.
        await cast.stage.world.services.sign_ins.write()
        before = cast.stage.now()

        for sent, status in cells(endpoint, admitted=False):
            for body in bodies:
                answer = await _ask(cast, endpoint, sent, body)
                is_told = body == MALFORMED and learns_of_body(asked, sent, status)
                wanted = 400 if is_told else status
                found = [*faults(answer, endpoint.path), *leaks(cast, answer)]
                if answer.status != wanted:
                    found.append(f"{answer.status} instead of {wanted}: {answer.body[:200]!r}")
                elif status in {401, 403}:
                    found += refusal_faults(asked, sent, answer)
                if is_undeclared(endpoint, answer.status):
                    found.append(f"{answer.status} is not declared")
                wrong += [f"[{sent}] {fault}" for fault in found]

        assert not wrong, "\n".join(wrong)
        assert not (changed := difference(before, cast.stage.now())), "\n".join(changed)

    @pytest.mark.slow
    async def test_admits_the_callers_of_the_decision_table(self, cast: Cast, endpoint: Endpoint):
        """Each combination that suffices succeeds, or gets the error of its request."""
        asked, wrong = asked_by(endpoint), []
        globex = essence(cast.stage.ledger.dump(cast.stage.world.globex.tenant))

        for sent, _ in cells(endpoint, admitted=True):
            tenant = acting(asked, sent)
            is_costly = endpoint.path.endswith(HASHING) and sent not in LOGINS_OF
            body = b"{}" if is_costly else _encoded(cast, endpoint, tenant)
            answer = await _ask(cast, endpoint, sent, body)
            found = [*faults(answer, endpoint.path), *leaks(cast, answer, but=tenant)]
            if not 200 <= answer.status < 300 and answer.status not in LEGITIMATE:
                found.append(f"{answer.status}: {answer.body[:200]!r}")
            if is_undeclared(endpoint, answer.status):
                found.append(f"{answer.status} is not declared")
            if endpoint.method != "GET" and answer.status < 300:
                if tenant != "globex":
                    now = essence(cast.stage.ledger.dump(cast.stage.world.globex.tenant))
                    found += ["changed the other tenant"] if now != globex else []
                await cast.stage.restore(tenant)
            wrong += [f"[{sent}] {fault}" for fault in found]

        assert not wrong, "\n".join(wrong)
        assert not (changed := cast.stage.changes()), "\n".join(changed)

    async def test_takes_what_the_matrix_sends(self, cast: Cast, endpoint: Endpoint):
        """The bodies of the matrix are valid, so that the refusals are due to credentials."""
        suffices = [sent for sent, _ in cells(endpoint, admitted=True) if sent in CANONICAL]
        assert suffices, "nobody is let in"

        for sent in suffices:
            tenant = acting(asked_by(endpoint), sent)
            answer = await _ask(cast, endpoint, sent, _encoded(cast, endpoint, tenant))
            await cast.stage.restore(tenant)

            if endpoint.reads_body:
                assert answer.status != 400, f"give it a sample: {answer.body!r}"
            has_known_path = all(name in cast.stage.ids for name in _names(endpoint.path))
            if endpoint.method == "GET" and has_known_path:
                assert answer.status == 200


@pytest.mark.parametrize("endpoint", CLOSED)
class TestClosedEndpoint:
    async def test_reveals_nothing_to_a_refused_caller(self, cast: Cast, endpoint: Endpoint):
        """Whatever else is wrong with a request, a refused caller learns only of the refusal."""
        asked = asked_by(endpoint)
        path = path_of(endpoint, dict.fromkeys(_names(endpoint.path), "no-guid"))

        for sent in (Combination(), Combination("unknown", "forged")):
            headers = cast.headers(sent)
            answers = [
                await cast.stage.ask(endpoint, headers=headers),
                await cast.stage.ask(endpoint, headers=headers, path=path),
                await cast.stage.ask(endpoint, headers=headers, body=b"x" * 2_000_000),
                await cast.stage.ask(endpoint, headers=headers, query=b"page=0&page=%ff"),
                await cast.stage.ask(
                    endpoint, headers=[*headers, ("content-type", "text/plain")], body=b"x"
                ),
            ]

            assert {answer.status for answer in answers} == {expected(asked, sent)} == {401}
            assert len({answer.body for answer in answers}) == 1


@pytest.mark.parametrize("endpoint", READING)
class TestReadingEndpoint:
    async def test_answers_head_like_get_without_a_body(self, cast: Cast, endpoint: Endpoint):
        """HEAD has the status of GET, for every caller."""
        head = _with_method(endpoint, "HEAD")

        for sent in CANONICAL:
            got = await cast.stage.ask(endpoint, headers=cast.headers(sent))
            answer = await cast.stage.ask(head, headers=cast.headers(sent))

            assert answer.status == got.status
            assert answer.body == b""
            assert list(faults(answer, endpoint.path, has_body=False)) == []
            assert answer.said.get("content-type") == got.said.get("content-type")


class TestMatrix:
    async def test_sends_invalid_token_only_for_tokens(self, cast: Cast):
        """A challenge says ``invalid_token`` of tokens alone (RFC 6750, section 3.1)."""
        endpoint = next(one for one in ENDPOINTS if level_of(one.path) == "Admin")

        for bearer in sorted(NO_TOKENS):
            answer = await cast.stage.ask(
                endpoint, headers=cast.headers(Combination(bearer=bearer))
            )

            assert answer.status == 401
            assert answer.said["www-authenticate"] == "Bearer"

    async def test_gives_every_request_a_new_id(self, cast: Cast):
        """A request id is never reused, and a client cannot choose it."""
        endpoint = ENDPOINTS[0]
        answers = [
            await cast.stage.ask(endpoint, headers=[("x-request-id", "mine")]) for _ in range(50)
        ]

        assert len({answer.said["x-request-id"] for answer in answers} - {"mine"}) == 50

    async def test_has_a_cell_for_every_scope(self):
        """The tokens of the matrix lack each scope once."""
        demanded = {asked_by(endpoint).scope for endpoint in ENDPOINTS} - {None}

        assert demanded <= SCOPES

    async def test_leaves_the_other_tenant_as_it_was(self, cast: Cast):
        """After all requests, the users and posts of the other tenant are unchanged."""
        globex = cast.stage.world.globex.tenant

        assert essence(cast.stage.ledger.dump(globex)) == essence(cast.stage.begun["globex"])


async def _ask(cast: Cast, endpoint: Endpoint, sent: Combination, body: bytes) -> Answer:
    headers, query = cast.headers(sent), cast.stage.query(endpoint)
    return await cast.stage.ask(endpoint, headers=headers, body=body, query=query)


def _encoded(cast: Cast, endpoint: Endpoint, tenant: str) -> bytes:
    return msgspec.json.encode(cast.stage.body(endpoint, tenant)) if endpoint.reads_body else b""


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _with_method(endpoint: Endpoint, method: str) -> Endpoint:
    return dataclasses.replace(endpoint, method=method)
