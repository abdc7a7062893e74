"""uvicorn is the one that `api.http.protocol` was written against: it builds on inner parts."""

import hashlib
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.supervisors import multiprocess

ROOT = Path(__file__).parents[2]
READ = {
    httptools_impl: "1d4e1c579df41684",
    flow_control: "d39d16560df512f3",
    multiprocess: "53541976227fec0b",
}
CHANGED = (
    "A module of uvicorn has changed ({name}, now of {version}). Read it beside "
    "src/tenantry/api/http/protocol.py and src/tenantry/cli/serving/processes.py, which override "
    "and call its "
    "inner parts; run tests/unit/test_protocol.py, tests/acceptance/test_connections.py and "
    "tests/acceptance/test_processes.py; then put {digest} here."
)


class TestUvicorn:
    def test_is_the_one_that_was_read(self):
        """A change of what is overridden would otherwise show first in a connection."""
        for module, known in READ.items():
            digest = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()[:16]

            assert digest == known, CHANGED.format(
                name=module.__name__, version=version("uvicorn"), digest=digest
            )

    def test_has_an_upper_bound(self):
        """The package requires a version that was reviewed."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        [bound] = [
            one for one in map(Requirement, project["dependencies"]) if one.name == "uvicorn"
        ]

        assert bound.specifier.contains(version("uvicorn"))
        assert not bound.specifier.contains("0.55")
