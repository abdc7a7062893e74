"""How many requests a credential may make."""

import pytest

from tenantry.access.request_limits import COUNTED_MAX, RateLimits, TooManyRequests, check
from tenantry.kit.ids import new_id
from tests.own_clock import Clock

CREDENTIAL = new_id()


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


class TestRateLimits:
    def test_let_a_whole_window_come_at_once(self, clock: Clock):
        limits = RateLimits(3, clock)

        left = [limits.take(CREDENTIAL).remaining for _ in range(4)]

        assert left == [2, 1, 0, -1]

    def test_say_when_one_more_may_come(self, clock: Clock):
        limits = RateLimits(3, clock)
        for _ in range(3):
            limits.take(CREDENTIAL)

        with pytest.raises(TooManyRequests) as caught:
            check(limits.take(CREDENTIAL))
        clock.seconds += caught.value.retry_after_seconds

        assert caught.value.retry_after_seconds == 20
        check(limits.take(CREDENTIAL))
        assert limits.take(CREDENTIAL).remaining == -1

    def test_count_no_request_that_was_refused(self, clock: Clock):
        limits = RateLimits(3, clock)
        for _ in range(100):
            limits.take(CREDENTIAL)
        clock.seconds += 60

        assert limits.take(CREDENTIAL).remaining == 2

    def test_count_each_credential_by_itself(self, clock: Clock):
        limits = RateLimits(1, clock)
        limits.take(CREDENTIAL)

        assert limits.take(new_id()).remaining == 0
        assert limits.take(CREDENTIAL).remaining == -1

    def test_count_a_user_of_each_tenant_by_itself(self, clock: Clock):
        limits = RateLimits(1, clock)
        original, clone = new_id(), new_id()

        assert limits.take(CREDENTIAL, tenant_id=original).remaining == 0
        assert limits.take(CREDENTIAL, tenant_id=clone).remaining == 0
        assert limits.take(CREDENTIAL, tenant_id=original).remaining == -1

    def test_of_a_tenant_are_shared_by_its_credentials_of_one_kind(self, clock: Clock):
        limits = RateLimits(1, clock)
        tenant = new_id()

        left = [limits.take("users", tenant_id=tenant, per_minute=3).remaining for _ in range(4)]

        assert left == [2, 1, 0, -1]
        assert limits.take("keys", tenant_id=tenant, per_minute=3).remaining == 2
        assert limits.take("users", tenant_id=new_id(), per_minute=3).remaining == 2
        assert limits.take(tenant).remaining == 0

    def test_remember_a_bounded_number(self, clock: Clock):
        """The least recently used credential is forgotten: its quota has refilled."""
        limits = RateLimits(1, clock)
        for _ in range(COUNTED_MAX):
            limits.take(new_id())
        limits.take(CREDENTIAL)

        assert limits.take(CREDENTIAL).remaining == -1
        for _ in range(COUNTED_MAX):
            limits.take(new_id())
        assert limits.take(CREDENTIAL).remaining == 0
