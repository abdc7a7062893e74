"""Archives in S3-compatible storage, on moto's server."""

import asyncio
import os
import secrets
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from tenantry.backup.archive import Keys
from tenantry.backup.archives import LISTING_SECONDS_MAX, LISTINGS_MAX, Archives
from tenantry.backup.s3 import S3Target, S3Unavailable, S3UrlHasCredentials
from tenantry.backup.targets import stored
from tenantry.kit.pages import Window
from tests.acceptance.commands import Commands

pytestmark = pytest.mark.slow

SHOP = "Shop"
KEYS = Keys(["a secret key of this installation"])


@pytest.fixture(name="bucket")
def _bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket; the standard variables lead to its server."""
    name = f"backups-{secrets.token_hex(4)}"  # the server keeps buckets after its end
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        monkeypatch.setenv("AWS_ENDPOINT", endpoint)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        created = urllib.request.Request(f"{endpoint}/{name}", method="PUT")  # noqa: S310
        urllib.request.urlopen(created).close()  # noqa: S310
        yield f"s3://{name}/tenantry"
    finally:
        server.stop()


class TestS3Target:
    def test_has_an_archive_only_when_it_is_complete(self, bucket: str):
        target = S3Target(bucket)
        parts = [bytes([number]) * 2**20 for number in range(20)]

        def interrupted() -> None:
            with target.writing("b.tar") as sink:
                for part in parts:
                    sink.write(part)
                raise KeyError

        with pytest.raises(KeyError):
            interrupted()
        assert target.names() == []
        with target.writing("a.tar") as sink:
            for part in parts:
                sink.write(part)

        assert target.names() == ["a.tar"]
        assert target.size("a.tar") == 20 * 2**20
        with target.reading("a.tar") as file:
            assert file.read() == b"".join(parts)

    def test_says_that_the_storage_cannot_be_reached(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")

        with pytest.raises(S3Unavailable) as raised:
            S3Target(bucket).names()

        assert "secret" not in str(raised.value)

    def test_does_not_repeat_the_password_of_an_endpoint(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("AWS_ENDPOINT", "http://ada:hunter2@127.0.0.1:1")

        with pytest.raises(S3Unavailable) as raised:
            S3Target(bucket).names()

        assert "hunter2" not in str(raised.value)

    def test_refuses_credentials_in_its_url(self):
        """The URL is stored with each job, and shown."""
        with pytest.raises(S3UrlHasCredentials):
            S3Target("s3://key:secret@bucket/prefix")


class TestStored:
    def test_has_an_archive_that_the_storage_does_not_return(self, bucket: str):
        """Such as one that a lifecycle rule has moved to cold storage: others are usable."""
        target = S3Target(bucket)
        with target.writing("a.tar") as sink:
            sink.write(b"damaged")
        path = bucket.removeprefix("s3://")
        request = urllib.request.Request(  # noqa: S310
            f"{os.environ['AWS_ENDPOINT']}/{path}/b.tar",  # noqa: TID251 - set by the fixture
            b"cold",
            {"Content-Type": "application/x-tar", "x-amz-storage-class": "GLACIER"},
            method="PUT",
        )
        urllib.request.urlopen(request).close()  # noqa: S310

        found = stored(target, KEYS)

        assert [(one.name, one.size, one.fault) for one in found] == [
            ("a.tar", 7, "damaged"),
            ("b.tar", 4, "cannot be read"),
        ]

    def test_raises_if_the_storage_cannot_be_reached(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")

        with pytest.raises(S3Unavailable):
            stored(S3Target(bucket), KEYS)


class TestArchives:
    async def test_hold_few_threads_while_the_storage_is_silent(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch
    ):
        """Callers who give up do not start others, and the pool of threads is free."""
        archives = Archives(bucket, KEYS)
        before = threading.active_count()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await archives.page(Window(1, 10))

            async with asyncio.timeout(LISTING_SECONDS_MAX / 2):
                await asyncio.to_thread(time.sleep, 0)
            assert threading.active_count() - before <= LISTINGS_MAX + 1  # and one of the pool


class TestBackup:
    def test_is_saved_listed_restored_and_removed(self, tenantry: Commands, bucket: str):
        shop: Any = tenantry.create_tenant(SHOP)

        (made,) = tenantry("backup", "create", "--tenant", SHOP, "--to", bucket, "--json").data[
            "items"
        ]
        assert made["archive"].startswith(f"{bucket}/shop-")
        (listed,) = tenantry("backup", "list", "--from", bucket, "--json").data["items"]
        assert listed["tenantId"] == shop["id"]
        place = {"TENANTRY_BACKUP_TARGET": bucket}
        assert tenantry("backup", "verify", listed["name"], **place).status == 0
        made = tenantry("backup", "restore", listed["name"], "--as", "Copy", "--json", **place).data
        assert made["name"] == "Copy"
        assert tenantry("backup", "verify", "none.tar", **place).status == 2
