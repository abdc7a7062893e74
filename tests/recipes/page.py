"""The commands and files of a page, as its reader would use them."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
FENCE = "```"
HEADING = re.compile(r"#+ (.+)")
NAMED_FILE = re.compile(r"In `(/[^`]+)`")
# `make test-recipes` has installed these, in the versions that the page names.
INSTALLS = ("apt-get install ", "pip install ")
RUN_SECONDS_MAX = 240


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code.

    Attributes:
        text: Its lines.
        language: As the page names it; empty for commands.
        file: The file with this content, if the sentence before the block says so.
    """

    text: str
    language: str
    file: str | None


@dataclass(frozen=True)
class Page:
    """A page, with other paths, ports and times than it names.

    Attributes:
        name: Its file in docs/howto.
        replaced: What is used instead of what the page says, in this order. Nothing else is.
    """

    name: str
    replaced: Mapping[str, str] = field(default_factory=dict)

    def blocks(self, heading: str) -> list[Block]:
        """Return the blocks between *heading* and the next heading."""
        found, before, lines = [], "", self._section(heading)
        for line in lines:
            if not line.startswith(FENCE):
                before += f"{line} "
                continue
            language = line.removeprefix(FENCE)
            text = "".join(f"{one}\n" for one in iter(lambda: next(lines), FENCE))
            named = NAMED_FILE.search(before)
            path = self.here(named[1]) if named and language else None
            found.append(Block(self.here(text), language, path))
            before = ""
        assert found, f"{self.name} has no code under {heading!r}"
        return found

    def follow(
        self, heading: str, environment: Mapping[str, str], only: slice = slice(None)
    ) -> str:
        """Write the files and run the commands under *heading*; return what they print.

        Args:
            heading: Of the section.
            environment: The variables of the commands.
            only: Which blocks of the section.
        """
        script = ""
        for block in self.blocks(heading)[only]:
            if block.file is not None:
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.text)
            elif not block.text.startswith(INSTALLS):
                script += block.text
        return run(script, environment)

    def here(self, text: str) -> str:
        """Return *text* with the paths, ports and times of this machine."""
        for said, used in self.replaced.items():
            text = text.replace(said, used)
        return text

    def _section(self, heading: str) -> Iterator[str]:
        text = (HOWTO / self.name).read_text(encoding="utf-8")
        inside, in_code = False, False
        kept = []
        for line in text.splitlines():
            in_code ^= line.startswith(FENCE)
            found = None if in_code else HEADING.fullmatch(line)
            if found:
                inside = found[1] == heading
            elif inside:
                kept.append(line)
        return iter(kept)


def run(script: str, environment: Mapping[str, str]) -> str:
    """Run a shell script, which stops at the first failure, and return what it prints."""
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout
