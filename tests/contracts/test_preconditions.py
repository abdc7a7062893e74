"""Two clients that edit the same resource lose no change: If-Match is obeyed by every endpoint."""

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
import pytest_asyncio

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from testkit.asgi import Answer
from testkit.request_samples import params
from tests.contracts.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

STALE = '"00000000000000000000000000000000"'
READ = {one.path: one for one in ENDPOINTS if one.method == "GET"}
CHANGING = [one for one in ENDPOINTS if one.has_precondition]


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _restored(stage: Stage) -> AsyncIterator[None]:
    yield
    await stage.restore()


def requiring(stage: Stage) -> Stage:
    """Return the stage of a service that requires If-Match of every change."""
    settings = stage.world.services.settings.model_copy(update={"require_if_match": "1"})
    return replace(stage, world=stage.world.with_services(settings=settings))


def resource_of(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint that reads what *endpoint* changes."""
    path = endpoint.path
    while path not in READ or READ[path].edits is not endpoint.edits:
        path = path.rpartition("/")[0]
    return READ[path]


async def tag_of(stage: Stage, endpoint: Endpoint) -> str:
    """Return the entity tag of the resource that an endpoint changes."""
    read = resource_of(endpoint)
    answer = await stage.ask(read, headers=stage.good(read))
    assert answer.status == 200, answer.body
    tag = dict(answer.headers)["etag"]
    again = await stage.ask(read, headers=[*stage.good(read), ("if-none-match", tag)])
    assert (again.status, again.body) == (304, b"")
    return tag


async def change(stage: Stage, endpoint: Endpoint, **headers: str) -> Answer:
    sent = [*stage.good(endpoint), *((name.replace("_", "-"), headers[name]) for name in headers)]
    body = msgspec.json.encode(stage.body(endpoint)) if endpoint.reads_body else b""
    return await stage.ask(endpoint, headers=sent, body=body, query=stage.query(endpoint))


async def test_every_resource_that_is_read_and_replaced_has_preconditions() -> None:
    changes = [one for one in ENDPOINTS if one.method in {"PUT", "PATCH", "DELETE"}]
    both = {one.path for one in changes if one.path in READ}

    assert both <= {one.path for one in CHANGING}
    assert {READ[path].edits for path in both} == {one.edits for one in CHANGING}


@pytest.mark.parametrize("endpoint", params(CHANGING))
async def test_a_change_of_what_has_changed_is_412_and_changes_nothing(
    stage: Stage, endpoint: Endpoint
) -> None:
    weak = f"W/{await tag_of(stage, endpoint)}"
    for stale in (STALE, weak, f'{STALE}, "other"', "", " , "):
        answer = await change(stage, endpoint, if_match=stale)

        assert answer.status == 412, answer.body
        assert stage.changes() == []


@pytest.mark.parametrize("endpoint", params(CHANGING))
async def test_a_change_of_what_was_read_is_made(stage: Stage, endpoint: Endpoint) -> None:
    tag = await tag_of(stage, endpoint)

    answer = await change(stage, endpoint, if_match=f"{STALE}, {tag}")

    # Of an active tenant, the deletion is 409: the precondition was true.
    assert answer.status in {200, 409}, answer.body
    if "etag" in dict(answer.headers):
        assert dict(answer.headers)["etag"] == await tag_of(stage, endpoint)


@pytest.mark.parametrize("endpoint", params(CHANGING))
async def test_a_change_of_only_what_is_absent_or_another_is_412(
    stage: Stage, endpoint: Endpoint
) -> None:
    """`If-None-Match`: the asterisk, or the tag of what there is (RFC 9110, section 13.1.2)."""
    tag = await tag_of(stage, endpoint)
    for present in ("*", f"{STALE}, W/{tag}"):
        answer = await change(stage, endpoint, if_none_match=present)

        assert answer.status == 412, answer.body
        assert stage.changes() == []

    assert (await change(stage, endpoint, if_none_match=STALE)).status in {200, 409}


@pytest.mark.parametrize("endpoint", params(CHANGING))
async def test_an_operator_can_require_preconditions(stage: Stage, endpoint: Endpoint) -> None:
    strict = requiring(stage)

    answer = await change(strict, endpoint)
    assert answer.status == 428, answer.body
    assert stage.changes() == []

    assert (await change(strict, endpoint, if_match="*")).status in {200, 409}
