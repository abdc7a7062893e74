"""What Sphinx lacks for the manual: its groups, its addresses, its search, and no inline code.

The pages stay as they are in `docs`, where a code host shows them. `docs/nav.toml` groups them.
"""

import hashlib
import json
import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.errors import ExtensionError

from tools.site.tables import TableTranslator

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "src/tenantry/console/static/console.css"
NAV = "docs/nav.toml"
HOME = "docs/README"
DECISIONS = "docs/decisions/README"
# A text of a section that the index of the search keeps, in characters.
SECTION_CHARS_MAX = 4000
# The home page names the pages that answer.
HOME_WEIGHT = 0.5
# What no page refers to.
UNUSED = (
    *("*.map", "*.LICENSE.txt", "debug.css", "doctools.js", "documentation_options.js"),
    *("sphinx_highlight.js", "searchtools.js", "language_data.js", "*-stemmer.js"),
    *("file.png", "minus.png", "plus.png"),
)

# A page of a group, with a name for the navigation.
NAMED = re.compile(r"(.+) <(.+)>")
INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
INLINE_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
INLINE_IMAGE = re.compile(r"""url\((["'])data:image/svg\+xml;charset=utf-8,(.*?)\1\)""")
STYLED = re.compile(r'<(\w+)([^<>]*?) style="([^"]*)"([^<>]*)>')
# Where the theme and the tables break rules of accessibility, which the tests check.
ACCESSIBLE = (
    (re.compile(r'<p class="caption" role="heading">'), '<p class="caption">'),
    (re.compile(r'<aside class="sidebar-drawer"'), r'\g<0> aria-label="Navigation"'),
    (re.compile(r'<aside class="toc-drawer[^"]*"'), r'\g<0> aria-label="On this page"'),
    (
        re.compile(
            r"<thead[^>]*>\s*<tr[^>]*>(?:\s*<th[^>]*>(?:<p></p>)?</th>)+\s*</tr>\s*</thead>"
        ),
        "",
    ),
    (re.compile(r"<th role=\"columnheader\"([^>]*)>(?:<p></p>)?</th>"), r'<td role="cell"\1></td>'),
)
# Whatever a browser loads by itself, from another host.
ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"'> ]*"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^\"'> ]*"
    r"|url\([\"']?(?:https?:)?//[^)]*|@import\b[^;]*"
)


class ManualBuilder(StandaloneHTMLBuilder):
    """Builds HTML at addresses without the name of the folder `docs`."""

    name = "manual"
    search = False  # ours is in search.js

    def init_js_files(self) -> None:
        """Use our scripts only: those of Sphinx make markup from text, which the policy forbids."""
        self._js_files = []
        for name in self.config.html_js_files:
            self.add_js_file(name[0], **name[1])

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """Return the address of a page."""
        return super().get_target_uri(address(docname), typ)

    def get_output_path(self, page_name: str, /) -> Path:
        """Return the file of a page."""
        return super().get_output_path(address(page_name))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_builder(ManualBuilder)
    app.set_translator(ManualBuilder.name, TableTranslator)
    app.connect("source-read", _add_groups)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def address(docname: str) -> str:
    """Return the address of a page below that of the manual, without a suffix."""
    if docname == "README":
        return "start"
    path = PurePosixPath(docname)
    if path.parent == PurePosixPath():
        return docname.lower()
    if path.name == "README":
        path = path.with_name("index")
    return str(path.relative_to("docs"))


class Group(NamedTuple):
    """A group of pages.

    Attributes:
        weight: Of its pages, in the search.
        pages: Names of documents for Sphinx, and the names in the navigation (None: the titles).
    """

    title: str
    weight: float
    pages: dict[str, str | None]


def groups() -> list[Group]:
    """Return the groups of `docs/nav.toml`, in their order."""
    nav = tomllib.loads((ROOT / NAV).read_text(encoding="utf-8"))
    return [
        Group(one["title"], one["weight"], dict(map(_page, one["pages"]))) for one in nav["group"]
    ]


def _page(entry: str) -> tuple[str, str | None]:
    named = NAMED.fullmatch(entry)
    path = named[2] if named else entry
    docname = path[3:] if path.startswith("../") else f"docs/{path}"
    return docname, named[1] if named else None


def _add_groups(_: Sphinx, docname: str, source: list[str]) -> None:
    if docname == HOME:
        trees = [_tree(f":caption: {one.title}", one.pages) for one in groups()]
        source[0] += "".join(trees)
    elif docname == DECISIONS:
        records = sorted((ROOT / "docs/decisions").glob("0*.md"))
        source[0] += _tree("", {f"docs/decisions/{one.stem}": None for one in records})


def _tree(option: str, pages: dict[str, str | None]) -> str:
    listed = "\n".join(
        f"{name} </{page}>" if name is not None else f"/{page}" for page, name in pages.items()
    )
    return f"\n\n```{{toctree}}\n:hidden:\n{option}\n\n{listed}\n```\n"


def _finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None:
        return
    folder = Path(app.outdir)
    static = folder / "_static"
    for pattern in UNUSED:
        for one in static.rglob(pattern):
            one.unlink()
    for name in (".buildinfo", "objects.inv"):
        (folder / name).unlink(missing_ok=True)
    for sheet in sorted(static.rglob("*.css")):
        sheet.write_text(_without_inline_images(sheet, static), encoding="utf-8")
    (static / "console-tokens.css").write_text(_tokens(), encoding="utf-8")
    index = json.dumps(_index(app), ensure_ascii=False, separators=(",", ":"))
    (static / "manual-index.js").write_text(f"const MANUAL_INDEX = {index};\n", encoding="utf-8")
    for page in sorted(folder.rglob("*.html")):
        text = _without_inline_code(page.read_text(encoding="utf-8"), page, static)
        page.write_text(text, encoding="utf-8")
    for one in [*folder.rglob("*.html"), *folder.rglob("*.css")]:
        found = ELSEWHERE.findall(one.read_text(encoding="utf-8"))
        if found:
            raise ExtensionError(f"{one.name} loads from another host: {found[:3]}")


def _tokens() -> str:
    """Return the colours, sizes and fonts of the console."""
    text = CONSOLE.read_text(encoding="utf-8")
    tokens = re.search(r"^:root \{.*?^\}$", text, re.MULTILINE | re.DOTALL)
    font = re.search(r'^body \{[^}]*font: [^"]*("[^;]+);', text, re.MULTILINE)
    if tokens is None or font is None:
        raise ExtensionError(f"{CONSOLE} has no tokens, or no font of its body.")
    names = f"--font-stack: {font[1]}; --font-stack--monospace: var(--code);"
    return f"{tokens[0]}\nbody {{ {names} }}\n"


def _without_inline_images(sheet: Path, static: Path) -> str:
    """Move the images of a style sheet to files."""
    up = "../" * (len(sheet.relative_to(static).parts) - 1)

    def moved(match: re.Match[str]) -> str:
        return f"url({up}{_keep(unquote(match[2]), '.svg', static)})"

    return INLINE_IMAGE.sub(moved, sheet.read_text(encoding="utf-8"))


def _keep(content: str, suffix: str, static: Path) -> str:
    """Write a file that is named after its content, and return its name."""
    name = f"inline-{hashlib.sha256(content.encode()).hexdigest()[:12]}{suffix}"
    (static / name).write_text(content, encoding="utf-8")
    return name


def _without_inline_code(text: str, page: Path, static: Path) -> str:
    """Move scripts and styles of a page to files: the policy of the product allows no others."""
    up = "../" * (len(page.relative_to(static.parent).parts) - 1)
    classes: dict[str, str] = {}

    def moved(content: str, suffix: str) -> str:
        return f"{up}_static/{_keep(content, suffix, static)}"

    def classed(match: re.Match[str]) -> str:
        name = classes.setdefault(match[3], f"inline-{len(classes)}")
        return f'<{match[1]}{match[2]} class="{name}"{match[4]}>'

    text = INLINE_SCRIPT.sub(lambda one: f'<script src="{moved(one[1], ".js")}"></script>', text)
    text = INLINE_STYLE.sub(
        lambda one: f'<link rel="stylesheet" href="{moved(one[1], ".css")}">', text
    )
    text = STYLED.sub(classed, text)
    for pattern, better in ACCESSIBLE:
        text = pattern.sub(better, text)
    rules = "".join(f".{name} {{ {style} }}\n" for style, name in classes.items())
    if rules:
        link = f'<link rel="stylesheet" href="{moved(rules, ".css")}">\n'
        text = text.replace("</head>", f"{link}</head>", 1)
    return text


# The search


def _index(app: Sphinx) -> list[list[Any]]:
    """Return the address, page, heading, text and weight of each section."""
    weights = {page: group.weight for group in groups() for page in group.pages}
    lowest = min(weights.values())
    found: list[list[Any]] = []
    for docname in sorted(app.env.found_docs):
        title = app.env.titles[docname].astext()
        weight = HOME_WEIGHT if docname == HOME else weights.get(docname, lowest)
        uri = app.builder.get_target_uri(docname)
        for place, section in enumerate(app.env.get_doctree(docname).findall(nodes.section)):
            # The first one is the whole page: its link needs no anchor.
            link = uri if place == 0 else f"{uri}#{section['ids'][0]}"
            heading = section.next_node(nodes.title)
            text = _own_text(section)
            found.append([link, title, heading.astext() if heading else "", text, weight])
    return found


def _own_text(section: nodes.section) -> str:
    parts = [one.astext() for one in section if not isinstance(one, nodes.section | nodes.title)]
    return " ".join(" ".join(parts).split())[:SECTION_CHARS_MAX]
