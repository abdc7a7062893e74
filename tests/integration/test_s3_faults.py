"""A backup storage that is silent, slow or endless, or that loses what it has accepted."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tenantry.backup import s3
from tenantry.backup.archive import Keys
from tenantry.backup.archives import Archives
from tenantry.backup.s3 import S3Target, S3Unavailable
from tenantry.catalog import jobs
from tenantry.catalog.job_queue import BACKUP
from tenantry.catalog.job_states import CANCELLED
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.kit.stopping import entered_in_thread, run_in_thread
from tenantry.services import open_services
from tenantry.settings import Settings
from tests.conftest import provision
from tests.integration.hostile_s3 import LISTED_AT_ONCE, HostileS3, hostile_s3
from tests.own_time import own_seconds

PLACE = "s3://b/tenantry"
# What waits for the storage takes this long; what does not, a fraction, on a busy machine, too.
PATIENT_SECONDS = 90.0
PROMPT_SECONDS = 30.0
# With the interval in which jobs notice it, and the removal of the archive; the storage has 10 s.
CANCEL_SECONDS_MAX = 9.0


@pytest.fixture(name="storage")
def _storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileS3]:
    with hostile_s3() as state:
        monkeypatch.setenv("AWS_ENDPOINT", state.url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield state


def _write(target: S3Target) -> None:
    with target.writing("a.tar") as sink:
        sink.write(b"some bytes")


class TestDeadlines:
    @pytest.mark.parametrize("fault", ["silent", "slow"])
    def test_of_a_call_name_the_storage(self, storage: HostileS3, fault: str):
        _write(S3Target(PLACE, answer_seconds=PATIENT_SECONDS))
        target = S3Target(PLACE, answer_seconds=0.5)
        storage.fault = fault

        with pytest.raises(S3Unavailable) as raised:
            target.names()

        assert raised.value.message == f"The backup storage {PLACE} did not answer in 0.5 s."

    async def test_do_not_delay_the_cancellation_of_an_upload(self, storage: HostileS3):
        storage.fault = "silent"
        patient = S3Target(PLACE, answer_seconds=PATIENT_SECONDS)

        async def upload() -> None:
            async with entered_in_thread(patient.writing("a.tar")) as sink:
                await run_in_thread(lambda _stop: sink.write(b"some bytes"))

        running = asyncio.create_task(upload())
        async with asyncio.timeout(30):
            while not storage.requests:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)
        began = time.monotonic()
        running.cancel()
        await asyncio.wait([running])

        assert running.cancelled()
        assert time.monotonic() - began < PROMPT_SECONDS

    async def test_do_not_delay_the_cancellation_of_a_download(self, storage: HostileS3):
        target = S3Target(PLACE, answer_seconds=PATIENT_SECONDS)
        _write(target)
        storage.fault = "silent"
        asked = len(storage.requests)

        running = asyncio.create_task(run_in_thread(lambda _stop: target.tail("a.tar", 10)))
        async with asyncio.timeout(30):
            while len(storage.requests) == asked:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)
        began = time.monotonic()
        running.cancel()
        await asyncio.wait([running])

        assert running.cancelled()
        assert time.monotonic() - began < PROMPT_SECONDS


class TestCancel:
    @pytest.mark.parametrize("after", [0, 1], ids=["during the upload", "after it"])
    async def test_ends_a_backup_at_once_and_leaves_no_archive(
        self, settings: Settings, storage: HostileS3, after: int
    ):
        """A small archive is sent when it is complete."""
        stored = settings.model_copy(update={"backup_target": PLACE})
        ctx = system_context("test")
        async with open_services(stored) as services:
            made = await provision(services, "acme")
            storage.fault, storage.after = "silent", after
            job = await services.queue.add(ctx, BACKUP, tenant=made.tenant)
            async with asyncio.timeout(60):
                while len(storage.requests) <= after:  # noqa: ASYNC110 - of another thread
                    await asyncio.sleep(0.01)
            with own_seconds() as seconds:
                await services.queue.cancel(ctx, job.id)
                async with asyncio.timeout(60):
                    found = await jobs.get(services.catalog, job.id)
                    while found.finished_at is None:
                        await asyncio.sleep(0.05)
                        found = await jobs.get(services.catalog, job.id)
            took = seconds()

        assert (found.state, found.error) == ("failed", CANCELLED)
        assert took < CANCEL_SECONDS_MAX
        assert not storage.objects


class TestListing:
    def test_ends_at_its_bound_and_asks_for_no_more(self, storage: HostileS3):
        storage.fault = "endless"

        with pytest.raises(S3Unavailable, match=r"more than 100,000 objects"):
            S3Target(PLACE).names()

        time.sleep(0.3)  # what was asked for before that arrives
        assert len(storage.requests) <= s3.OBJECTS_MAX // LISTED_AT_ONCE + 2

    async def test_that_was_given_up_asks_for_no_more(self, storage: HostileS3):
        storage.fault = "endless"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await Archives(PLACE, Keys(["a secret key"])).page(Window(1, 10))

        asked = -1
        while asked < len(storage.requests):  # one may be under way still
            asked = len(storage.requests)
            await asyncio.sleep(0.5)
        assert asked < s3.OBJECTS_MAX // LISTED_AT_ONCE, "it was not given up"


class TestWriting:
    def test_fails_if_the_storage_keeps_nothing(self, storage: HostileS3):
        storage.fault = "forgetful"

        with pytest.raises(S3Unavailable, match=r"accepted .* bytes of a\.tar, and has 0"):
            _write(S3Target(PLACE))

    def test_fails_if_the_storage_rejects_it(self, storage: HostileS3):
        storage.fault = "failing"

        with pytest.raises(S3Unavailable, match=f"^The backup storage {PLACE}: .*503"):
            _write(S3Target(PLACE))


class TestReading:
    def test_of_a_truncated_response_fails(self, storage: HostileS3):
        target = S3Target(PLACE)
        _write(target)
        storage.fault = "truncating"

        with target.reading("a.tar") as file, pytest.raises(S3Unavailable):
            file.read()
