"""Tables in Markdown, printed and put into the documents."""

from collections.abc import Sequence
from pathlib import Path


def table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown, that can be read as it is."""
    widths = [max(len(line[i]) for line in [columns, *lines]) for i in range(len(columns))]
    return [
        _line(columns, widths),
        _line(["-" * max(width, 3) for width in widths], widths),
        *(_line(line, widths) for line in lines),
    ]


def put_into(document: Path, target: str, text: str) -> None:
    """Put what ``make`` *target* has found into a document, in place of what was there."""
    begin, end = (f"<!-- Written by `make {target}`: {one} -->" for one in ("begin", "end"))
    before, found, rest = document.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    assert found and ended, f"{document} has lost its markers"  # noqa: PT018 - one fact
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(max(width, 3)) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
