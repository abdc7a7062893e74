"""Directories of Alembic revisions, written as their users write them."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

IMPORTABLE = ("contextlib", "datetime", "decimal", "json", "os", "uuid")


def imports(*texts: str) -> str:
    """Return the imports of the modules that *texts* name.

    A revision that imports more than it needs runs live without a reason.
    """
    named = {word for text in texts for word in re.findall(r"\w+", text)}
    return "".join(f"import {module}\n" for module in IMPORTABLE if module in named)


@dataclass
class AlembicFolder:
    """A user's script directory."""

    path: Path
    last: str | None = None

    def __post_init__(self) -> None:
        (self.path / "versions").mkdir(parents=True, exist_ok=self.last is not None)

    def add(
        self,
        name: str,
        body: str,
        *,
        down: str | None = None,
        below: str = "",
        signature: str = "",
        head: str = "",
        undo: str | None = None,
    ) -> Path:
        """Add a revision after the last one; its id is the part of *name* before ``_``.

        Args:
            name: Of the file.
            body: Of its ``upgrade``.
            down: The revision before, if it is not the one that was added last.
            below: A folder in ``versions``.
            signature: The parameters of ``upgrade``.
            head: The lines above the function.
            undo: Of its ``downgrade``, if it has one.
        """
        revision = name.partition("_")[0]
        text = (
            f"from alembic import op\nimport sqlalchemy as sa\n\n"
            f"revision = {revision!r}\ndown_revision = {down or self.last!r}\n\n"
            f"{dedent(head)}\n\ndef upgrade({signature}):\n{indent(dedent(body), '    ')}\n"
        )
        if undo is not None:
            text += f"\n\ndef downgrade({signature}):\n{indent(dedent(undo), '    ')}\n"
        file = self.write(name, text, below=below)
        self.last = revision
        return file

    def begin(self) -> Path:
        """Return the path, with a revision in it: without one no service starts.

        A directory that has none gets one that changes nothing.
        """
        if not any((self.path / "versions").rglob("*.py")):
            self.add("begin", "pass")
        return self.path

    def write(self, name: str, text: str, *, below: str = "") -> Path:
        """Write a file without changes."""
        folder = self.path / "versions" / below
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.py"
        file.write_text(text)
        return file
