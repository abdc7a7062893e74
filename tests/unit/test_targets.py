"""A folder of archives: what is being written, and what killed processes have left."""

import os
from pathlib import Path

import pytest

from tenantry.backup.archive import ArchiveNotFound
from tenantry.backup.targets import FolderTarget
from tenantry.kit import private
from testkit.faults import Faults

NAME = "shop-20261122T000000Z-00000000.tar"


class TestFolderTarget:
    def test_lists_an_archive_when_it_is_complete(self, tmp_path: Path):
        target = FolderTarget(tmp_path)

        with target.writing(NAME) as sink:
            sink.write(b"all")
            assert target.names() == []

        assert target.names() == [NAME]

    def test_keeps_what_is_being_written(self, tmp_path: Path):
        target = FolderTarget(tmp_path)

        with target.writing(NAME):
            assert FolderTarget(tmp_path).remove_partial() == []

        assert target.names() == [NAME]

    def test_lists_no_file_whose_name_is_not_utf_8(self, tmp_path: Path):
        name = os.fsdecode(b"shop-\xff-20261122T000000Z-00000000.tar")
        (tmp_path / name).touch()
        target = FolderTarget(tmp_path)

        assert target.names() == []
        with pytest.raises(ArchiveNotFound), target.reading(name):
            pass

    def test_creates_a_file_again_that_was_removed_before_it_was_locked(
        self, tmp_path: Path, faults: Faults
    ):
        """As by the cleanup of another process, between the creation and the lock."""
        target, removed = FolderTarget(tmp_path), []

        def remove(_path: Path) -> None:
            removed.extend(FolderTarget(tmp_path).remove_partial())

        faults.after(private, "open_new", remove, once=True)
        with target.writing(NAME) as sink:
            sink.write(b"all")

        assert len(removed) == 1
        assert (tmp_path / NAME).read_bytes() == b"all"
