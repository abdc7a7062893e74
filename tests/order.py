"""The order of the tests of a file: another one in each session, and the same one from a seed.

The order of files stays, as the long ones come first. So do the tests of a class together. The
place of a test depends on nothing but its name and the seed: with ``--order``, a part of a file
runs in the order of the whole.
"""

import hashlib
import secrets

import pytest

OPTION = "--order"
SEED_MAX = 1_000_000
# A walk through the console is one story, on a fleet that its files share.
IN_ORDER = "tests/e2e/"


def add_option(parser: pytest.Parser) -> None:
    """Add the option that gives the seed."""
    parser.addoption(
        OPTION, type=int, help="The order of tests in a file, as a failed session has printed it."
    )


def choose_seed(config: pytest.Config) -> None:
    """Choose a seed, unless one is given; a worker of pytest-xdist has that of its session."""
    given: dict[str, int] = getattr(config, "workerinput", {})
    if OPTION in given:
        config.option.order = given[OPTION]
    elif config.option.order is None:
        config.option.order = secrets.randbelow(SEED_MAX)


def line(config: pytest.Config) -> str:
    """Return what repeats the order."""
    return f"order of tests: {OPTION}={config.option.order}"


def put_in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the classes of each file, and the tests of each class."""
    files = {file: place for place, file in enumerate(map(_file, items))}

    def key(item: pytest.Item) -> tuple[int, bytes, bytes]:
        place = files[_file(item)]
        if item.parent is None or item.nodeid.startswith(IN_ORDER):
            return place, b"", b""
        return place, digest(item.parent.nodeid), digest(item.nodeid)

    def digest(name: str) -> bytes:
        return hashlib.sha256(f"{config.option.order} {name}".encode()).digest()

    items.sort(key=key)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
