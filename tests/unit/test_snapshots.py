"""The folder for temporary copies."""

import os
from pathlib import Path
from typing import Any

from tenantry.db import snapshots
from testkit.faults import Faults


class TestScratchFolder:
    def test_is_made_again_if_it_is_removed_before_it_is_locked(
        self, tmp_path: Path, faults: Faults
    ):
        """By another process that removes what is left: it cannot know that this one lives."""
        made = list[Path]()

        def remove_left(path: Any, *_: Any, **__: Any) -> None:
            made.append(Path(path))
            if len(made) == 1:
                snapshots.remove_left(tmp_path)

        faults.after(os, "mkdir", remove_left)

        with snapshots.scratch_folder(tmp_path) as folder:
            (folder / "database").touch()
            snapshots.remove_left(tmp_path)
            assert list(tmp_path.iterdir()) == [folder]

        assert list(tmp_path.iterdir()) == []
        assert len(made) == 2

    def test_is_made_again_if_it_is_removed_while_it_is_opened(
        self, tmp_path: Path, faults: Faults
    ):
        opened = list[Path]()

        def remove(path: Any, *_: Any, **__: Any) -> None:
            opened.append(Path(path))
            if len(opened) == 1:
                Path(path).rmdir()

        faults.after(os, "open", remove)

        with snapshots.scratch_folder(tmp_path) as folder:
            assert folder.is_dir()
            assert len(opened) == 2
