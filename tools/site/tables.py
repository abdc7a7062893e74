"""Tables of the manual: readable at each width, and in print, without scrolling.

A table whose columns do not fit is shown as a list of its rows, each cell under the name of its
column. How much space a table needs is estimated from its words, and `manual.css` compares that
with the space that there is.
"""

import re
from collections.abc import Callable
from html import escape

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

# Widths in pixels: of a character, of what is around a cell, and of a line that is read with ease.
CHAR_WIDTH = 7.5
CELL_EXTRA = 10
LINE_WIDTH = 150
# Longer texts are read in several lines.
LINE_CHARS = 36
# What fits beside a phone's edges, and in the column of the text: manual.css has them, too.
NARROW_WIDTH = 340
COLUMN_WIDTH = 680
# Where a long word may be broken: after these characters, and before a capital.
BREAK = re.compile(r"(?<=\w[/_.=:,-])(?=\w)|(?<=[a-z])(?=[A-Z])")
UNBROKEN_CHARS = 12
TABLE_TAG = re.compile(r"<(?:table|thead|tbody|tr|th|td)\b")
TAG_OR_SPACE = re.compile(r"(<[^>]*>|\s+)")


class TableTranslator(HTML5Translator):
    """Writes tables with the name of its column at each cell, and with roles.

    The roles stay when a table is shown as a list.
    """

    _columns: list[str] | None = None
    _place = 0

    def visit_table(self, node: nodes.table) -> None:
        """Begin a table."""
        self._columns = [one.astext() for one in _header(node)]
        node["classes"].append(f"needs-{_size(node)}")
        self._tagged("table", super().visit_table, node)

    def depart_table(self, node: nodes.table) -> None:
        """End a table."""
        super().depart_table(node)
        self._columns = None

    def visit_thead(self, node: nodes.thead) -> None:
        """Begin the head."""
        self._tagged("rowgroup", super().visit_thead, node)

    def visit_tbody(self, node: nodes.tbody) -> None:
        """Begin the body."""
        self._tagged("rowgroup", super().visit_tbody, node)

    def visit_row(self, node: nodes.row) -> None:
        """Begin a row."""
        self._place = 0
        self._tagged("row", super().visit_row, node)

    def visit_entry(self, node: nodes.entry) -> None:
        """Begin a cell."""
        if isinstance(node.parent.parent, nodes.thead):
            self._tagged("columnheader", super().visit_entry, node)
            return
        columns = self._columns or []
        column = columns[self._place] if self._place < len(columns) else ""
        self._place += 1
        self._tagged("cell", super().visit_entry, node, f' data-column="{escape(column)}"')

    def visit_Text(self, node: nodes.Text) -> None:  # noqa: N802 - the name of docutils
        """Write text; in a table, a long word may be broken."""
        at = len(self.body)
        super().visit_Text(node)
        if self._columns is not None:
            self.body[at:] = map(_breakable, self.body[at:])

    def _tagged(
        self,
        role: str,
        visit: Callable[[nodes.Element], None],
        node: nodes.Element,
        more: str = "",
    ) -> None:
        """Visit *node*, and give a role to the element that begins with it."""
        at = len(self.body)
        visit(node)
        text = "".join(self.body[at:])
        self.body[at:] = [TABLE_TAG.sub(lambda tag: f'{tag[0]} role="{role}"{more}', text)]


def _header(table: nodes.table) -> list[nodes.entry]:
    head = table.next_node(nodes.thead)
    return [] if head is None else list(head.findall(nodes.entry))


def _size(table: nodes.table) -> str:
    """Return what a table needs: ``little``, the ``column`` of the text, or ``more``."""
    rows = [[one.astext() for one in row.findall(nodes.entry)] for row in table.findall(nodes.row)]
    need = sum(CELL_EXTRA + _width(column) for column in zip(*rows, strict=True))
    return "little" if need <= NARROW_WIDTH else "column" if need <= COLUMN_WIDTH else "more"


def _width(texts: tuple[str, ...]) -> float:
    """Return the width that a column needs to be readable."""
    pieces = (piece for text in texts for word in text.split() for piece in _pieces(word))
    longest = CHAR_WIDTH * max(map(len, pieces), default=0)
    is_prose = sum(map(len, texts)) > LINE_CHARS * len(texts)
    return max(longest, LINE_WIDTH) if is_prose else longest


def _pieces(word: str) -> list[str]:
    return BREAK.split(word) if len(word) > UNBROKEN_CHARS else [word]


def _breakable(html: str) -> str:
    parts = TAG_OR_SPACE.split(html)
    return "".join(part if part.startswith("<") else "<wbr>".join(_pieces(part)) for part in parts)
