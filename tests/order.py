"""The order of the tests: another one in each session, and the same one from a seed.

The files are mixed, then the classes of each file, and then the tests of each class: what a file
shares is made once. The place of a test depends on nothing but its name and the seed: with
``--order``, a part of the tests runs in the order of the whole.
"""

import hashlib
import re
import secrets
import shlex
from collections import defaultdict
from itertools import islice

import pytest

OPTION = "--order"
SEED_MAX = 1_000_000
# Failed tests with commands; the seed repeats the others, too.
PRINTED_MAX = 10
# A walk through the console is one story, on a fleet that its files share.
IN_ORDER = "tests/e2e/"
ALONE = "this process"


def add_option(parser: pytest.Parser) -> None:
    """Add the option that gives the seed."""
    parser.addoption(OPTION, type=int, help="The seed of the order, as a session has printed it.")


def choose_seed(config: pytest.Config) -> None:
    """Choose a seed, unless one is given; a worker of pytest-xdist has that of its session."""
    given: dict[str, int] = getattr(config, "workerinput", {})
    if OPTION in given:
        config.option.order = given[OPTION]
    elif config.option.order is None:
        config.option.order = secrets.randbelow(SEED_MAX)


def line(seed: int) -> str:
    """Return what repeats the order."""
    return f"order of tests: make test SEED={seed}"


def put_in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the files, the classes of each file, and the tests of each class."""

    def key(item: pytest.Item) -> tuple[bytes, bytes, bytes]:
        if item.parent is None or item.nodeid.startswith(IN_ORDER):
            return b"", b"", b""
        return digest(_file(item.nodeid)), digest(item.parent.nodeid), digest(item.nodeid)

    def digest(name: str) -> bytes:
        return hashlib.sha256(f"{config.option.order} {name}".encode()).digest()

    items.sort(key=key)


class History:
    """What each process of a session has run, to run it again when a test fails."""

    def __init__(self, seed: int, chosen: str) -> None:
        self._seed = seed
        self._chosen = f"-m {shlex.quote(chosen)} " if chosen else ""
        self._files: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a part of a test that has ended."""
        node = getattr(report, "node", None)  # of pytest-xdist
        process = ALONE if node is None else str(node.gateway.id)
        self._files[process].setdefault(_file(report.nodeid))
        if report.failed:
            self._failed.setdefault(report.nodeid, process)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how to run the session again."""
        for one in self.lines():
            terminalreporter.write_line(one)

    def lines(self) -> list[str]:
        """Return the commands that run the failed tests again, and the whole session."""
        found = []
        for test, process in islice(self._failed.items(), PRINTED_MAX):
            files = list(self._files[process])
            before = " ".join(files[: files.index(_file(test)) + 1])
            found += [
                f"{test} failed in {process}. Again alone, and after the same files:",
                self._command(shlex.quote(test)),
                self._command(f"{self._chosen}{before}"),
            ]
        return [*found, line(self._seed)]

    def _command(self, arguments: str) -> str:
        for_make = arguments.replace("$", "$$")
        for_shell = re.sub(r'([\\"$`])', r"\\\1", for_make)
        return f'  make test SEED={self._seed} T="{for_shell}"'


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
