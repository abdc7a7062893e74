"""The console's source: it creates no markup from text, uses no other host, and stays small."""

import re
from importlib.resources import files
from pathlib import Path

from tenantry.console.files import PAGES as ADDRESSES
from tenantry.console.files import PREFIX
from tests.contracts.each import for_each

FOLDER = Path(str(files("tenantry.console"))) / "static"
MODULES = sorted(FOLDER.glob("*.js"))
PAGES = sorted(FOLDER.glob("*.html"))
MODULE_LINES_MAX = 200
LINE_CHARS_MAX = 100
ALL_LINES_MAX = 8770
# The page of one-time links is not of the console; it has the console's style and forms.
LINK_PAGE = "link.js"
LINK_LINES_MAX = 70

# Every way of making markup, or code, from text; and every place where a token could stay.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment"
    r"|DOMParser|srcdoc|setHTML|\beval\b|new Function|localStorage|document\.cookie|indexedDB"
    r"|javascript:"
)
# Only the name of the theme outlives the tab, in a module that knows no session.
STORED = {"theme.js": {"localStorage"}}
ELSEWHERE = re.compile(r"""(?<!Source: )\bhttps?://(?!www\.w3\.org/2000/svg)|["'(]//""")
IMPORT = re.compile(r'\bimport(?: [^;"]+? from |\()"(.+?)"')
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const|class) (\w+)", re.MULTILINE)

every_module = for_each("module", MODULES, lambda module: module.name)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class TestModule:
    @every_module
    def test_makes_no_markup_of_text(self, module: Path):
        """Data of the API stays text, and the token stays in the session of the tab."""
        allowed = STORED.get(module.name, set())
        assert set(FORBIDDEN.findall(text_of(module))) <= allowed

    @every_module
    def test_names_no_other_place(self, module: Path):
        """No address of another host is in it."""
        assert ELSEWHERE.findall(text_of(module)) == []

    @every_module
    def test_imports_existing_modules(self, module: Path):
        """Its imports are modules of the same folder."""
        for imported in IMPORT.findall(text_of(module)):
            assert imported.startswith("./")
            assert (FOLDER / imported).is_file()

    @every_module
    def test_says_what_it_holds(self, module: Path):
        """It begins with a comment that is a sentence, and fits on a screen or two."""
        text = text_of(module)

        assert re.match(r"// [A-Z][^\n]+(\n// [^\n]+)*\.\n", text)
        assert len(text.splitlines()) <= MODULE_LINES_MAX
        assert max(map(len, text.splitlines())) <= LINE_CHARS_MAX

    @every_module
    def test_documents_its_exports(self, module: Path):
        """Every function and class that others may import has a comment of its own."""
        text = text_of(module)

        for name in re.findall(
            r"^export (?:async )?(?:function\*?|class) (\w+)", text, re.MULTILINE
        ):
            before = re.search(rf"\*/\nexport (?:async )?(?:function\*?|class) {name}\b", text)
            assert before, name

    def test_exports_only_what_is_used(self):
        """What a module exports is imported by another."""
        everything = "\n".join(map(text_of, MODULES))
        imported = set(re.findall(r"\w+", " ".join(re.findall(r"import ([^;]+) from", everything))))
        imported |= set(re.findall(r"\bsession\.(\w+)", everything))
        imported |= set(re.findall(r"{ (\w+) } = await part\(\(\) => import", everything))

        # A view has one name in every module, and is asked for by its address.
        known = imported | {"view"}
        unused = [name for name in EXPORT.findall(everything) if name not in known]

        assert unused == []


class TestPage:
    @for_each("page", PAGES, lambda page: page.name)
    def test_has_no_code_and_no_style_of_its_own(self, page: Path):
        """The policy would refuse them."""
        text = text_of(page)

        assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", text) == []
        assert ELSEWHERE.findall(text) == []

    @for_each("page", PAGES, lambda page: page.name)
    def test_loads_existing_files(self, page: Path):
        """It refers to files and pages of the console, and to open endpoints of the API."""
        for path in re.findall(r'(?:src|href)="([^"]+)"', text_of(page)):
            if path in ADDRESSES or path in {"/openapi.json", "/readyz"}:
                continue
            assert (FOLDER / path.removeprefix(PREFIX)).is_file(), path


def test_everything_together_is_small():
    """The amount of JavaScript and style has a bound."""
    link_page = FOLDER / LINK_PAGE
    together = [one for one in [*MODULES, *FOLDER.glob("*.css")] if one != link_page]

    assert len(text_of(link_page).splitlines()) <= LINK_LINES_MAX
    assert sum(len(text_of(one).splitlines()) for one in together) <= ALL_LINES_MAX
