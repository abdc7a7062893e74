"""POST /api/tenant/auth/login."""

import asyncio
import dataclasses
import resource
import time
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import argon2
import jwt
import pytest

from tenantry.access.cpu_queue import PLACES_OF_ADDRESS_MAX
from tenantry.catalog.password_attempts import limits_of
from tenantry.kit.clock import utc_now
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.faults import Faults
from tests.acceptance.shapes import LOGIN_RESULT, instant, must_be
from tests.acceptance.support import (
    BROKEN_JSON,
    CHANGE_PASSWORD,
    LOGIN,
    LOGIN_REFUSED,
    MODULES,
    NEW_PASSWORD,
    OWN_TOKENS,
    PROFILE,
    TENANTS,
    add_user,
    at,
    catalog_of,
    count_hashes,
    database_of,
    done,
    encoded,
    let_waits_pass,
    log_in,
    make_hashing_cheap,
    ok,
    patch_tenant,
    patch_user,
    refused,
    with_long_waits,
)
from tests.conftest import PASSWORD, World

BAD_LOGINS: tuple[Any, ...] = (
    {"email": "owner@acme.example.com"},
    {"password": PASSWORD},
    {"email": None, "password": PASSWORD},
    {"email": "owner@acme.example.com", "password": None},
    {"email": 1, "password": PASSWORD},
    {"email": ["owner@acme.example.com"], "password": PASSWORD},
    {"email": "owner@acme.example.com", "password": {"a": 1}},
    {"email": "owner@acme.example.com", "password": 10**400},
    {"email": "owner@acme.example.com", "password": f"{PASSWORD}\0"},
    {"email": "owner@acme.example.com\0", "password": PASSWORD},
    {"email": "owner@acme.example.com", "password": "\ud800 alone"},
    {"email": "\udfff@acme.example.com", "password": PASSWORD},
)

HOSTILE_HASHES = (
    "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=4294967295,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=19456,t=4294967295,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=19456,t=100000,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=134217728,t=2,p=16777215$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=" + "9" * 4_000 + ",t=2,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=-1,t=-1,p=-1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=0,t=0,p=0$$",
    "$argon2id$v=19$m=4194304,t=2,p=1,m=8$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$argon2id$v=19$m=19456,t=2,p=1$" + "A" * 1_000_000 + "$" + "A" * 43,
    "$argon2id$v=19$m=19456,t=2,p=1$\u0661\u0662\u0663$\N{SNOWMAN}",
    "$argon2i$v=16$m=4194304,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    "$2b$31$" + "A" * 53,
    "not a hash",
    "",
)
MEMORY_KIB_GROWN_MAX = 128 * 1024


class TestLogin:
    async def test_returns_a_token_and_its_expiry(self, world: World) -> None:
        """A LoginResult and nothing else, for the key, the address and the password alone."""
        answer = await log_in(world, world.acme)

        result = ok(answer)
        must_be(result, LOGIN_RESULT)
        assert answer.headers["cache-control"] == "no-store"
        left = instant(result["expiresAt"]) - utc_now()
        assert timedelta(minutes=59) < left <= timedelta(minutes=60)

    async def test_returns_what_opens_tenant_endpoints(self, world: World) -> None:
        """The token is sent as a bearer, together with the key."""
        token = ok(await log_in(world, world.acme))["token"]
        client = world.client(authorization=f"Bearer {token}", x_api_key=world.acme.key.secret)

        assert ok(await client.get(PROFILE))["email"] == world.acme.owner.email
        assert ok(await client.get(MODULES))["items"]

    async def test_signs_the_claims(self, world: World) -> None:
        """nameid, email, role, TenantId and exp, verifiable by the published keys."""
        result = ok(await log_in(world, world.acme))

        keys = (await world.stranger().get("/.well-known/jwks.json")).json()["keys"]
        header = jwt.get_unverified_header(result["token"])
        [key] = [one for one in keys if one["kid"] == header["kid"]]
        claims = jwt.decode(
            result["token"], jwt.PyJWK(key), algorithms=["EdDSA"], audience="tenantry/tenant"
        )
        assert header["alg"] == "EdDSA"
        assert claims["nameid"] == str(world.acme.owner.id)
        assert claims["email"] == world.acme.owner.email
        assert claims["role"] == "TenantUser"
        assert claims["TenantId"] == str(world.acme.tenant.id)
        assert claims["exp"] == instant(result["expiresAt"]).timestamp()
        assert {"iss", "aud", "iat", "jti"} <= set(claims)
        assert claims["exp"] - claims["iat"] in {3599, 3600}

    async def test_needs_the_key_of_a_tenant_and_nothing_else(self, world: World) -> None:
        """401 without a valid key; other credentials are ignored."""
        body = {"email": world.acme.owner.email, "password": PASSWORD}
        key = world.acme.key.secret
        token = await world.token(world.acme)
        mcp_token = await world.mcp_token(world.acme)

        for client in (
            world.stranger(),
            world.client(x_api_key=""),
            world.client(x_api_key="   "),
            world.client(x_api_key="tnk_unknown"),
            world.client(x_api_key=key[:-1]),
            world.client(x_api_key=mcp_token),
            world.client(authorization=f"Bearer {key}"),
            world.client(authorization=f"Bearer {token}"),
            world.client(x_mcp_token=mcp_token),
            world.client(cookie=f"X-Api-Key={key}"),
        ):
            refused(await client.post(LOGIN, json=body), 401)
        for query in ({"X-Api-Key": key}, {"x-api-key": key}, {"apiKey": key}):
            refused(await world.stranger().post(LOGIN, json=body, params=query), 401)
        beside = world.client(x_api_key=key, authorization="Bearer rubbish", x_mcp_token="tnm_no")
        ok(await beside.post(LOGIN, json=body))
        twice = world.stranger()
        twice.headers.update([("x-api-key", key)])
        answer = await twice.post(LOGIN, json=body, headers=[("x-api-key", key)] * 2)
        refused(answer, 400)

    async def test_accepts_only_users_of_the_tenant_of_the_key(self, world: World) -> None:
        """The key identifies the tenant: a user of another tenant is unknown there."""
        answer = await log_in(world, world.globex, email=world.acme.owner.email)

        refused(answer, 401, LOGIN_REFUSED)

    async def test_answers_every_failure_alike(self, world: World) -> None:
        """Unknown address, wrong password, inactive user: one status, one body, one head."""
        idle = await add_user(world, world.acme, "idle@acme.example.com")
        await patch_user(world, world.acme, idle["id"], isActive=False)

        answers = [
            await log_in(world, world.acme, email="nobody@acme.example.com"),
            await log_in(world, world.acme, "wrong password"),
            await log_in(world, world.acme, email="idle@acme.example.com"),
            await log_in(world, world.acme, "", email=""),
            await log_in(world, world.acme, email="no address at all"),
            await log_in(world, world.acme, "x" * 5_000),
        ]

        for answer in answers:
            refused(answer, 401, LOGIN_REFUSED)
        assert {answer.content for answer in answers} == {answers[0].content}
        assert {tuple(answer.headers) for answer in answers} == {tuple(answers[0].headers)}
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}

    async def test_refuses_a_suspended_tenant(self, world: World) -> None:
        """403 at the next request, and accepted again when the tenant is active again."""
        await patch_tenant(world, world.acme, isActive=False)
        refused(await log_in(world, world.acme), 403)
        ok(await log_in(world, world.globex))

        await patch_tenant(world, world.acme, isActive=True)

        ok(await log_in(world, world.acme))

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400 with a readable message; without a valid key 401, whatever the body."""
        client = world.public(world.acme)

        for body in BROKEN_JSON:
            refused(await client.post(LOGIN, content=body), 400)
        for member in BAD_LOGINS:
            refused(await client.post(LOGIN, content=encoded(member)), 400)
        assert "password" in refused(await client.post(LOGIN, json={"email": "a@example.com"}), 400)
        refused(await world.stranger().post(LOGIN, content=b"{"), 401)
        plain = {"content-type": "text/plain"}
        refused(await client.post(LOGIN, content=b"{}", headers=plain), 415)
        refused(await client.post(LOGIN, content=b" " * 65_537), 413)

    async def test_ignores_unknown_members(self, world: World) -> None:
        """A client may send more than the service knows."""
        body = {"email": world.acme.owner.email, "password": PASSWORD, "x": "\0", "y": [{}]}

        ok(await world.public(world.acme).post(LOGIN, json=body))

    async def test_ignores_an_unpaired_surrogate_in_other_members(self, world: World) -> None:
        """An unpaired surrogate is 400 in a known member; in another it is ignored."""
        body = {"email": world.acme.owner.email, "password": PASSWORD, "x": "\ud800"}

        ok(await world.public(world.acme).post(LOGIN, content=encoded(body)))

    async def test_reads_a_body_without_a_content_type_as_json(self, world: World) -> None:
        """All bodies are JSON, with or without the header."""
        body = f'{{"email": "{world.acme.owner.email}", "password": "{PASSWORD}"}}'

        ok(await world.public(world.acme).post(LOGIN, content=body))

    async def test_costs_one_verification_in_every_branch(
        self, world: World, faults: Faults
    ) -> None:
        """So that the response time reveals nothing; the decoy has the current cost."""
        idle = await add_user(world, world.acme, "idle@acme.example.com")
        await patch_user(world, world.acme, idle["id"], isActive=False)
        hashes = count_hashes(faults)

        costs = []
        for email, password in (
            (world.acme.owner.email, PASSWORD),
            (world.acme.owner.email, "wrong password"),
            ("nobody@acme.example.com", PASSWORD),
            ("idle@acme.example.com", PASSWORD),
        ):
            await log_in(world, world.acme, password, email=email)
            costs.append(len(hashes.verified))

        assert costs == [1, 2, 3, 4]
        assert hashes.made == 0
        asked = [argon2.extract_parameters(stored) for stored in hashes.verified]
        costs_asked = {(one.memory_cost, one.time_cost, one.parallelism) for one in asked}
        assert costs_asked == {(19_456, 2, 1)}

    async def test_costs_as_much_without_an_account_in_every_form(
        self, world: World, faults: Faults
    ) -> None:
        """A password that Unicode writes in two ways costs two hashes, for every account."""
        hashes = count_hashes(faults)

        costs = []
        for email in (world.acme.owner.email, "nobody@acme.example.com"):
            for wrong in ("Cafe\u0301 wrong", "Cafe\u0301" + " wrong" * 200):
                before = len(hashes.verified)
                await log_in(world, world.acme, wrong, email=email)
                costs.append(len(hashes.verified) - before)

        assert costs == [2, 1, 2, 1]

    @pytest.mark.slow
    async def test_is_not_harmed_by_a_hostile_hash(self, world: World) -> None:
        """A stored hash with absurd parameters is a failed login, and costs no time and memory."""
        raw = database_of(world, world.acme.tenant)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        for number, stored in enumerate(HOSTILE_HASHES):
            raw.run("UPDATE tenantry_user SET password_hash = ?", stored)
            began = time.process_time()  # other programs do not count
            answer = await log_in(world, world.acme, address=f"192.0.2.{number}")
            assert time.process_time() - began < 1
            refused(answer, 401, LOGIN_REFUSED)

        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < MEMORY_KIB_GROWN_MAX

    async def test_rehashes_when_the_cost_has_risen(self, world: World) -> None:
        """A hash of a lower cost is replaced by the login that proves the password."""
        raw = database_of(world, world.acme.tenant)
        cheap = argon2.PasswordHasher(time_cost=1, memory_cost=1_024, parallelism=1)
        raw.run("UPDATE tenantry_user SET password_hash = ?", cheap.hash(PASSWORD))

        refused(await log_in(world, world.acme, "wrong password"), 401, LOGIN_REFUSED)
        [(unchanged,)] = raw.run("SELECT password_hash FROM tenantry_user")
        ok(await log_in(world, world.acme))
        [(stored,)] = raw.run("SELECT password_hash FROM tenantry_user")

        assert argon2.extract_parameters(unchanged).memory_cost == 1_024
        found = argon2.extract_parameters(stored)
        assert (found.memory_cost, found.time_cost, found.parallelism) == (19_456, 2, 1)
        ok(await log_in(world, world.acme))
        assert raw.run("SELECT password_hash FROM tenantry_user") == [(stored,)]


class TestGuessing:
    async def test_lets_five_of_a_burst_reach_the_hasher(
        self, world: World, faults: Faults
    ) -> None:
        """Attempts are counted before they are hashed, also when they are simultaneous."""
        world = with_long_waits(world)
        hashes = count_hashes(faults)

        answers = await asyncio.gather(
            *(log_in(world, world.acme, f"wrong {number}") for number in range(30))
        )

        assert 1 <= len(hashes.verified) <= 5
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(401) == len(hashes.verified)
        assert statuses.count(429) == 30 - len(hashes.verified)

    async def test_requires_a_wait_after_five_failures(self, world: World) -> None:
        """Then 429 with Retry-After, for this account only, whether it exists or not."""
        world = with_long_waits(world)
        nobody = "nobody@acme.example.com"
        # The same account, however its address is spelt.
        spellings = (world.acme.owner.email, world.acme.owner.email.upper())
        for number in range(5):
            wrong = await log_in(world, world.acme, "wrong", email=spellings[number % 2])
            refused(wrong, 401, LOGIN_REFUSED)
            refused(await log_in(world, world.acme, "wrong", email=nobody), 401, LOGIN_REFUSED)

        known = await log_in(world, world.acme)
        unknown = await log_in(world, world.acme, email=nobody)

        refused(known, 429)
        refused(unknown, 429)
        assert known.content == unknown.content
        assert tuple(known.headers) == tuple(unknown.headers)
        refused(await log_in(world, world.acme, "wrong"), 429)
        forwarded = at(world, "127.0.0.1", x_api_key=world.acme.key.secret)
        forwarded.headers["x-forwarded-for"] = "198.51.100.9"
        body = {"email": world.acme.owner.email, "password": PASSWORD}
        refused(await forwarded.post(LOGIN, json=body), 429)
        same_email = await add_user(world, world.globex, world.acme.owner.email)
        ok(await log_in(world, world.globex, email=same_email["email"]))
        await add_user(world, world.acme, "other@acme.example.com")
        ok(await log_in(world, world.acme, email="other@acme.example.com"))
        ok(await log_in(world, world.acme, address="198.51.100.7"))

    async def test_counts_no_entered_text_as_a_user(self, world: World) -> None:
        """Not the id of one either, which is in logs."""
        admin = await world.admin()
        users = ok(await admin.get(f"/api/admin/tenants/{world.acme.tenant.id}/users"))["items"]
        for _ in range(5):
            wrong = await log_in(world, world.acme, "wrong", email=users[0]["id"])
            refused(wrong, 401, LOGIN_REFUSED)

        ok(await log_in(world, world.acme, email=users[0]["email"]))

    @pytest.mark.slow
    async def test_doubles_the_wait(self, world: World) -> None:
        """Once after the fifth failure, twice as long after the sixth."""
        world = with_long_waits(world)
        for _ in range(5):
            await log_in(world, world.acme, "wrong")
        first = await log_in(world, world.acme, "wrong")
        await let_waits_pass(world, 61)
        sixth = await log_in(world, world.acme, "wrong")
        second = await log_in(world, world.acme, "wrong")

        refused(first, 429)
        assert 0 < int(first.headers["retry-after"]) <= 60
        refused(sixth, 401, LOGIN_REFUSED)
        refused(second, 429)
        assert 60 < int(second.headers["retry-after"]) <= 120
        assert limits_of(world.services.settings).first_ms == 1_000

    @pytest.mark.slow
    async def test_forgets_the_failures_when_the_password_is_right(self, world: World) -> None:
        """A success clears the count: four failures before it and four after it cause no wait."""
        for _ in range(3):
            for _ in range(4):
                refused(await log_in(world, world.acme, "wrong"), 401, LOGIN_REFUSED)
            ok(await log_in(world, world.acme))

    @pytest.mark.slow
    async def test_counts_the_current_password_too(self, world: World) -> None:
        """A session cannot be used to guess the password through change-password."""
        world = with_long_waits(world)
        client = await world.owner(world.acme)
        body = {"currentPassword": "wrong", "newPassword": NEW_PASSWORD}
        for _ in range(5):
            refused(await client.put(CHANGE_PASSWORD, json=body), 400)

        right = {**body, "currentPassword": PASSWORD}
        refused(await client.put(CHANGE_PASSWORD, json=right), 429)
        refused(await log_in(world, world.acme), 429)
        await let_waits_pass(world, 61)

        done(await client.put(CHANGE_PASSWORD, json=right))
        ok(await log_in(world, world.acme, NEW_PASSWORD))

    async def test_counts_on_after_a_restart(self, world: World, settings: Settings) -> None:
        """The counters are rows of the catalog, not the memory of a process."""
        world = with_long_waits(world)
        body = {"email": world.acme.owner.email, "password": "wrong"}
        for _ in range(4):
            refused(await log_in(world, world.acme, "wrong"), 401, LOGIN_REFUSED)

        async with open_services(settings) as services:
            other = with_long_waits(dataclasses.replace(world, services=services))
            there = other.public(world.acme)
            fifth = await there.post(LOGIN, json=body)
            sixth = await there.post(LOGIN, json=body)

        refused(fifth, 401, LOGIN_REFUSED)
        refused(sixth, 429)


@pytest.mark.slow
class TestGuessingFromManyPlaces:
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"login_account_hourly": 30, "login_address_minutely": 9})

    async def test_is_bounded_for_each_account_and_each_address(self, world: World) -> None:
        """An account over all addresses, and an address over all accounts."""
        for number in range(6):
            answer = await log_in(world, world.acme, "wrong", address=f"192.0.2.{number}")
            refused(answer, 401, LOGIN_REFUSED)
        slow = await log_in(world, world.acme, "wrong", address="192.0.2.99")
        refused(slow, 429)
        assert int(slow.headers["retry-after"]) <= 3_600 / (30 - 6)
        ok(await log_in(world, world.globex, address="192.0.2.99"))

        for number in range(9):
            email = f"{number}@globex.example.com"
            answer = await log_in(world, world.globex, email=email, address="203.0.113.1")
            refused(answer, 401, LOGIN_REFUSED)
        refused(await log_in(world, world.globex, address="203.0.113.1"), 429)


STRANGERS = [f"198.51.100.{number}" for number in range(20)]
HOME, FRESH = "203.0.113.1", "203.0.113.2"
# A fifth of the default 100 failures an hour at once, and the others at equal distances.
WAIT_SECONDS_MAX = 45


async def attack(world: World, email: str, *, tries: int = 5) -> None:
    """Attempt logins from twenty addresses."""
    for address in STRANGERS:
        for _ in range(tries):
            answer = await log_in(world, world.acme, "wrong", email=email, address=address)
            assert answer.status_code in {401, 429}


class TestAttackers:
    """They delay logins to an account, and do not lock it."""

    @pytest.fixture(autouse=True)
    def _cheap(self, world: World) -> None:
        make_hashing_cheap(database_of(world, world.acme.tenant))

    @pytest.mark.slow
    async def test_do_not_block_the_owner_at_a_known_address(self, world: World) -> None:
        """At a known address of the owner, failures at other addresses do not count."""
        ok(await log_in(world, world.acme, address=HOME))
        await attack(world, world.acme.owner.email)

        ok(await log_in(world, world.acme, address=HOME))
        refused(await log_in(world, world.acme, "wrong", address=HOME), 401, LOGIN_REFUSED)
        ok(await log_in(world, world.acme, address=HOME))

    @pytest.mark.slow
    async def test_delay_clients_at_other_addresses_for_a_moment(self, world: World) -> None:
        """And never longer, however many failures there were; accounts are not revealed."""
        nobody = "nobody@acme.example.com"
        await attack(world, world.acme.owner.email)
        await attack(world, nobody)

        known = await log_in(world, world.acme, address=FRESH)
        unknown = await log_in(world, world.acme, email=nobody, address=FRESH)

        refused(known, 429)
        assert 1 <= int(known.headers["retry-after"]) <= WAIT_SECONDS_MAX
        assert known.content == unknown.content
        assert [n for n, _ in known.headers.items()] == [n for n, _ in unknown.headers.items()]

    async def test_have_a_hundred_failures_in_an_hour(self, world: World) -> None:
        """However many addresses they use: a fifth of them at once, and one every 45 s."""
        answers = [
            await log_in(world, world.acme, "wrong", address=f"198.51.{number}.1")
            for number in range(30)
        ]

        assert [answer.status_code for answer in answers] == [401] * 20 + [429] * 10
        for _ in range(3):
            await let_waits_pass(world, WAIT_SECONDS_MAX + 1)
            guess = await log_in(world, world.acme, "wrong", address=FRESH)
            refused(guess, 401, LOGIN_REFUSED)
            refused(await log_in(world, world.acme, "wrong", address=FRESH), 429)

    async def test_are_forgotten_when_an_admin_resets_the_password(self, world: World) -> None:
        """The owner logs in from anywhere, with the new one."""
        await attack(world, world.acme.owner.email)

        await patch_user(world, world.acme, world.acme.owner.id, password=NEW_PASSWORD)

        ok(await log_in(world, world.acme, NEW_PASSWORD, address=FRESH))
        ok(await log_in(world, world.acme, NEW_PASSWORD, address=STRANGERS[0]))

    async def test_do_not_block_an_address_that_the_operator_unlocked(self, world: World) -> None:
        """`tenantry user unlock --address`: also while the attack goes on."""
        realm, account = str(world.acme.tenant.id), str(world.acme.owner.id)
        await world.services.throttle.lift(realm=realm, account=account, address=FRESH)
        await attack(world, world.acme.owner.email)

        ok(await log_in(world, world.acme, address=FRESH))

    async def test_are_counted_for_the_account_whatever_its_address_becomes(
        self, world: World
    ) -> None:
        """Changing the e-mail address with a stolen session does not reset the count."""
        world = with_long_waits(world)
        thief = await world.owner(world.acme)
        change = {"currentPassword": "wrong", "newPassword": NEW_PASSWORD}
        for _ in range(5):
            refused(await thief.put(CHANGE_PASSWORD, json=change), 400)
        refused(await thief.put(CHANGE_PASSWORD, json=change), 429)

        profile = {"fullName": "Owner", "email": "another@acme.example.com"}
        ok(await thief.put(PROFILE, json=profile))

        refused(await thief.put(CHANGE_PASSWORD, json=change), 429)
        refused(await thief.post(OWN_TOKENS, json={"name": "x", "password": "wrong"}), 429)

    async def test_are_counted_for_the_account_however_it_is_spelt(self, world: World) -> None:
        """A domain in Unicode and the same domain in ASCII are one account."""
        await add_user(world, world.acme, "zoë@exämple.com")
        make_hashing_cheap(database_of(world, world.acme.tenant))

        ok(await log_in(world, world.acme, email="zoë@xn--exmple-cua.com"))
        ok(await log_in(world, world.acme, email="ZOE\u0308@EXÄMPLE.com"))
        admin = await world.admin()
        body = {"email": "zoë@XN--exmple-cua.com", "fullName": "Zoë", "password": PASSWORD}
        refused(await admin.post(f"{TENANTS}/{world.acme.tenant.id}/users", json=body), 409)


class TestRefusal:
    async def test_writes_nothing(self, world: World) -> None:
        """Neither by a limit nor by the queue."""
        before = catalog_of(world).run("SELECT * FROM login_attempt")

        with ExitStack() as held:
            for _ in range(PLACES_OF_ADDRESS_MAX):
                held.enter_context(world.services.passwords.place("127.0.0.1"))
            refused(await log_in(world, world.acme), 503)

        assert catalog_of(world).run("SELECT * FROM login_attempt") == before

    @pytest.mark.slow
    async def test_of_one_address_is_none_of_another(self, world: World) -> None:
        """A hundred connections of one address do not keep others out."""
        crowd = [
            asyncio.create_task(
                log_in(world, world.acme, "wrong", email=f"{number}@x.org", address=STRANGERS[0])
            )
            for number in range(100)
        ]
        await asyncio.sleep(0.1)

        others = await asyncio.gather(
            *(log_in(world, world.acme, address=f"203.0.113.{number}") for number in range(9))
        )

        assert [answer.status_code for answer in others] == [200] * 9
        assert not all(one.done() for one in crowd)
        statuses = [answer.status_code for answer in await asyncio.gather(*crowd)]
        assert statuses.count(503) >= 100 - PLACES_OF_ADDRESS_MAX - 10


@pytest.mark.slow
class TestClock:
    async def test_may_be_set_back_by_an_hour(self, world: World) -> None:
        """No client waits for a time that was stored before."""
        make_hashing_cheap(database_of(world, world.acme.tenant))
        ok(await log_in(world, world.acme, address=HOME))
        for number in range(25):
            await log_in(world, world.acme, "wrong", address=f"198.51.{number}.1")
        hour = 3_600_000
        await catalog_of(world).write(
            "UPDATE login_attempt SET since_ms = since_ms + ?, next_ms = next_ms + ?", hour, hour
        )

        ok(await log_in(world, world.acme, address=HOME))
        ok(await log_in(world, world.acme, address=FRESH))
        ok(await log_in(world, world.acme, address="198.51.1.1"))
