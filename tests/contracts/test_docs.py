"""What the documents name exists, and the reference is complete."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools import reference

from tenantry.api.endpoints import Router
from tenantry.api.table import ENDPOINTS
from tests.contracts.each import for_each

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RECORDS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
RECORD_LINES_MAX = 40
RECORD_PARTS = ("Context", "Decision", "Consequences", "Alternatives", "Check")

LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CONFLICT = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE_PATH = re.compile(r"`((?:src|tests|testkit|tools|docs|harness|requirements)/[\w./-]+)`")
MAKE = re.compile(r"(?:`|^ {4}|; |&& )make ([a-z0-9-]+)", re.MULTILINE)
TARGET = re.compile(r"^([a-z0-9-]+):", re.MULTILINE)
SETTING = re.compile(r"\bTENANTRY_(?!TEST_)[A-Z_]+[A-Z]\b")
COMMAND = re.compile(r"\btenantry ([a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*)?)")
ENDPOINT = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^\s`?…]+)`")
CURL = re.compile(
    r"^curl (?:-w '\\n' )?(?:-X (\w+) )?http://127\.0\.0\.1:8000(\S+)((?:.*\\\n)*.*)$", re.MULTILINE
)

every_page = for_each("page", PAGES, lambda page: str(page.relative_to(ROOT)))


class TestReference:
    @for_each("page", lambda: reference.pages().items(), lambda page: page[0])
    def test_is_what_the_code_makes(self, page: tuple[str, str]):
        assert _text(reference.FOLDER / page[0]) == page[1], "run `make docs`"

    def test_has_no_other_pages(self):
        assert {page.name for page in reference.FOLDER.iterdir()} == set(reference.pages())

    @for_each("setting", reference.setting_names)
    def test_lists_every_setting(self, setting: str):
        assert f"| `{setting}` |" in _reference("settings")

    @for_each("endpoint", reference.endpoint_names)
    def test_lists_every_endpoint(self, endpoint: str):
        assert f"\n### {endpoint}\n" in _reference("endpoints")

    @for_each("command", reference.commands)
    def test_lists_every_command(self, command: str):
        assert f"\n## {command}\n" in _reference("commands")

    def test_lists_every_error(self):
        missing = [
            error.__name__
            for error in reference.error_types()
            if f"| `{error.__name__}` |" not in _reference("errors")
        ]

        assert not missing

    def test_every_error_has_a_category(self):
        uncategorised = [
            error.__name__
            for error in reference.error_types()
            if not issubclass(error, reference.CATEGORIES)
        ]

        assert not uncategorised


class TestPages:
    @every_page
    def test_links_lead_somewhere(self, page: Path):
        broken = [link for link in LINK.findall(_prose(page)) if not _leads(page, link)]

        assert not broken

    @every_page
    def test_paths_exist(self, page: Path):
        missing = [one for one in CODE_PATH.findall(_text(page)) if not (ROOT / one).exists()]

        assert not missing

    @every_page
    def test_settings_exist(self, page: Path):
        assert set(SETTING.findall(_text(page))) <= set(reference.setting_names())

    @every_page
    def test_make_targets_exist(self, page: Path):
        targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))

        assert set(MAKE.findall(_text(page))) <= targets

    @every_page
    def test_commands_exist(self, page: Path):
        known = [command.removeprefix("tenantry ") for command in reference.commands()]
        typed = set(COMMAND.findall(_text(page)))

        unknown = {one for one in typed if one not in known and one.split()[0] not in known}

        assert not unknown

    @every_page
    def test_endpoints_exist(self, page: Path):
        known = {(endpoint.method, _shape(endpoint.path)) for endpoint in ENDPOINTS}
        named = ENDPOINT.findall(_text(page))

        unknown = [(method, path) for method, path in named if (method, _shape(path)) not in known]

        assert not unknown

    @every_page
    def test_curls_ask_for_endpoints(self, page: Path):
        router = Router(ENDPOINTS)

        for method, path, rest in CURL.findall(_text(page)):
            router.find(method or ("POST" if " -d " in rest else "GET"), path)

    @every_page
    def test_has_no_merge_conflict(self, page: Path):
        assert not CONFLICT.search(_text(page))

    def test_index_lists_every_page(self):
        index = ROOT / "docs" / "README.md"
        links = (link.partition("#")[0] for link in LINK.findall(_prose(index)))
        listed = {(index.parent / link).resolve() for link in links}

        pages = [page for page in PAGES if "docs" in page.parts and page not in (index, *RECORDS)]
        assert [page.name for page in pages if page not in listed] == []

    def test_each_has_one_place_in_the_manual(self):
        nav = tomllib.loads(_text(ROOT / "docs" / "nav.toml"))
        named = [
            page.rpartition("<")[2].rstrip(">") for one in nav["group"] for page in one["pages"]
        ]
        placed = [(ROOT / "docs" / f"{page}.md").resolve() for page in named]

        home = ROOT / "docs" / "README.md"
        assert sorted(placed) == [page for page in PAGES if page not in (home, *RECORDS)]

    def test_readme_shows_three_curls(self):
        assert len(CURL.findall(_text(README))) == 3


class TestDecisions:
    @for_each("record", RECORDS, lambda record: record.stem)
    def test_is_short_and_has_its_parts(self, record: Path):
        text = _text(record)

        assert len(text.splitlines()) <= RECORD_LINES_MAX
        assert tuple(HEADING.findall(text)[1:]) == RECORD_PARTS

    def test_are_numbered_and_listed(self):
        index = _text(ROOT / "docs" / "decisions" / "README.md")

        assert [record.name[:4] for record in RECORDS] == [
            f"{number:04d}" for number in range(1, len(RECORDS) + 1)
        ]
        assert all(f"({record.name})" in index for record in RECORDS)

    def test_name_every_dependency(self):
        project = tomllib.loads(_text(ROOT / "pyproject.toml"))["project"]
        named = _text(next(record for record in RECORDS if "dependencies" in record.name))

        names = [re.split(r"[ \[<>=]", one)[0] for one in project["dependencies"]]

        assert [name for name in names if f"`{name}`" not in named] == []


def _reference(name: str) -> str:
    return _text(reference.FOLDER / f"{name}.md")


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _prose(page: Path) -> str:
    return FENCE.sub("", _text(page))


def _shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def _leads(page: Path, link: str) -> bool:
    if "://" in link:
        return True
    path, _, fragment = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not fragment or fragment in set(_anchors(target)))


def _anchors(page: Path) -> Iterator[str]:
    for heading in HEADING.findall(_prose(page)):
        yield reference.anchor(heading.replace("`", ""))
