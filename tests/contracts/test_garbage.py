"""A request leaves nothing that only the garbage collector can free.

A cycle of references in each request was measured to stall a busy process for 90 ms each second.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from tenantry.kit.text import MARKS_MAX
from tenantry.schemas.base import ZipFile
from tenantry.tenant.blog.folding import SHORT_CHARS
from tests.contracts.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPEATED = [
    pytest.param(one, id=f"{one.method} {one.path}")
    for one in ENDPOINTS
    if not one.is_event_stream
    and one.response is not ZipFile  # it reads the schema with SQLAlchemy, which leaves cycles
    and (one.method == "GET" or one.path.endswith("/profile") or "login" in one.path)
]
TIMES = 3
ADD_POST = ("POST", "/api/tenant/blog/posts")


@contextmanager
def garbage() -> Iterator[list[str]]:
    """Yield a list; after the block it has the names of what is ours and was often in cycles.

    Background work goes on beside it. So what was found less often than requests were sent does
    not count.
    """
    found: list[str] = []
    names: Counter[str] = Counter()
    # Objects that exist already are not examined: that takes most of a second.
    gc.freeze()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        for one in gc.garbage:
            module = getattr(one, "__module__", None) or type(one).__module__
            if str(module).startswith("tenantry"):
                names[getattr(one, "__qualname__", type(one).__qualname__)] += 1
        found += [name for name, times in names.items() if times >= TIMES]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


class TestEveryRequest:
    @pytest.mark.parametrize("endpoint", REPEATED)
    async def test_leaves_no_cycle(self, stage: Stage, endpoint: Endpoint):
        """Neither when it is answered, nor when it is refused."""
        body = msgspec.json.encode(stage.body(endpoint)) if endpoint.reads_body else b""
        query = stage.query(endpoint)
        callers = (stage.good(endpoint), [])
        for headers in callers:
            await stage.ask(endpoint, headers=headers, body=body, query=query)

        with garbage() as found:
            for headers in callers * TIMES:
                await stage.ask(endpoint, headers=headers, body=body, query=query)

        assert found == []

    async def test_leaves_no_long_text_that_a_thread_has_refused(self, stage: Stage):
        """The error of a thread refers to the text, and the future of the thread to the error."""
        (endpoint,) = [one for one in ENDPOINTS if (one.method, one.path) == ADD_POST]
        text = " " * (SHORT_CHARS + 1) + "e" + "\u0300" * (MARKS_MAX + 1)
        body = msgspec.json.encode({"title": "Marks", "content": text})
        headers = stage.good(endpoint)
        assert (await stage.ask(endpoint, headers=headers, body=body)).status == 400

        with garbage() as found:
            for _ in range(TIMES + 1):  # the last one can still be in use
                await stage.ask(endpoint, headers=headers, body=body)

        assert found == []
