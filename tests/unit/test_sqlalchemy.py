"""SQLAlchemy and Alembic are those that `tenantry.migration` was written against."""

import hashlib
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import sqlalchemy as sa
from packaging.requirements import Requirement
from sqlalchemy.engine import create

ROOT = Path(__file__).parents[2]
# By the version that it was read in: both ends of the range of `make test-versions`.
READ = {"2.0.40": "8eeb87dba8458e08", "2.1.9": "59c38760df75a488"}
CHANGED = (
    "sa.create_engine has changed (now of SQLAlchemy {version}). Read what it does with the pool, "
    "the dialect and the first connection beside `SharedDialects.connect` in "
    "src/tenantry/migration/live.py, which makes an engine without it; run "
    "tests/integration/test_live.py and test_as_alembic.py; then put {digest} here."
)


class TestSqlalchemy:
    def test_makes_engines_as_when_it_was_read(self):
        """A change would otherwise show first in a live revision."""
        text = inspect.getsource(inspect.unwrap(sa.create_engine))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]

        assert create.create_engine is sa.create_engine
        assert digest in READ.values(), CHANGED.format(version=version("sqlalchemy"), digest=digest)


@pytest.mark.parametrize(
    ("package", "lowest", "unread"),
    [("sqlalchemy", "2.0.40", "2.2"), ("alembic", "1.16.0", "1.21")],
)
class TestBounds:
    """An installation gets no release that was not read, and no older one that was not tested."""

    def test_are_those_that_were_tested(self, package: str, lowest: str, unread: str):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        [bound] = [one for one in map(Requirement, project["dependencies"]) if one.name == package]

        assert bound.specifier.contains(version(package))
        assert bound.specifier.contains(lowest)
        assert not bound.specifier.contains(unread)

    def test_begin_with_the_locked_lowest_versions(self, package: str, lowest: str, unread: str):
        del unread
        locked = (ROOT / "requirements/lowest.lock").read_text(encoding="utf-8").splitlines()

        assert any(line.startswith(f"{package}=={lowest} ") for line in locked)
