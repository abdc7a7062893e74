"""A request that changes nothing changes nothing: no audit entry, no new time, no new version."""

from collections.abc import AsyncIterator
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
import sqlalchemy as sa

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from tenantry.catalog.tables import job
from testkit.request_samples import params
from tests.contracts.ledger import Dump, difference
from tests.contracts.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

# A new password is always a change: its hash is a new one.
ALWAYS_CHANGE = {"/api/tenant/auth/change-password"}
# They set a state, or cancel what is there.
SETTING = {
    "/api/tenant/blog/posts/{postId}/publish",
    "/api/tenant/blog/posts/{postId}/unpublish",
    "/api/admin/jobs/cancel-queued",
    "/api/admin/tenants/move-all",
}
UPDATING = [
    one
    for one in ENDPOINTS
    if (one.method in {"PUT", "PATCH"} and one.path not in ALWAYS_CHANGE) or one.path in SETTING
]


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _restored(stage: Stage) -> AsyncIterator[None]:
    yield
    await stage.restore()


def body_of(stage: Stage, endpoint: Endpoint) -> bytes:
    body = stage.body(endpoint)
    if endpoint.method == "PATCH":
        body.pop("password", None)
        body["isActive"] = True
    return msgspec.json.encode(body)


async def change(stage: Stage, endpoint: Endpoint, body: bytes) -> dict[str, Dump]:
    """Send the request, and return everything that is stored then."""
    ids = {**stage.ids, "adminId": str(stage.world.admin_account.id)}
    path = endpoint.path
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body, path=path)
    assert answer.status in {200, 202}, answer.body
    return stage.now()


@pytest.mark.parametrize("endpoint", params(UPDATING))
async def test_a_repeated_update_changes_nothing(stage: Stage, endpoint: Endpoint) -> None:
    body = body_of(stage, endpoint)
    once = await change(stage, endpoint, body)

    assert difference(once, await change(stage, endpoint, body)) == []


async def test_a_cancelled_job_is_cancelled_once(stage: Stage) -> None:
    """Of a running job: it ends later, and the log has one entry."""
    of_job = job.c.id == UUID(stage.ids["jobId"])
    await stage.ledger.write(
        stage.ledger.catalog, sa.update(job).where(of_job).values(state="running")
    )
    (cancel,) = (one for one in ENDPOINTS if one.path == "/api/admin/jobs/{jobId}/cancel")
    once = await change(stage, cancel, b"{}")

    assert difference(once, await change(stage, cancel, b"{}")) == []
