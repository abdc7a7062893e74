"""A request passes through no more modules and functions than docs/architecture.md records."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tools import hops

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
ROW = re.compile(r"\| (?P<title>[^|]+) \| (?P<modules>\d+) \| (?P<functions>\d+) \|")


@pytest_asyncio.fixture(name="stage")
async def _stage(tmp_path: Path) -> AsyncIterator[hops.Stage]:
    async with hops.staged(tmp_path) as stage:
        yield stage


@pytest.mark.parametrize("name", hops.REQUESTS)
async def test_a_request_passes_through_no_more_functions_than_recorded(
    stage: hops.Stage, name: str
):
    rows = map(ROW.fullmatch, ARCHITECTURE.read_text().splitlines())
    recorded = {row["title"]: row for row in rows if row}[hops.REQUESTS[name][0]]

    most = int(recorded["modules"]), int(recorded["functions"])
    found = await hops.hops_of(stage, name)

    assert len(found.modules) <= most[0], sorted(found.modules)
    assert len(found.functions) <= most[1], sorted(found.functions)
