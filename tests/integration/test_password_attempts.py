"""The rows that count login attempts: what they allow, and when again."""

import asyncio
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tenantry.catalog import password_attempts
from tenantry.catalog.database import Catalog
from tenantry.catalog.password_attempts import Guess, Limits
from tenantry.catalog.tables import login_attempt
from tenantry.db.statements import Statement
from tenantry.services import Services

LIMITS = Limits(tries=3, account_hourly=500, address_minutely=50)
GUESS = Guess("the address", "the account", "the pair")
OWNER = "the account"
DEVICE = "the device"
HOUR_MS = 3_600_000


class Row(msgspec.Struct):
    key: str
    account: str
    failures: int
    since_ms: int
    next_ms: int


ROWS = Statement(
    sa.select(login_attempt).where(login_attempt.c.key != DEVICE).order_by(login_attempt.c.key), Row
)
REMOVE_ALL = Statement[Any](sa.delete(login_attempt))
AGE = Statement[Any](
    sa.update(login_attempt)
    .values(
        since_ms=login_attempt.c.since_ms - sa.bindparam("ms", type_=sa.BigInteger),
        next_ms=login_attempt.c.next_ms - sa.bindparam("ms", type_=sa.BigInteger),
    )
    .where(login_attempt.c.key == sa.bindparam("counter"))
)


@pytest.fixture(name="catalog")
def _catalog(services: Services) -> Catalog:
    return services.catalog


async def failures(catalog: Catalog) -> list[int]:
    """Return what is counted for the account, the address and the pair."""
    return [row.failures for row in await catalog.fetch_all(ROWS)]


async def fail(catalog: Catalog, times: int = 1, limits: Limits = LIMITS) -> list[int | None]:
    return [await password_attempts.take(catalog, GUESS, limits, owner=OWNER) for _ in range(times)]


async def age(catalog: Catalog, counter: str, ms: int) -> None:
    """Let time pass for one counter."""
    await catalog.execute(AGE, counter=counter, ms=ms)


class TestBackoff:
    async def test_allows_a_few_and_then_makes_wait(self, catalog: Catalog):
        *allowed, wait = await fail(catalog, 4)

        assert allowed == [None] * 3
        assert wait is not None
        assert 0 < wait <= 1_000
        assert await failures(catalog) == [3, 3, 3], "who is refused is not counted"

    async def test_doubles_the_wait_up_to_a_quarter_of_an_hour(self, catalog: Catalog):
        await fail(catalog, 3)
        waits = []
        for _ in range(30):
            await age(catalog, GUESS.pair, 900_000)
            allowed, wait = await fail(catalog, 2)
            assert allowed is None
            assert wait is not None
            waits.append(round(wait / 1000))

        assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, *[900] * 21]

    async def test_waits_from_the_first_failure_when_there_is_but_one_try(self, catalog: Catalog):
        limits = msgspec.structs.replace(LIMITS, tries=1)

        allowed, wait = await fail(catalog, 2, limits)

        assert allowed is None
        assert wait is not None
        assert 0 < wait <= 1_000

    async def test_begins_again_after_an_hour_of_quiet(self, catalog: Catalog):
        await fail(catalog, 3)
        await age(catalog, GUESS.pair, HOUR_MS)

        assert await fail(catalog, 3) == [None] * 3

    async def test_begins_again_when_the_password_is_right(self, catalog: Catalog):
        await fail(catalog, 3)
        await age(catalog, GUESS.pair, 1_000)
        await fail(catalog)

        await password_attempts.succeed(catalog, GUESS, owner=OWNER, device=DEVICE)

        assert await failures(catalog) == [3, 3, 0]
        assert await fail(catalog, 3) == [None] * 3


class TestWindow:
    async def test_of_an_address_is_over_a_minute_after_its_first_failure(self, catalog: Catalog):
        limits = Limits(tries=9, account_hourly=50, address_minutely=2)
        *allowed, wait = await fail(catalog, 3, limits)
        assert allowed == [None] * 2
        assert wait is not None
        assert 55_000 < wait <= 60_000

        await age(catalog, GUESS.address, 55_000)
        (wait,) = await fail(catalog, 1, limits)
        assert wait is not None
        assert 0 < wait <= 5_000

        await age(catalog, GUESS.address, 5_000)
        *allowed, wait = await fail(catalog, 3, limits)
        assert allowed == [None] * 2
        assert wait is not None

    async def test_gets_a_guess_back_that_was_right(self, catalog: Catalog):
        limits = Limits(tries=9, account_hourly=2, address_minutely=9)
        for _ in range(5):
            assert await fail(catalog, 1, limits) == [None]
            await password_attempts.succeed(catalog, GUESS, owner=OWNER, device=DEVICE)

        assert await failures(catalog) == [0, 0, 0]


class TestSpacing:
    async def test_of_an_account_allows_a_few_and_then_one_at_a_time(self, catalog: Catalog):
        limits = Limits(tries=50, account_hourly=15, address_minutely=50)
        *allowed, wait = await fail(catalog, 4, limits)
        assert allowed == [None] * 3
        assert wait is not None
        assert 295_000 < wait <= 300_000

        for _ in range(3):
            await age(catalog, GUESS.account, 300_000)
            allowed_again, wait = await fail(catalog, 2, limits)
            assert allowed_again is None
            assert wait is not None
            assert 295_000 < wait <= 300_000


class TestGuesses:
    async def test_at_the_same_moment_meet_the_limit(self, catalog: Catalog):
        """From other addresses at one account: one is accepted, and no other is counted."""
        limits = Limits(tries=9, account_hourly=1, address_minutely=9)
        for account in [f"account {n}" for n in range(30)]:
            guesses = [Guess(f"{account} {n}", account, f"its pair {n}") for n in range(8)]
            await catalog.execute(REMOVE_ALL)

            waits = await asyncio.gather(
                *(
                    password_attempts.take(catalog, guess, limits, owner=guess.account)
                    for guess in guesses
                )
            )

            assert waits.count(None) == 1
            assert sum(await failures(catalog)) == 3

    async def test_at_the_same_moment_from_one_address_meet_both_limits(self, catalog: Catalog):
        """Where the account and the pair are taken, and the address is not."""
        limits = Limits(tries=1, account_hourly=5, address_minutely=9)
        for _ in range(30):
            await catalog.execute(REMOVE_ALL)

            waits = await asyncio.gather(
                *(password_attempts.take(catalog, GUESS, limits, owner=OWNER) for _ in range(8))
            )

            assert waits.count(None) == 1
            assert await failures(catalog) == [1, 1, 1], "no other counter is made"

    async def test_that_were_neither_right_nor_wrong_are_given_back(self, catalog: Catalog):
        await fail(catalog, 2)

        await password_attempts.give_back(catalog, GUESS, owner=OWNER)

        assert await failures(catalog) == [1, 1, 1]
