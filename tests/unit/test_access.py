"""Passwords and the keys of counters."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from argon2 import PasswordHasher, extract_parameters

from tenantry.access import login_throttle
from tenantry.access.addresses import network_of
from tenantry.access.cpu_queue import PLACES_MAX, TooManyLogins
from tenantry.access.emails import BadEmail, checked_email
from tenantry.access.passwords import BadPassword, Passwords, WrongPassword
from testkit.faults import Faults

EMAIL = "Ada.Lovelace@example.com"


@pytest.fixture(name="passwords", scope="module")
def _passwords() -> Iterator[Passwords]:
    made = Passwords(threads=1, chars_min=8)
    yield made
    made.close()


class TestNewPassword:
    @pytest.mark.parametrize(
        "password",
        [
            "correct horse",
            "12345678x!",
            " leading and trailing ",
            "пароль-длинный",
            "🙂🎉🌍" * 3,
            "xyz" * 341,
            "abcdefgh!",
            "acegikmo",
        ],
    )
    def test_needs_no_mix_of_characters(self, passwords: Passwords, password: str):
        passwords.check_new(password, email=EMAIL)

    @pytest.mark.parametrize(
        "password",
        [
            "",
            "1234567",
            "x" * 1025,
            "password",
            "PassWord",
            "12345678",
            "aaaaaaaa",
            "AaAaAaAa",
            "abababab",
            "🙂" * 8,
            "abcdefgh",
            "ZYXWVUTSRQ",
            "абвгдежз",
            "qwertyuiop",
            "ada.lovelace@EXAMPLE.com",
            "half \ud800 of a character",
            "e\u0301" * 7,
            "e\u0301" * 513,
        ],
    )
    def test_is_refused_with_the_rule(self, passwords: Passwords, password: str):
        with pytest.raises(BadPassword, match="`newPassword`"):
            passwords.check_new(password, email=EMAIL, name="newPassword")

    def test_has_at_least_the_length_of_the_setting(self):
        strict = Passwords(threads=1, chars_min=15)

        with pytest.raises(BadPassword, match="15 to 1024"):
            strict.check_new("only 14 chars.", email=EMAIL)
        strict.check_new("has 15 chars...", email=EMAIL)
        strict.close()


# One password, as different keyboards and systems enter it.
FORMS = ("Caf\u00e9 cr\u00e8me 1", "Cafe\u0301 cre\u0300me\u00a01", "Caf\u00e9 cre\u0300me\u30001")


async def verify(passwords: Passwords, stored: str | None, password: str) -> str | None:
    with passwords.place("") as place:
        return await place.verify(stored, password)


class TestVerify:
    async def test_accepts_the_password_and_no_other(self, passwords: Passwords):
        stored = await passwords.hash("correct horse")

        assert await verify(passwords, stored, "correct horse") is None
        for wrong in ("correct horse ", "Correct horse", "", "\ud800"):
            with pytest.raises(WrongPassword):
                await verify(passwords, stored, wrong)

    @pytest.mark.parametrize("stored", FORMS)
    @pytest.mark.parametrize("entered", FORMS)
    async def test_accepts_the_password_in_every_form(
        self, passwords: Passwords, stored: str, entered: str
    ):
        assert await verify(passwords, await passwords.hash(stored), entered) is None

    async def test_accepts_an_older_hash_of_another_form_and_replaces_it(
        self, passwords: Passwords
    ):
        composed, decomposed, _ = FORMS
        older = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1).hash(decomposed)

        again = await verify(passwords, older, decomposed)

        assert again is not None
        assert await verify(passwords, again, composed) is None
        assert await verify(passwords, again, decomposed) is None

    async def test_keeps_width_and_case(self, passwords: Passwords):
        stored = await passwords.hash(FORMS[0])

        for other in (FORMS[0].lower(), FORMS[0].replace("1", "\uff11"), "Cafe creme 1"):
            with pytest.raises(WrongPassword):
                await verify(passwords, stored, other)

    async def test_rejects_any_password_without_an_account(self, passwords: Passwords):
        with pytest.raises(WrongPassword):
            await verify(passwords, None, "correct horse")

    async def test_costs_as_much_without_an_account(self, passwords: Passwords, faults: Faults):
        costs = []
        faults.before(
            PasswordHasher,
            "verify",
            lambda _, stored, __: costs.append(extract_parameters(stored)),
        )

        for stored in (await passwords.hash("correct horse"), None):
            with pytest.raises(WrongPassword):
                await verify(passwords, stored, "another horse")

        with_account, without = costs
        assert without == with_account

    async def test_hashes_again_when_the_cost_has_risen(self, passwords: Passwords):
        cheap = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash("correct horse")

        again = await verify(passwords, cheap, "correct horse")

        assert again is not None
        assert again.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        assert await verify(passwords, again, "correct horse") is None

    @pytest.mark.parametrize(
        "stored",
        [
            "",
            "plain",
            "$argon2id$v=19$m=99999999,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
            "$argon2id$v=19$m=19456,t=9999,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
            "$argon2id$v=19$m=19456,t=2,p=99$c2FsdHNhbHQ$aGFzaGhhc2g",
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$" + "a" * 10_000,
            "$2b$12$abcdefghijklmnopqrstuv",
        ],
    )
    async def test_rejects_an_absurd_hash_without_computing_it(
        self, passwords: Passwords, stored: str
    ):
        with pytest.raises(WrongPassword):
            await verify(passwords, stored, "correct horse")

    async def test_is_refused_when_the_queue_is_full(self, passwords: Passwords):
        with ExitStack() as held:
            for number in range(PLACES_MAX):
                held.enter_context(passwords.place(f"address {number}"))

            with pytest.raises(TooManyLogins):
                await verify(passwords, None, "correct horse")


class TestEmail:
    @pytest.mark.parametrize(
        "email", ["a@example.com", EMAIL, "zoë@exämple.com", "a+b@x.example.com"]
    )
    def test_stays_as_it_was_typed(self, email: str):
        assert checked_email(email) == email

    @pytest.mark.parametrize(
        "email",
        [
            "",
            "a",
            "a@",
            "@example.com",
            "a b@example.com",
            "a@example.com\n",
            "a" * 250 + "@x.com",
            "a@localhost",
            "\ud800@example.com",
            "a\0@example.com",
        ],
    )
    def test_that_is_invalid_is_refused(self, email: str):
        with pytest.raises(BadEmail):
            checked_email(email)


class TestThrottleKeys:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("2001:db8::1", "2001:db8::ffff:1"),
            ("2001:0db8:0:0::1", "2001:db8::1"),
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ],
    )
    def test_are_the_same_for_one_network(self, one: str, other: str):
        assert network_of(one) == network_of(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("2001:db8::1", "2001:db8:0:1::1"),
            ("192.0.2.1", "192.0.2.2"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2"),
            ("local", "2001:db8::1"),
        ],
    )
    def test_differ_for_different_clients(self, one: str, other: str):
        """An IPv4-mapped IPv6 address counts as an IPv4 address."""
        assert network_of(one) != network_of(other)

    @pytest.mark.parametrize("odd", ["", "unknown", "1.2.3.4:80", "\0", "\ud800", "fe80::1%eth0"])
    def test_exist_for_any_address(self, odd: str):
        keys = login_throttle.keys_of("realm", "\ud800", odd)

        assert len({keys.address, keys.account, keys.pair}) == 3

    def test_contain_no_address(self):
        keys = login_throttle.keys_of("realm", "ada@example.com", "192.0.2.1")

        for key in (keys.address, keys.account, keys.pair):
            assert len(key) == 64
            assert set(key) <= set("0123456789abcdef")

    def test_differ_between_realms_and_accounts(self):
        def pair(realm: str, account: str) -> str:
            return login_throttle.keys_of(realm, account, "a").pair

        assert (
            len({pair("r", "a"), pair("r", "b"), pair("s", "a"), pair("ra", ""), pair("", "ra")})
            == 5
        )
