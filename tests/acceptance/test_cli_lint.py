"""``tenantry migrate lint``: without a catalog and without any database."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tenantry.cli.linting import RevisionsEndless, check
from tenantry.cli.main import cli
from tenantry.settings import Settings
from testkit.programs import environment_of, run
from tests.acceptance.commands import Ended

INI = "[alembic]\nscript_location = %(here)s/migrations\nsqlalchemy.url = {}\n"
REVISION = """
from alembic import op

revision = "0001"
down_revision = None

def upgrade():
    op.create_index("ix_posts", "posts", ["id"])
    op.drop_table("notes")
"""
INDEX, DROP = "index-without-concurrently", "drop-table"


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an Alembic project, which is the current one."""
    here = tmp_path / "shop"
    versions = here / "migrations" / "versions"
    versions.mkdir(parents=True)
    (versions / "0001_shop.py").write_text(REVISION, encoding="utf-8")
    (here / "alembic.ini").write_text(INI.format("driver://host/name"), encoding="utf-8")
    monkeypatch.chdir(here)
    return here


def tenantry(*arguments: str, **environment: str) -> Ended:
    """Run the command in this process, without any setting of Tenantry."""
    clean = {name: None for name in environment_of() if name.startswith("TENANTRY_")}
    result = CliRunner().invoke(cli, list(arguments), env={**clean, **environment})
    return Ended(result.exit_code, result.stdout, result.stderr)


def rules(*arguments: str) -> list[str]:
    return [
        one["rule"] for one in tenantry("migrate", "lint", "--json", *arguments).data["findings"]
    ]


ENDLESS = """
import time
from pathlib import Path

while Path(__file__).exists():
    time.sleep(0.02)
"""


class TestLint:
    def test_of_a_file_that_loops_when_it_is_imported_ends_with_a_sentence(self, here: Path):
        endless = here / "migrations" / "versions" / "0002_endless.py"
        endless.write_text(ENDLESS)

        with pytest.raises(RevisionsEndless, match=r"in 0.5 s: a file of them loops or waits"):
            check(Settings(data_dir=here / "data"), [], None, [], seconds=0.5)

        endless.unlink()

    def test_needs_no_settings_and_leaves_nothing(self, here: Path):
        before = {one for one in here.rglob("*") if "__pycache__" not in one.parts}

        ended = run(here, "migrate", "lint")

        assert ended.returncode == 1
        assert f"migrations/versions/0001_shop.py:9  error    {DROP}" in ended.stdout
        assert {one for one in here.rglob("*") if "__pycache__" not in one.parts} == before

    @pytest.mark.usefixtures("here")
    def test_prints_json(self):
        ended = tenantry("migrate", "lint", "--json")

        assert ended.status == 1
        assert ended.data["revisionCount"] == 1
        assert ended.data["findings"][1] == {
            "rule": DROP,
            "level": "error",
            "message": ended.data["findings"][1]["message"],
            "revision": "0001",
            "file": "migrations/versions/0001_shop.py",
            "line": 9,
            "table": "notes",
            "engines": ["postgresql", "sqlite"],
        }

    @pytest.mark.parametrize(
        ("url", "found"),
        [
            ("postgresql+psycopg://host/name", [INDEX, DROP]),
            ("sqlite:///shop.db", [DROP]),
            ("%(no_such_name)s", [INDEX, DROP]),
        ],
    )
    def test_checks_the_engine_of_the_project(self, here: Path, url: str, found: list[str]):
        (here / "alembic.ini").write_text(INI.format(url), encoding="utf-8")

        assert rules() == found
        assert rules("--engine", "sqlite") == [DROP]
        assert rules("--engine", "sqlite", "--engine", "postgresql") == [INDEX, DROP]

    def test_reads_pyproject(self, here: Path):
        (here / "alembic.ini").unlink()
        (here / "pyproject.toml").write_text(
            "[tool.alembic]\nscript_location = 'migrations'\n", encoding="utf-8"
        )

        assert rules() == [INDEX, DROP]

    def test_takes_the_folder_of_the_option_or_of_the_settings(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ):
        folder = str(here / "migrations")
        monkeypatch.chdir(here.parent)

        missing = tenantry("migrate", "lint")
        option = tenantry("migrate", "lint", "--migrations", folder)
        setting = tenantry("migrate", "lint", TENANTRY_TENANT_MIGRATIONS=folder)

        assert (missing.status, option.status, setting.status) == (2, 1, 1)
        assert "name the folder of the revisions with --migrations" in missing.stderr
        assert option.stdout == setting.stdout != ""

    @pytest.mark.parametrize(
        ("source", "level", "status"),
        [
            (REVISION, "error", 1),
            (REVISION.replace('    op.drop_table("notes")\n', ""), "error", 0),
            (REVISION.replace('    op.drop_table("notes")\n', ""), "warning", 1),
            ("import time" + REVISION, "warning", 0),
            ("import time" + REVISION, "info", 1),
        ],
    )
    def test_exits_with_1_after_a_finding_of_the_level(
        self, here: Path, source: str, level: str, status: int
    ):
        (here / "migrations" / "versions" / "0001_shop.py").write_text(source, encoding="utf-8")

        ended = tenantry("migrate", "lint", "--level", level)

        assert ended.status == status

    @pytest.mark.usefixtures("here")
    def test_rejects_an_unknown_revision(self):
        ended = tenantry("migrate", "lint", "0002")

        assert (ended.status, ended.stderr) == (2, "tenantry: error: '0002' is no revision.\n")

    def test_writes_sarif(self, here: Path):
        ended = tenantry("migrate", "lint", "--sarif", "lint.sarif")

        log = json.loads((here / "lint.sarif").read_text(encoding="utf-8"))
        (run_,) = log["runs"]
        driver, results = run_["tool"]["driver"], run_["results"]
        assert ended.status == 1
        assert DROP in ended.stdout
        assert log["version"] == "2.1.0"
        assert [one["ruleId"] for one in results] == [INDEX, DROP]
        for one in results:
            assert driver["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
            assert one["message"]["text"]
        assert [one["level"] for one in results] == ["warning", "error"]
        assert results[1]["locations"] == [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "migrations/versions/0001_shop.py"},
                    "region": {"startLine": 9},
                }
            }
        ]
