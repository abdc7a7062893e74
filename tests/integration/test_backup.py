"""A backup: what else the process does while it is made."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tenantry.backup import creating
from tenantry.backup.archive import Sink
from tenantry.backup.targets import FolderTarget
from tenantry.kit.context import system_context
from tenantry.work.progress import Progress
from tests.conftest import World

WAIT_SECONDS = 60.0


class SlowTarget(FolderTarget):
    """A folder on a disk that is slow at the beginning and at the end of each archive."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.waiting = threading.Event()
        self.free = threading.Event()

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        self._wait()
        with super().writing(name) as sink:
            yield sink
            self._wait()

    def _wait(self) -> None:
        self.waiting.set()
        assert self.free.wait(WAIT_SECONDS), "the event loop continues"
        self.free.clear()


class RecordingTarget(FolderTarget):
    """A folder that records the threads which write to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.threads: set[threading.Thread] = set()

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        with super().writing(name) as file:
            yield RecordingSink(file, self.threads)


class RecordingSink:
    def __init__(self, file: BinaryIO, threads: set[threading.Thread]) -> None:
        self._file = file
        self._threads = threads

    def write(self, data: bytes) -> int:
        self._threads.add(threading.current_thread())
        return self._file.write(data)


async def free_when_it_waits(target: SlowTarget) -> None:
    for _ in range(2):
        await asyncio.to_thread(target.waiting.wait, WAIT_SECONDS)
        target.waiting.clear()
        target.free.set()


class TestBackup:
    async def test_leaves_the_event_loop_free_while_its_file_is_opened_and_closed(
        self, world: World, tmp_path: Path
    ):
        """Else a slow disk, or an upload, would silence the heartbeat, and the backup be lost."""
        target = SlowTarget(tmp_path / "archives")
        freeing = asyncio.create_task(free_when_it_waits(target))

        job = await creating.back_up(
            system_context("test"),
            world.services.copying,
            world.acme.tenant,
            target,
            progress=Progress(),
        )

        await freeing
        assert job.state == "done"
        assert len(target.names()) == 1

    async def test_writes_every_part_in_a_thread(self, world: World, tmp_path: Path):
        """With S3 the last one waits for an upload, too."""
        target = RecordingTarget(tmp_path / "archives")

        await creating.back_up(
            system_context("test"),
            world.services.copying,
            world.acme.tenant,
            target,
            progress=Progress(),
        )

        assert target.threads
        assert threading.current_thread() not in target.threads
