"""The output of commands: results on stdout, everything else on stderr."""

import errno
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Any, TextIO

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tenantry.cli.exit_status import Misuse
from tenantry.cli.wording import named
from tenantry.kit.pages import Page
from tenantry.kit.text import printable
from tenantry.schemas.base import Done

WRAPPED_COLUMNS_MIN = 16
"""A narrower column of words cannot be read."""
GAP = "  "
NOTHING = "-"
Header = str | Column
_UNUSUAL = re.compile(r"[^\n -~]")
_reserved: ContextVar[TextIO | None] = ContextVar("_reserved", default=None)
_as_json: ContextVar[bool] = ContextVar("_as_json", default=False)


@contextmanager
def reserved(*, as_json: bool) -> Iterator[None]:
    """Reserve standard output for the results of the command that runs in the block.

    With *as_json*, these are JSON: see `wants_json`.

    Whatever else is printed goes to standard error: by a revision, by a module that it imports, by
    a program that it starts, or by native code, which writes to the file descriptor. The
    descriptor stays redirected after the block, for what is printed when the process exits.

    Raises:
        Misuse: It or standard error is closed: what is printed would be lost.
    """
    stream = sys.stdout
    streams = ("output", stream, ">/dev/null"), ("error", sys.stderr, "2>/dev/null")
    for name, one, instead in streams:
        if one is None:
            raise Misuse(f"Standard {name} is closed. If you do not need it, use `{instead}`.")
    is_of_process = stream is sys.__stdout__ and isinstance(stream, TextIOWrapper)
    own = _take_descriptor(stream) if is_of_process else stream
    token, json_token = _reserved.set(own), _as_json.set(as_json)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = stream
        _reserved.reset(token)
        _as_json.reset(json_token)
        if own is not stream:
            own.close()


def _take_descriptor(stream: TextIO) -> TextIO:
    """Return a stream to where *stream* has written; it writes to standard error from now on."""
    stream.flush()
    own = TextIOWrapper(
        os.fdopen(os.dup(stream.fileno()), "wb"),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.isatty(),
    )
    os.dup2(sys.stderr.fileno(), stream.fileno())
    return own


def results() -> TextIO:
    """Return the stream for the results of the running command."""
    return _reserved.get() or sys.stdout


def progress() -> Console:
    """Return the console for everything that is no result."""
    return _console(sys.stderr)


def wants_json() -> bool:
    """Return whether the results of the running command are JSON."""
    return _as_json.get()


def shown_as_json(data: object) -> bool:
    """Print *data* if the results of the running command are JSON, and return whether they are."""
    if wants_json():
        show_json(data)
    return wants_json()


def show_json(data: object) -> None:
    """Print *data* as JSON."""
    results().write(json_text(data))
    results().flush()


def json_text(data: object) -> str:
    """Return *data* as indented JSON."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return _UNUSUAL.sub(_escaped, text) + "\n"


def _escaped(found: re.Match[str]) -> str:
    """Return a character, or its escape if a terminal could obey it; JSON allows it unescaped."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def show_line(line: str = "") -> None:
    """Print one line."""
    _console(results()).print(printable(line), soft_wrap=True)


def show_text(text: str) -> None:
    """Print text to be pasted unchanged: a wrapped line would not work."""
    results().write(f"{text}\n")
    results().flush()


def show_done(message: str) -> None:
    """Print a message about what was done, if there is no other result."""
    if not shown_as_json(Done(message)):
        show_line(message)


@contextmanager
def only_once(secrets: str, remedy: str) -> Iterator[None]:
    """Print *secrets*, such as "The API key is", in the block, and note that they are shown once.

    If they cannot be printed, as on a full disk, note the *remedy*: they are valid, and not known.
    """
    try:
        yield
        results().flush()
    except OSError:
        note(f"{secrets} valid, and could not be printed. {remedy}")
        raise
    if not wants_json():
        note(f"{secrets} not shown again.")


def unwrapped(header: str) -> Header:
    """Return a column with cells that are not wrapped, such as ids."""
    return Column(header, no_wrap=True)


def number(header: str) -> Header:
    """Return a column of numbers, aligned on the right."""
    return Column(header, justify="right", no_wrap=True)


def show_table(columns: Sequence[Header], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; nothing if it has no rows.

    No text is cut. If standard output is not a terminal, each row is one line. On a terminal that
    is too narrow for the columns, each row is a list of its values.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        return
    heads = [Column(one) if isinstance(one, str) else one for one in columns]
    for head in heads:
        head.header = named(str(head.header))
    console = _console(results())
    widths = [
        max(map(cell_len, (str(head.header), *(row[at].plain for row in cells))))
        for at, head in enumerate(heads)
    ]
    if not console.is_terminal:
        _show_lines(heads, cells, widths)
        return
    least = (
        wide if head.no_wrap else min(wide, WRAPPED_COLUMNS_MIN)
        for head, wide in zip(heads, widths, strict=True)
    )
    if sum(least) + len(GAP) * (len(heads) - 1) > console.width:
        for number_, row in enumerate(cells):
            show_line() if number_ else None
            names = [str(head.header) for head in heads]
            show_attributes(dict(zip(names, row, strict=True)))
        return
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        if not column.no_wrap:
            column.overflow = "fold"  # wrap, never truncate
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _show_lines(
    heads: Sequence[Column], cells: Sequence[Sequence[Text]], widths: Sequence[int]
) -> None:
    for row in ([str(one.header) for one in heads], *([one.plain for one in row] for row in cells)):
        padded = (
            f"{' ' * (wide - cell_len(text))}{text}"
            if head.justify == "right"
            else f"{text}{' ' * (wide - cell_len(text))}"
            for head, text, wide in zip(heads, row, widths, strict=True)
        )
        results().write(f"{GAP.join(padded).rstrip()}\n")


def show_list(
    data: object, columns: Sequence[Header], rows: Sequence[Sequence[object]], *, none: str = ""
) -> None:
    """Print a list: *data* if the results are JSON, otherwise a table; a note if it is empty."""
    if shown_as_json(data):
        return
    show_table(columns, rows)
    if none and not rows:
        note(none)


def show_page(
    data: object,
    page: Page[Any],
    noun: str,
    columns: Sequence[Header],
    rows: Iterable[Sequence[object]],
) -> None:
    """Print a *page*: *data* if the results are JSON, otherwise a table, and how many others."""
    if not shown_as_json(data):
        show_table(columns, rows)
        note_page(page, noun)


def show_attributes(attributes: Mapping[str, object]) -> None:
    """Print attributes, one line each."""
    attributes = {named(name): value for name, value in attributes.items()}
    width = max(map(len, attributes))
    for name, value in attributes.items():
        line = Text.assemble((name.ljust(width), "bold"), "  ", cell(value))
        _console(results()).print(line, soft_wrap=True)


def note(line: str) -> None:
    """Print a line to stderr."""
    progress().print(printable(line), style="dim", soft_wrap=True)


def note_page(page: Page[Any], noun: str) -> None:
    """Print the number of the page, if there are other pages."""
    if not page.total_count:
        note(f"No {noun}.")
    elif len(page.items) < page.total_count:
        note(f"{page.total_count} {noun}, page {page.window.page} of {page.total_pages}.")


def minute(instant: datetime | None) -> str:
    """Return *instant* in UTC, to the minute, for a column of a list."""
    if instant is None:
        return NOTHING
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M}"


def cell(value: object) -> Text:
    """Return *value* as text, without markup and control codes."""
    if isinstance(value, Text):
        return value
    return Text(printable(_plain(value)))


def _plain(value: object) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    return str(value)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error as any stream does: the default silences standard error."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _console(stream: TextIO) -> Console:
    return _Console(file=stream, markup=False, emoji=False, highlight=False)
