"""Long texts are folded in one thread, in short turns for the tenants."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tenantry.kit.ids import new_id
from tenantry.tenant.blog.folding import SHORT_CHARS, Folding
from tenantry.tenant.blog.searching import Folded

LONG = "a\u0315\u0323\u0301 " * 300_000
"""It takes many turns on any machine."""
ACME, GLOBEX = new_id(), new_id()


@pytest.fixture(name="folding")
async def _folding() -> AsyncIterator[Folding]:
    folding = Folding()
    yield folding
    folding.close()


async def test_a_tenant_with_many_texts_delays_another_by_one(folding: Folding):
    ended: list[str] = []

    async def fold(name: str, text: str) -> None:
        await folding.fold(ACME if name == "acme" else GLOBEX, None, text)
        ended.append(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(fold("acme", LONG))
        await asyncio.sleep(0)
        group.create_task(fold("globex", LONG))

    assert ended.index("globex") <= 2


async def test_long_texts_of_a_tenant_do_not_delay_an_ordinary_one_of_another(folding: Folding):
    """It waits for a turn of each, and not for a text."""
    long = [asyncio.create_task(folding.fold(ACME, None, LONG)) for _ in range(4)]
    await asyncio.sleep(0)

    folded = await folding.fold(GLOBEX, "A title", "Some words " * 5_000)

    assert not any(one.done() for one in long)
    assert folded.content == ("some words " * 5_000).strip()
    for one in long:
        await one


async def test_a_short_text_waits_for_none(folding: Folding):
    long = asyncio.create_task(folding.fold(ACME, None, LONG))
    await asyncio.sleep(0)

    short = await folding.fold(GLOBEX, "A title", "B" * (SHORT_CHARS - 10))

    assert not long.done()
    assert short == Folded("a title", "b" * (SHORT_CHARS - 10))
    await long


async def test_a_cancelled_text_leaves_the_queue(folding: Folding):
    first = asyncio.create_task(folding.fold(ACME, None, LONG))
    second = asyncio.create_task(folding.fold(ACME, None, LONG))
    await asyncio.sleep(0)
    second.cancel()

    await first

    assert (
        await folding.fold(GLOBEX, None, "x" * SHORT_CHARS * 2)
    ).content == "x" * SHORT_CHARS * 2
