"""On PostgreSQL, Tenantry does what plain Alembic does, or refuses and changes nothing."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.corpus.checks import check, names_on
from tests.corpus.lab import ServerLab
from tests.corpus.shapes import SHAPES

# As in production, where a warning is no error.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("name", names_on("postgresql"))
def test_a_shape_leaves_what_plain_alembic_leaves(
    name: str, server: ServerLab, threads: ThreadPoolExecutor, tmp_path: Path
):
    check(SHAPES[name], server, threads, tmp_path / "project")
