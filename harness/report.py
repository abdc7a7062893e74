"""Tables in Markdown, printed and put into the documents."""

from collections.abc import Sequence
from pathlib import Path


def page(
    about: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    lines: Sequence[str] = (),
) -> str:
    """Return a whole record: what it is *about*, the table, and *lines* below it."""
    listed = [f"- {line}" for line in lines]
    return "\n".join(
        [
            *(f"- {line}" for line in about),
            "",
            *_table(columns, cells),
            *(["", *listed] if listed else []),
        ]
    )


def put_into(document: Path, target: str, text: str) -> None:
    """Put what ``make`` *target* has found into a document, in place of what was there."""
    begin, end = (f"<!-- Written by `make {target}`: {one} -->" for one in ("begin", "end"))
    before, found, rest = document.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    assert found and ended, f"{document} has lost its markers"  # noqa: PT018 - one fact
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(3, *(len(line[i]) for line in [columns, *lines])) for i in range(len(columns))]
    rows = [columns, ["-" * width for width in widths], *lines]
    return [
        f"| {' | '.join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))} |"
        for row in rows
    ]
