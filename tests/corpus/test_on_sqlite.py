"""On SQLite, Tenantry does what plain Alembic does, or refuses and changes nothing."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.corpus.checks import check, names_on
from tests.corpus.lab import FileLab
from tests.corpus.shapes import SHAPES

# As in production, where a warning is no error.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", names_on("sqlite"))
def test_a_shape_leaves_what_plain_alembic_leaves(
    name: str, files: FileLab, threads: ThreadPoolExecutor, tmp_path: Path
):
    check(SHAPES[name], files, threads, tmp_path / "project")
