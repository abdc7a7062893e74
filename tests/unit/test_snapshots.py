"""The folder for temporary copies."""

import os
from pathlib import Path
from typing import Any

import pytest

from tenantry.db import snapshots


class TestScratchFolder:
    def test_is_made_again_if_it_is_removed_before_it_is_locked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """By another process that removes what is left: it cannot know that this one lives."""
        mkdir, made = os.mkdir, list[Path]()

        def and_remove_left(path: Any, *arguments: Any, **options: Any) -> None:
            mkdir(path, *arguments, **options)
            made.append(Path(path))
            if len(made) == 1:
                snapshots.remove_left(tmp_path)

        monkeypatch.setattr(os, "mkdir", and_remove_left)

        with snapshots.scratch_folder(tmp_path) as folder:
            (folder / "database").touch()
            snapshots.remove_left(tmp_path)
            assert list(tmp_path.iterdir()) == [folder]

        assert list(tmp_path.iterdir()) == []
        assert len(made) == 2

    def test_is_made_again_if_it_is_removed_while_it_is_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        open_, opened = os.open, list[Path]()

        def and_remove(path: Any, *arguments: Any, **options: Any) -> int:
            handle = open_(path, *arguments, **options)
            opened.append(Path(path))
            if len(opened) == 1:
                Path(path).rmdir()
            return handle

        monkeypatch.setattr(os, "open", and_remove)

        with snapshots.scratch_folder(tmp_path) as folder:
            assert folder.is_dir()
            assert len(opened) == 2
