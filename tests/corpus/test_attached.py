"""In an attached database, Tenantry does what Alembic does, or refuses and changes nothing."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenantry.migration.streams import NO_STREAM
from tests.corpus.checks import check, names_on
from tests.corpus.lab import FileLab, ServerLab
from tests.corpus.shapes import SHAPES

# As in production, where a warning is no error.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", names_on("sqlite"))
def test_a_shape_leaves_in_a_file_what_plain_alembic_leaves(
    name: str, files: FileLab, threads: ThreadPoolExecutor, tmp_path: Path
):
    check(SHAPES[name], files, threads, tmp_path / "project", NO_STREAM)


@pytest.mark.parametrize("name", names_on("postgresql"))
def test_a_shape_leaves_on_postgresql_what_plain_alembic_leaves(
    name: str, server: ServerLab, threads: ThreadPoolExecutor, tmp_path: Path
):
    check(SHAPES[name], server, threads, tmp_path / "project", NO_STREAM)
