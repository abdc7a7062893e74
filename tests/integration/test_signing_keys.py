"""Signing keys: rotation, retirement, revocation, and the use of a stolen one."""

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from pydantic import SecretStr

from tenantry.access.signing import (
    BadSecretFile,
    NoOldSecretKey,
    SigningKeys,
    WrongSecretKey,
    read_secret_file,
)
from tenantry.access.tokens import AHEAD_SECONDS_MAX, BadToken
from tenantry.catalog import audit as catalog_audit
from tenantry.catalog import signing_keys
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.errors import Unavailable
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit.faults import Faults
from tests.conftest import World

LIFETIME = timedelta(hours=1)
TEN_YEARS = timedelta(days=3_650)
NEW_SECRET = SecretStr("a new secret key that replaces the old one")


def secret_of(settings: Settings) -> str:
    """Return the secret key of a service."""
    return settings.secret_key.get_secret_value() or read_secret_file(
        settings.data_dir / "secret-key"
    )


def ctx_at(now: datetime) -> Any:
    return msgspec.structs.replace(system_context("test"), now=now)


async def forged(
    world: World, *, header: dict[str, Any] | None = None, key_id: object = None, **claims: Any
) -> str:
    """Return a good token of acme's owner with other *claims*, signed with the service's key."""
    good = jwt.decode(await world.token(world.acme), options={"verify_signature": False})
    ring = await world.services.signing_keys.ring()
    key = ring.signer(utc_now()) if key_id is None else ring.keys[key_id]  # type: ignore[index]
    payload = {name: value for name, value in {**good, **claims}.items() if value is not None}
    return jwt.encode(payload, key.private, "EdDSA", headers={"kid": str(key.id), **(header or {})})


async def is_good(services: Services, token: str, *, now: datetime | None = None) -> bool:
    try:
        await services.tokens.verify(f"Bearer {token}", now=now or utc_now())
    except BadToken:
        return False
    return True


class TestForgedTokens:
    """By someone who has stolen the private key."""

    async def test_live_no_longer_than_a_login(self, world: World):
        now = utc_now()

        assert await is_good(world.services, await forged(world))
        for issued_at in (now, now + TEN_YEARS - LIFETIME):
            token = await forged(
                world,
                iat=int(issued_at.timestamp()),
                exp=int((now + TEN_YEARS).timestamp()),
            )
            assert not await is_good(world.services, token)

    async def test_name_no_login_far_in_the_future(self, world: World):
        """It would bound no renewals."""
        iat = int(utc_now().timestamp())

        assert await is_good(world.services, await forged(world, auth_time=iat, iat=iat))
        for auth_time in (iat + AHEAD_SECONDS_MAX + 60, 2**60, -1):
            token = await forged(world, auth_time=auth_time, iat=iat)
            assert not await is_good(world.services, token)

    async def test_must_say_that_they_are_a_jwt(self, world: World):
        for typ in (None, "", "at+jwt", "JWS", 1):
            assert not await is_good(world.services, await forged(world, header={"typ": typ}))

    async def test_end_with_the_key(self, world: World):
        """After the rotation the old key verifies only what it signed before it stopped."""
        services = world.services
        ring = await services.signing_keys.ring()
        old = ring.signer(utc_now())
        added = await services.signing_keys.rotate(system_context("test"))
        later = added.signs_from + timedelta(seconds=1)

        before = await forged(world, key_id=old.id)
        after = await forged(
            world,
            key_id=old.id,
            iat=int(later.timestamp()) + 5,
            exp=int((later + LIFETIME).timestamp()),
        )

        assert await is_good(services, before)
        assert await is_good(services, before, now=later)
        assert not await is_good(services, after, now=later)


class TestRotate:
    async def test_at_the_same_time_leaves_one_key_without_a_successor(self, world: World):
        keys = world.services.signing_keys
        await asyncio.gather(*(keys.rotate(system_context("test")) for _ in range(4)))

        left = await signing_keys.every(world.services.catalog)
        assert len(left) == 5
        assert sum(key.signs_until is None for key in left) == 1


class TestRetire:
    async def test_removes_a_key_when_its_last_token_has_expired(self, world: World):
        services = world.services
        old = (await services.signing_keys.ring()).signer(utc_now())
        token = await world.token(world.acme)
        added = await services.signing_keys.rotate(system_context("test"))
        end = added.signs_from + LIFETIME + timedelta(seconds=60)

        await services.signing_keys.retire(ctx_at(end), token_lifetime=LIFETIME)
        assert old.id in (await services.signing_keys.ring()).keys
        await services.signing_keys.retire(
            ctx_at(end + timedelta(seconds=1)), token_lifetime=LIFETIME
        )

        assert list((await services.signing_keys.ring()).keys) == [added.id]
        assert not await is_good(services, token)

    async def test_is_done_by_every_process_that_serves(self, world: World, settings: Settings):
        """A key of long ago is gone a moment after any process has started."""
        services = world.services
        long_ago = ctx_at(utc_now() - timedelta(days=2))
        [old] = (await services.signing_keys.ring()).keys
        await services.signing_keys.rotate(long_ago)

        async with open_services(settings) as other:
            for _ in range(100):
                keys = await signing_keys.every(other.catalog)
                if len(keys) == 1:
                    break
                await other.signing_keys.retire(system_context("test"), token_lifetime=LIFETIME)

        assert old not in {key.id for key in keys}


class TestRevoke:
    async def test_ends_every_token_that_the_key_has_signed(self, world: World):
        services = world.services
        token = await world.token(world.acme)
        [old] = (await services.signing_keys.ring()).keys
        assert await is_good(services, token)

        added = await services.signing_keys.revoke(system_context("test"), old)

        assert not await is_good(services, token)
        assert added is not None
        assert await is_good(services, await world.token(world.acme))
        assert old not in (await services.signing_keys.ring()).keys

    async def test_does_not_let_an_old_key_sign_again(self, world: World):
        services = world.services
        [old] = (await services.signing_keys.ring()).keys
        new = await services.signing_keys.rotate(system_context("test"))

        await services.signing_keys.revoke(system_context("test"), new.id)

        signer = (await services.signing_keys.ring()).signer(utc_now())
        assert signer.id not in {old, new.id}

    async def test_of_an_old_key_leaves_the_new_one_alone(self, world: World):
        services = world.services
        [old] = (await services.signing_keys.ring()).keys
        new = await services.signing_keys.rotate(system_context("test"))

        assert await services.signing_keys.revoke(system_context("test"), old) is None

        assert list((await services.signing_keys.ring()).keys) == [new.id]
        assert await is_good(services, await world.token(world.acme))


class TestReseal:
    async def test_replaces_the_secret_while_processes_with_both_serve(
        self, world: World, settings: Settings
    ):
        """No token becomes invalid; then the old secret opens no key, and the new one all."""
        services = world.services
        await services.signing_keys.rotate(system_context("test"))
        token = await world.token(world.acme)
        both = settings.model_copy(
            update={"secret_key": NEW_SECRET, "secret_key_old": SecretStr(secret_of(settings))}
        )
        async with open_services(both, works=False) as one, open_services(both) as other:
            assert await is_good(other, token)

            count = await one.signing_keys.reseal(system_context("test"))
            again = await one.signing_keys.reseal(system_context("test"))
            await other.catalog.cache.check_epoch()

            assert (count, again) == (2, 0)
            assert await is_good(one, token)
            assert await is_good(other, token)
        new = settings.model_copy(update={"secret_key": NEW_SECRET})
        async with open_services(new, works=False) as after:
            assert await is_good(after, token)
        with pytest.raises(WrongSecretKey) as raised:
            async with open_services(settings, works=False):
                pass
        # A process that still runs without the new key: its clients try again.
        assert isinstance(raised.value, Unavailable)

    async def test_of_keys_under_a_third_secret_changes_nothing(self, world: World):
        keys = SigningKeys(world.services.catalog, "a" * 40, "b" * 40)
        before = await signing_keys.every(world.services.catalog)

        with pytest.raises(WrongSecretKey):
            await keys.reseal(system_context("test"))

        assert await signing_keys.every(world.services.catalog) == before

    async def test_that_fails_half_way_changes_nothing(
        self, world: World, settings: Settings, faults: Faults
    ):
        services = world.services
        await services.signing_keys.rotate(system_context("test"))
        before = await signing_keys.every(services.catalog)
        keys = SigningKeys(services.catalog, "a" * 40, secret_of(settings))

        def cut_short(*_: object, **__: object) -> None:
            raise asyncio.CancelledError

        faults.before(catalog_audit.LOG, "add", cut_short, once=True)
        with pytest.raises(asyncio.CancelledError):
            await keys.reseal(system_context("test"))

        assert await signing_keys.every(services.catalog) == before

    async def test_needs_the_old_secret(self, world: World):
        with pytest.raises(NoOldSecretKey):
            await world.services.signing_keys.reseal(system_context("test"))


class TestUnknownKey:
    async def test_makes_nothing_be_forgotten(self, world: World):
        """Anyone may send a token that names one, as often as they like."""
        cache = world.services.catalog.cache
        await cache.check_epoch()
        generation = cache.generation

        for _ in range(3):
            unknown = {"kid": "01890a5d-ac96-774b-bcce-b302099a8057"}
            assert not await is_good(world.services, await forged(world, header=unknown))

        assert cache.generation == generation

    async def test_of_another_process_is_read_at_once(self, world: World, settings: Settings):
        """A key that another process has added signs from now on."""
        async with open_services(settings) as other:
            [old] = (await other.signing_keys.ring()).keys
            await world.services.signing_keys.revoke(system_context("test"), old)

            assert await is_good(other, await world.token(world.acme))


class TestClock:
    async def test_may_be_set_back_by_an_hour(self, world: World):
        """Sessions stay valid, and other users can log in."""
        back = utc_now() - timedelta(hours=1)
        token = await world.token(world.acme)

        assert await is_good(world.services, token, now=back)
        assert (await world.services.signing_keys.ring()).signer(back)


class TestSecretFile:
    def test_is_made_once(self, tmp_path: Path):
        made = read_secret_file(tmp_path / "secret-key")

        assert len(made) == 64
        assert read_secret_file(tmp_path / "secret-key") == made
        assert [one.name for one in tmp_path.iterdir()] == ["secret-key"]
        assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600

    def test_has_a_durable_name_before_anything_is_sealed_with_it(
        self, tmp_path: Path, faults: Faults
    ):
        synced: list[Path] = []
        faults.before(
            os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        )

        read_secret_file(tmp_path / "secret-key")

        assert synced[1:] == [tmp_path]

    @pytest.mark.parametrize("text", ["", "\n", "short", "a" * 64, "<the output of: openssl rand>"])
    def test_must_hold_a_secret(self, tmp_path: Path, text: str):
        (tmp_path / "secret-key").write_text(text)

        with pytest.raises(BadSecretFile, match="secret-key"):
            read_secret_file(tmp_path / "secret-key")
