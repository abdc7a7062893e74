"""Run the blocks of the documents against the product: what ``make doc-blocks`` does.

A block is between two fences. What runs, and why the others do not, is in ``docs/blocks.toml``.
A documented output is a pattern: ids, times and decimals may differ, and an ellipsis is any text.
"""

import argparse
import contextlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from testkit.programs import free_port
from tools.doc_shell import BlockFailed, Shell, served, started_servers

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "blocks.toml"
FENCE = "```"
# An untagged block with one of these first is commands; the next block, without prose between
# them, is their output.
PROGRAMS = re.compile(
    r"(?:alembic|apt-get|bash|cat|cd|chmod|cosign|cp|curl|dnf|docker|echo|export|for|git|install|kill|ln|make|mkdir|mv|npm"
    r"|openssl|patroni(?:ctl)?|pg_createcluster|pip|podman|psql|python|runuser|sha256sum|sqlite3|ssh|sudo|systemctl"
    r"|tar|tenantry|test|time|unset)"
)
ASSIGNED = re.compile(r"(?:export )?[A-Z][A-Z_]*=")
# Settings of a file `.env`.
SETTING = re.compile(r"TENANTRY_\w+=\S*")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# What a documented output has, and what an actual one may have in its place. The first fits.
LOOSE = (
    ("any", r"(?:\b(?:tnk_|tnm_|eyJ)[\w.-]*)?…", r"[\s\S]*?"),
    ("id", _UUID, _UUID),
    ("stamp", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?", r"[-\d:. TZ]+?"),
    ("clock", r"\b\d\d:\d\d\b", r"\d\d:\d\d"),
    ("decimal", r"\b\d+\.\d+(?= s\b|$|\n)", r"\d+(?:\.\d+)?"),
    ("port", r"127\.0\.0\.1:\d+", r"127\.0\.0\.1:\d+"),
    ("secret", r"\b(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?=[\w-]*\d)[\w-]{12,}", r"[\w-]+"),
    ("space", r"\s+", r"\s*"),
)
_DOCUMENTED = re.compile("|".join(f"(?P<{name}>{said})" for name, said, _ in LOOSE), re.MULTILINE)
_ACTUAL = {name: actual for name, _, actual in LOOSE}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page.

    Attributes:
        page: Below the root of the project.
        line: Of its first fence, from 1.
        kind: `commands`, `output` (of the commands before it), `file`, or `text` for any other.
        text: Its lines, without the fences.
    """

    page: str
    line: int
    kind: str
    text: str


class Story(NamedTuple):
    """How the commands of a page are run: an entry of `docs/blocks.toml`.

    Attributes:
        page: Below the root of the project.
        stage: A script that prepares the empty folder.
        servers: How many PostgreSQL servers the page needs: those on 127.0.0.1:5432, 5433, ….
        ports: Of 127.0.0.1, on which its commands listen; a run uses free ones instead.
        serve: A command that runs until the end, if the page needs one; it prints the first output.
        ready: What the served command prints when it can be used.
        values: For each name in commands, a pattern whose last group is its value, in all output.
        before: For the beginning of a block, a script that does what the text says before it.
            `BLOCK` is the last file.
        status: For the beginning of a command, its exit status, if that is not 0.
        skip: For the beginning of a block, why it is not run.
        loose: Documented text that may be any, as patterns.
    """

    page: str
    stage: str = ""
    servers: int = 0
    ports: tuple[int, ...] = ()
    serve: str = ""
    ready: str = ""
    values: dict[str, str] = {}  # noqa: RUF012
    before: dict[str, str] = {}  # noqa: RUF012
    status: dict[str, int] = {}  # noqa: RUF012
    skip: dict[str, str] = {}  # noqa: RUF012
    loose: tuple[str, ...] = ()


def table() -> tuple[dict[str, Story], dict[str, str]]:
    """Return the pages that are run, and why others are not, as `docs/blocks.toml` says."""
    read = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {one["page"]: Story(**one) for one in read["story"]}, read["not_run"]


def pages() -> list[Path]:
    """Return the pages with blocks that readers use."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in their order."""
    found: list[Block] = []
    inside: list[str] | None = None
    begun, language, follows = 0, "", False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if inside is None and line.startswith(FENCE):
            begun, language, inside = number, line.removeprefix(FENCE), []
        elif inside is None:
            follows = follows and not line.strip()
        elif line == FENCE:
            kind = "file" if language else _kind(inside, follows=follows)
            name = page.relative_to(ROOT).as_posix()
            found.append(Block(name, begun, kind, "\n".join(inside)))
            follows, inside = kind == "commands", None
        else:
            inside.append(line)
    return found


def _kind(lines: list[str], *, follows: bool) -> str:
    first = next((one for one in lines if one.strip() and not one.startswith("#")), "")
    program = first.split()[0].rpartition("/")[2] if first.strip() else ""
    if SETTING.fullmatch(first):
        return "text"
    if PROGRAMS.fullmatch(program) or (ASSIGNED.match(first) and not follows):
        return "commands"
    return "output" if follows else "text"


def pattern(documented: str, loose: tuple[str, ...] = ()) -> tuple[re.Pattern[str], list[str]]:
    """Return the pattern of what a documented output allows, and the ids in it.

    The groups of the pattern are these ids, in their order.
    """
    ids: list[str] = []
    made = ""
    place = 0
    found = re.compile(
        "|".join([_DOCUMENTED.pattern, *(f"(?P<any_{n}>{one})" for n, one in enumerate(loose))]),
        re.MULTILINE,
    )
    for match in found.finditer(documented):
        made += re.escape(documented[place : match.start()])
        name = str(match.lastgroup)
        if name == "id":
            ids.append(match[0])
        actual = _ACTUAL["any"] if name.startswith("any_") else _ACTUAL[name]
        made += f"({actual})" if name == "id" else actual
        place = match.end()
    made += re.escape(documented[place:])
    return re.compile(rf"\s*{made}\s*"), ids


def compare(
    block: Block, actual: str, loose: tuple[str, ...] = (), *, is_part: bool = False
) -> dict[str, str]:
    """Return the actual id for each id of a documented output, which may be a part of the actual.

    Raises:
        BlockFailed: The actual output is another one.
    """
    allowed, ids = pattern(block.text, loose)
    match = allowed.search(actual) if is_part else allowed.fullmatch(actual)
    if match is None:
        raise BlockFailed(
            f"{block.page}:{block.line}: documented:\n{block.text}\nactual:\n{actual}"
        )
    return dict(zip(ids, match.groups(), strict=True))


def run(story: Story, folder: Path) -> list[str]:
    """Run the commands of a page in an empty folder; return a line for each block.

    Raises:
        BlockFailed: A command failed, or has printed something else than the page says.
    """
    told: list[str] = []
    with contextlib.ExitStack() as ended:
        shell = ended.enter_context(Shell.opened(folder))
        shell.ports |= {port: free_port() for port in story.ports}
        if story.servers:
            shell.ports |= ended.enter_context(started_servers(story.servers))
        if story.stage:
            _check(shell.run(shell.with_ports(story.stage)), 0, story.page)
        if story.serve:
            ended.enter_context(served(story.serve, story.ready, shell))
        _run_blocks(story, shell, told)
    return told


def _run_blocks(story: Story, shell: Shell, told: list[str]) -> None:
    ids: dict[str, str] = {}
    served, printed = shell.printed if story.serve else "", ""
    for block in blocks(ROOT / story.page):
        where = f"{block.page}:{block.line}"
        if reason := _of(story.skip, block.text):
            told.append(f"{where} not run: {reason}")
            printed = ""
        elif block.kind == "commands":
            if script := _of(story.before, block.text):
                _check(shell.run(shell.with_ports(script)), 0, where)
            printed = ""
            for command in commands(block.text):
                ended = shell.run(_filled(shell.with_ports(command), story, shell.printed, ids))
                _check(ended, _of(story.status, command) or 0, f"{where}: {command}")
                printed += ended[1]
            told.append(f"{where} ran")
        elif served and block.kind == "text":
            ids |= compare(block, served, story.loose, is_part=True)
            served = ""
            told.append(f"{where} is what was printed")
        elif block.kind == "output" and printed:
            ids |= compare(block, printed, story.loose)
            told.append(f"{where} is what was printed")
        else:
            if block.kind == "file":
                shell.run(f"BLOCK={shlex.quote(block.text)}")
            told.append(f"{where} not run: {block.kind}")


def commands(text: str) -> list[str]:
    """Return the commands of a block: lines, joined until the shell can read them."""
    found: list[str] = []
    begun = ""
    for line in text.splitlines():
        begun += f"{line}\n"
        if not line.endswith("\\") and _is_whole(begun):
            found.append(begun.strip())
            begun = ""
    return [one for one in [*found, begun.strip()] if one]


def _is_whole(script: str) -> bool:
    read = subprocess.run(["bash", "-n", "-c", script], capture_output=True, check=False)
    return read.returncode == 0 and b"here-document" not in read.stderr


def _filled(text: str, story: Story, printed: str, ids: dict[str, str]) -> str:
    """Return the commands with the values of this run in place of those of the page."""
    if port := re.search(r"127\.0\.0\.1:(\d+)", printed):
        text = text.replace("127.0.0.1:8000", port[0])
    for said, used in ids.items():
        text = text.replace(said, used)
    for name, value in story.values.items():
        if found := list(re.finditer(value, printed)):
            used = found[-1][1]
            text = re.sub(rf"\b{name}=\S*…", f"{name}='{used}'", text)
            text = re.sub(rf"(?<=\s){name}\b(?!=)", used, text)
    return text


def _of(by_beginning: dict[str, Any], text: str) -> Any:
    found = (one for begin, one in by_beginning.items() if text.startswith(begin))
    return next(found, None)


def _check(ended: tuple[int, str], status: int, where: str) -> None:
    if ended[0] != status:
        raise BlockFailed(f"{where}: exit status {ended[0]}, not {status}:\n{ended[1]}")


def unexplained() -> list[str]:
    """Return the pages with commands that neither a story nor a reason names, and names in vain."""
    stories, not_run = table()
    named = {*stories, *not_run}
    needed = {
        page.relative_to(ROOT).as_posix()
        for page in pages()
        if any(one.kind == "commands" for one in blocks(page))
    }
    return sorted(needed ^ named)


def main() -> int:
    """Run the stories, and list what is not run; return 1 if a block fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="PAGE", help="run this page alone")
    chosen = parser.parse_args()
    stories, not_run = table()
    status = 0
    for page in unexplained():
        print(f"{page}: docs/blocks.toml must say how its commands are run, or why not")
        status = 1
    for story in stories.values():
        if chosen.only in (None, story.page):
            status |= _run_and_print(story)
    for page, reason in not_run.items() if chosen.only is None else ():
        print(f"{page} not run: {reason}")
    return status


def _run_and_print(story: Story) -> int:
    folder = Path(tempfile.mkdtemp(prefix="doc-blocks-"))
    try:
        print("\n".join(run(story, folder)))
    except BlockFailed as failed:
        print(f"FAILED {failed}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
