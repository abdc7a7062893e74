"""SQLAlchemy is the one that `tenantry.migration.live` was written against."""

import hashlib
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa
from packaging.requirements import Requirement
from sqlalchemy.engine import create

ROOT = Path(__file__).parents[2]
READ = "59c38760df75a488"
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
        assert digest == READ, CHANGED.format(version=version("sqlalchemy"), digest=digest)

    def test_has_an_upper_bound(self):
        """An installation of the package gets no release that was not read."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        [bound] = [
            one for one in map(Requirement, project["dependencies"]) if one.name == "sqlalchemy"
        ]

        assert bound.specifier.contains(version("sqlalchemy"))
        assert not bound.specifier.contains("2.2")
