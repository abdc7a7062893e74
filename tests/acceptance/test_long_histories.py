"""The history of large fleets: streamed, compressed, in little memory, and always adding up."""

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from testkit.programs import free_port, running, variables
from tests.acceptance.histories import add_run
from tests.acceptance.shapes import (
    MIGRATION_RUN,
    Shape,
    is_count,
    is_guid,
    is_text,
    list_of,
    must_be,
    page_of,
)
from tests.acceptance.sockets import served
from tests.acceptance.support import HISTORY, UNKNOWN_ID, ok, refused
from tests.conftest import World

pytestmark = pytest.mark.slow

# How many details each run of a page has.
SIZES = (1_000,) * 9 + (10_000,)
# Whole, it would be several times as much.
GROWTH_BYTES_MAX = 8_000_000

CAUSES: Shape = {
    "items": list_of(
        {"cause": is_text, "count": is_count, "left": is_count, "sampleCustomerId": is_guid}
    )
}


class TestDetails:
    async def test_are_those_that_are_asked_for(self, world: World) -> None:
        """All of them unless it is said otherwise; the counts are always of all."""
        run_id = await add_run(world, ["Success", "Failed", "Success"])
        admin = await world.admin()

        for path in (HISTORY, f"{HISTORY}/{run_id}"):

            async def ask(query: str, path: str = path) -> Any:
                data = ok(await admin.get(f"{path}{query}"))
                run = data["items"][0] if path == HISTORY else data
                must_be(data, page_of(MIGRATION_RUN) if path == HISTORY else MIGRATION_RUN)
                assert (run["totalCount"], run["successCount"], run["failedCount"]) == (3, 2, 1)
                return run["details"]

            every = await ask("")
            assert [one["customerName"] for one in every] == [
                f"Tenant number {number}" for number in (1, 2, 3)
            ]
            assert await ask("?details=all") == every
            assert await ask("?details=failed") == [every[1]]
            assert await ask("?details=none") == []
            for bad in ("?details=", "?details=ALL", "?details=1", "?details=all&details=all"):
                refused(await admin.get(f"{path}{bad}"), 400)

    async def test_are_as_many_as_the_counts_say(self, world: World) -> None:
        """A tenant that finishes after the run was read is in neither."""
        run_id = await add_run(world, ["Success", "Failed", "Failed"], total=4, counted=2)
        admin = await world.admin()

        run = ok(await admin.get(f"{HISTORY}/{run_id}"))
        failed = ok(await admin.get(f"{HISTORY}/{run_id}?details=failed"))

        assert run["finishedAt"] is None
        assert (run["successCount"], run["failedCount"], len(run["details"])) == (1, 1, 2)
        assert (failed["failedCount"], len(failed["details"])) == (1, 1)

    async def test_of_many_are_each_there_once(self, world: World) -> None:
        """However they are read; compressed where that is taken, and then it is the same."""
        states = ["Failed" if number % 3 else "Success" for number in range(1_234)]
        run_id = await add_run(world, states)
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at, at.client(authorization=bearer) as admin:
            plain = await admin.get(f"{HISTORY}/{run_id}", headers={"accept-encoding": "identity"})
            packed = await admin.get(f"{HISTORY}/{run_id}", headers={"accept-encoding": "gzip"})
            listed = ok(await admin.get(HISTORY))
            failed = ok(await admin.get(f"{HISTORY}/{run_id}?details=failed"))
            few = await admin.get(f"{HISTORY}?details=none", headers={"accept-encoding": "gzip"})

        run = ok(plain)
        must_be(run, MIGRATION_RUN)
        assert [one["status"] for one in run["details"]] == states
        assert len({one["customerId"] for one in run["details"]}) == 1_234
        assert listed["items"] == [run]
        assert failed["details"] == [one for one in run["details"] if one["status"] == "Failed"]
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == plain.headers["vary"] == "Authorization, Accept-Encoding"
        assert packed.json() == plain.json()
        assert "content-length" not in packed.headers
        assert "content-encoding" not in few.headers
        assert few.headers["content-length"] == str(len(few.content))


class TestMemory:
    async def test_does_not_grow_with_the_history(self, world: World, tmp_path: Path) -> None:
        """Nor with a single run of it: begun at once, and never in memory as a whole."""
        for size in reversed(SIZES):
            await add_run(world, ["Success", "Failed"] * (size // 2))
        port, token = free_port(), await world.admin_token()

        with running(
            tmp_path, "serve", "--port", str(port), **variables(world.services.settings)
        ) as program:
            program.wait_for("answers at")
            process = Path(f"/proc/{program.process.pid}")
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers={"authorization": f"Bearer {token}"},
                timeout=60,
            ) as admin:
                # What the first request of its kind brings in once.
                ok(await admin.get(f"{HISTORY}?pageSize=1"))
                # Reset the peak (proc(5)).
                (process / "clear_refs").write_text("5")
                before, began = peak_of(process), time.monotonic()
                chunks, first = [], 0.0
                async with admin.stream("GET", HISTORY) as answer:
                    async for chunk in answer.aiter_raw():
                        first = first or time.monotonic() - began
                        chunks.append(chunk)
                took = time.monotonic() - began
                grown = peak_of(process) - before

        page = json.loads(gzip.decompress(b"".join(chunks)))["data"]
        assert [len(run["details"]) for run in page["items"]] == list(SIZES)
        assert first < took / 2, f"the first chunk came after {first:.2f} s of {took:.2f} s"
        assert grown < GROWTH_BYTES_MAX, f"{grown:,} bytes more"


def peak_of(process: Path) -> int:
    """Return the most bytes of memory that a process has had."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", (process / "status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


class TestFailureCauses:
    async def test_are_counted_by_kind(self, world: World) -> None:
        """Errors of one kind are one cause, whatever names their messages hold."""
        run_id = await add_run(world, ["Success", "Failed", "Failed", "Failed"])
        admin = await world.admin()

        data = ok(await admin.get(f"{HISTORY}/{run_id}/failure-causes"))
        details = ok(await admin.get(f"{HISTORY}/{run_id}?details=failed"))["details"]

        must_be(data, CAUSES)
        [cause] = data["items"]
        assert (cause["count"], cause["left"]) == (3, 0), "these tenants do not exist"
        assert cause["cause"].startswith("0004_wrong: no such table: ")
        assert cause["sampleCustomerId"] in {one["customerId"] for one in details}

    async def test_of_a_run_without_failures_are_none(self, world: World) -> None:
        run_id = await add_run(world, ["Success"])
        admin = await world.admin()

        assert ok(await admin.get(f"{HISTORY}/{run_id}/failure-causes")) == {"items": []}
        for unknown in (UNKNOWN_ID, "1"):
            refused(await admin.get(f"{HISTORY}/{unknown}/failure-causes"), 404)


class TestHead:
    @pytest.mark.parametrize("query", ["", "?details=failed"])
    async def test_has_no_body(self, world: World, query: str) -> None:
        """The head of a long history, and the connection can be used again."""
        run_id = await add_run(world, ["Failed"] * 1_000)
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at, at.line() as line:
            for path in (HISTORY, f"{HISTORY}/{run_id}", f"{HISTORY}/{run_id}/events"):
                head = await line.ask("HEAD", f"{path}{query}", authorization=bearer)
                assert head.status == 200
                assert "transfer-encoding" not in head.said
