"""The head of the streams in the metrics: read again when the files of the revisions change."""

import asyncio
from pathlib import Path

import pytest

from tenantry.fleet.fleet_metrics import Head, keep_reading
from tenantry.kit.log import configure
from tenantry.migration.streams import Stream, Streams
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant.stream import STREAM
from testkit.revisions import AlembicFolder
from tests.logs import logs_kept

WAIT_SECONDS = 60


async def test_that_the_revisions_cannot_be_read_is_a_warning(
    settings: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    streams = Streams(STREAM, Stream("user", tmp_path / "missing"))
    async with open_services(settings) as services:
        with logs_kept():
            configure(log_format="json", level="warning")
            reading = asyncio.create_task(
                keep_reading(services.catalog, lambda: streams, services.metrics, ())
            )
            said = ""
            async with asyncio.timeout(WAIT_SECONDS):
                while "the folder does not exist" not in said:
                    await asyncio.sleep(0.05)
                    said += capfd.readouterr().err
            reading.cancel()


def test_the_revisions_are_imported_only_after_a_change(folder: AlembicFolder):
    read: list[Streams] = []

    def streams() -> Streams:
        read.append(Streams(STREAM, Stream("user", folder.path)))
        return read[-1]

    folder.add("u1_note", "pass")
    head = Head(streams)
    # Twice at first: only then is it known that no file was replaced while the others were read.
    first = [head.read() for _ in range(5)]
    times_before = len(read)
    file = folder.add("u2_more", "pass")
    added = [head.read() for _ in range(5)]
    times_after = len(read)
    file.write_text(file.read_text().replace("revision = 'u2'", "revision = 'u2b'"))

    assert {one.rpartition("/")[2] for one in first} == {"u1"}
    assert {one.rpartition("/")[2] for one in added} == {"u2"}
    assert head.read().rpartition("/")[2] == "u2b"
    assert (times_before, times_after) == (2, 4)
