"""``tools/compare_projects.py`` and ``tools/compare_fleets.py``, on projects that are invented."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tools import compare_fleets
from tools.compare_projects import main

from testkit.revisions import AlembicFolder
from tests.corpus.project import ENV, INI

pytestmark = pytest.mark.slow

NOTE = "op.create_table('note', sa.Column('id', sa.Integer, primary_key=True))"
RANDOM = (
    "import uuid; op.create_table('t', sa.Column('id', sa.Text)); "
    "op.execute(f\"INSERT INTO t VALUES ('{uuid.uuid4()}')\")"
)
# Of Alembic, 1; of Tenantry, 0.
CHANGING = "import sys; op.execute(f\"INSERT INTO note VALUES ({int(sys.argv[0] == '-c')})\")"
ROW = """
[[project]]
name = "{name}"
commit = "abc"
folder = "{name}"
revisions = "migrations"
engine = "{engine}"
python = "{python}"
"""


def write(folder: Path, name: str, *bodies: str) -> None:
    migrations = AlembicFolder(folder / name / "migrations")
    for number, body in enumerate(bodies, 1):
        migrations.add(f"000{number}_{name}", body)
    (migrations.path / "env.py").write_text(ENV)
    (folder / name / "alembic.ini").write_text(INI)


def compare(
    folder: Path, server: str, engine: str, *names: str, by: Callable[..., int] = main
) -> int:
    rows = [ROW.format(name=name, engine=engine, python=sys.executable) for name in names]
    (folder / "table.toml").write_text("".join(rows))
    return by([str(folder / "table.toml"), str(folder), "--server", server])


def test_two_projects_are_equal_or_refused(
    tmp_path: Path, engine: str, server_url: str, capsys: pytest.CaptureFixture[str]
):
    add = "op.add_column('note', sa.Column('text', sa.Text))"
    write(tmp_path, "shop", NOTE, add)
    write(tmp_path, "club", NOTE, "op.get_bind().engine.connect().close()")

    status = compare(tmp_path, server_url, engine, "shop", "club")

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert lines[2] == f"| shop | abc | 2 | {engine} | equal |"
    assert lines[3].startswith(f"| club | abc | 2 | {engine} | refused: ")
    assert "0002_club" in lines[3]


def test_what_fails_with_alembic_may_fail_with_tenantry_but_must_not_differ(
    tmp_path: Path, server_url: str, capsys: pytest.CaptureFixture[str]
):
    write(tmp_path, "broken", NOTE, NOTE)
    differs = 'op.execute(f\'CREATE TABLE {"a" if "plain" in str(op.get_bind().engine.url) else'
    write(tmp_path, "changing", NOTE, f'{differs} "b"}} (x int)\')')

    status = compare(tmp_path, server_url, "sqlite", "broken", "changing")

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert "| plain fails, too: " in lines[2]
    assert "already exists" in lines[2]
    assert "| differs: the tenant that was created |" in lines[3]


def test_fleets_are_equal_or_refused_with_file_and_line_or_differ(
    tmp_path: Path, server_url: str, capsys: pytest.CaptureFixture[str]
):
    """Rows that Alembic makes different in two databases are counted; others are compared."""
    write(tmp_path, "shop", NOTE, "op.execute('INSERT INTO note VALUES (1)')", RANDOM)
    write(tmp_path, "club", NOTE, "op.get_bind().engine.connect().close()")
    write(tmp_path, "changing", NOTE, CHANGING)

    by = partial(run, compare_fleets.main, "--databases", "2")
    status = compare(tmp_path, server_url, "sqlite", "shop", "club", "changing", by=by)

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert lines[2] == "| shop | abc | 3 | sqlite | equal |"
    assert lines[3].startswith("| club | abc | 2 | sqlite | refused with file and line: ")
    assert "| differs: " in lines[4]


def run(function: Callable[[list[str]], int], option: str, value: str, given: list[str]) -> int:
    return function([option, value, *given])
