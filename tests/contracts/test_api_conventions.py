"""What docs/api-conventions.md lists equals the code."""

import re
from pathlib import Path

from tenantry.access.login import LoginRefused
from tenantry.access.principal import Scope
from tenantry.api.endpoints import BODY_BYTES_MAX, CONTENT_BYTES_MAX
from tenantry.api.error_responses import FIXED_MESSAGES, STATUS, code_of
from tenantry.api.request_body import SENDER_BYTES_MAX, UNCOUNTED_BYTES
from tenantry.api.requests import HEADERS_BYTES_MAX
from tenantry.api.streaming import LARGE_BYTES
from tenantry.api.table import ENDPOINTS
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "api-conventions.md").read_text(encoding="utf-8")


def test_fixed_messages_are_those_of_the_code():
    fixed = {**FIXED_MESSAGES, LoginRefused: LoginRefused().message}
    assert {tuple(row[1:]) for row in _rows("Errors")} == {
        (str(int(STATUS[error])), f"`{code_of(error)}`", message)
        for error, message in fixed.items()
    }


def test_levels_and_their_headers_are_those_of_the_endpoints():
    listed = {row[0]: _headers(row[2]) for row in _rows("Access levels")}
    assert listed == {one.level.name.partition(",")[0]: one.level.headers for one in ENDPOINTS}


def test_every_endpoint_has_the_level_of_the_most_specific_path():
    listed = [(path, row[0]) for row in _rows("Access levels") for path in _code(row[1])]
    for endpoint in ENDPOINTS:
        levels = [
            (len(path), level)
            for path, level in listed
            if endpoint.path == path
            or (path.endswith("/**") and endpoint.path.startswith(path.removesuffix("**")))
        ]
        assert max(levels)[1] == endpoint.level.name.partition(",")[0], endpoint.path


def test_limits_are_those_of_the_code():
    for text in (
        f"at most {BODY_BYTES_MAX:,} bytes,",
        f"at most {CONTENT_BYTES_MAX:,} bytes for posts",
        f"at most {HEADERS_BYTES_MAX:,} bytes in all",
        f"the default `pageSize` is {PAGE_SIZE_DEFAULT}.",
        f"A `pageSize` above {PAGE_SIZE_MAX} is treated as {PAGE_SIZE_MAX}",
        f"at most {SENDER_BYTES_MAX // 2**20} MiB in a process at the same time",
        f"bodies above {UNCOUNTED_BYTES:,} bytes beyond that",
        f"streamed responses above {LARGE_BYTES // 1024} KiB",
    ):
        assert text in " ".join(PAGE.split())


def test_scopes_are_those_of_the_code():
    sentence = re.search(r"^Scopes of an McpToken are [^.]+", PAGE, re.MULTILINE)
    assert sentence is not None
    assert set(_code(sentence[0])) == set(Scope)


def _rows(heading: str) -> list[list[str]]:
    """Return the rows of the last table in a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = section.rpartition("---|\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()]


def _code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def _headers(text: str) -> frozenset[bytes]:
    return frozenset(name.lower().encode() for name in _code(text))
