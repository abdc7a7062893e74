"""The shell steps of ``action.yml`` and of the GitLab component, in a new Git repository.

What these tests do not run: the installation by pip, which an input leaves out, because the
command is installed here; the upload to code scanning, which is another action; and the programs
of the code hosts, of which only the expressions in our files are evaluated.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.programs import environment_of

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SPEC, JOB = (
    (ROOT / "templates" / "lint" / "template.yml").read_text(encoding="utf-8").split("\n---\n")
)
REVISION = """
from alembic import op

revision = "{id}"
down_revision = {down!r}

def upgrade():
    op.{operation}
"""
DROP, ADD = 'drop_table("notes")', 'execute("SELECT 1")'
TENANTRY = Path(sys.executable).parent
STEP_SECONDS_MAX = 60


@dataclass(frozen=True)
class Ran:
    """How the steps ended."""

    status: int
    output: str
    sarif: Path
    comment: str


@dataclass(frozen=True)
class Repository:
    """A Git repository with an Alembic project in a subfolder; the main branch has one revision."""

    folder: Path
    temp: Path

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        command = ["git", *names, *arguments]
        return subprocess.run(
            command, cwd=self.folder, check=True, capture_output=True, encoding="utf-8"
        ).stdout.strip()

    def add(self, id_: str, down: str | None, operation: str) -> None:
        file = self.folder / "my shop" / "migrations" / "versions" / f"{id_}_my größe.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = REVISION.format(id=id_, down=down, operation=operation)
        file.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--message", id_)

    def run(self, shell: list[str], script: str, folder: Path, **variables: str) -> Any:
        path = os.pathsep.join([str(TENANTRY), os.environ["PATH"]])  # noqa: TID251
        return subprocess.run(
            [*shell, script],
            cwd=folder,
            env=environment_of(PATH=path, RUNNER_TEMP=str(self.temp), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=STEP_SECONDS_MAX,
            check=False,
        )

    def act(self, **inputs: str) -> Ran:
        """Run the steps of the action as a runner does: until one fails."""
        given = {name: one["default"] for name, one in ACTION["inputs"].items()}
        given |= {"install": "", "directory": "my shop", **inputs}
        values = {f"inputs.{name}": str(value) for name, value in given.items()}
        values["github.base_ref"] = "main"
        values["inputs.base"] = _filled(values["inputs.base"], values)
        output, file = "", self.temp / "output"
        file.write_text("", encoding="utf-8")
        for step in ACTION["runs"]["steps"]:
            if "uses" in step or not _holds(step.get("if", ""), values):
                continue
            folder = self.folder / _filled(step.get("working-directory", "."), values)
            variables = {name: _filled(one, values) for name, one in step.get("env", {}).items()}
            # As the runner calls `shell: bash`.
            shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
            ended = self.run(shell, step["run"], folder, GITHUB_OUTPUT=str(file), **variables)
            output += ended.stdout
            if ended.returncode:
                break
        lines = file.read_text(encoding="utf-8").splitlines()
        made = dict(one.split("=", 1) for one in lines)
        comment = Path(made["comment-file"]).read_text(encoding="utf-8")
        return Ran(ended.returncode, output, Path(made["sarif-file"]), comment)


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], text)


def _holds(condition: str, values: dict[str, str]) -> bool:
    """Evaluate the conditions that our file has: a value that is, or is not, a text."""
    if not condition:
        return True
    found = re.fullmatch(r"(\S+) (==|!=) '(\w*)'", condition)
    assert found, condition
    return (values[found[1]] == found[3]) == (found[2] == "==")


@pytest.fixture(name="repository")
def _repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository", tmp_path / "temp")
    repository.temp.mkdir()
    (repository.folder / "my shop").mkdir(parents=True)
    (repository.folder / "my shop" / "alembic.ini").write_text(
        "[alembic]\nscript_location = %(here)s/migrations\n", encoding="utf-8"
    )
    repository.git("init", "--quiet", "--initial-branch", "main")
    repository.add("0001", None, DROP)
    repository.git("update-ref", "refs/remotes/origin/main", "main")
    return repository


class TestAction:
    def test_checks_only_new_revisions(self, repository: Repository):
        before = repository.act()
        repository.add("0002", "0001", ADD)
        right = repository.act()
        repository.add("0003", "0002", DROP)
        wrong = repository.act()

        assert (before.status, right.status, wrong.status) == (0, 0, 1)
        assert "0 checked" in before.output
        assert "1 checked" in right.output
        assert "None." in right.comment
        assert "2 checked" in wrong.output
        assert "Failed: lint" in wrong.output
        assert "0003_my größe.py:8  error" in wrong.comment
        assert "0001" not in wrong.comment

    def test_writes_sarif_with_paths_of_the_repository(self, repository: Repository):
        ran = repository.act(revisions="all")

        log = json.loads(ran.sarif.read_text(encoding="utf-8"))
        [result] = log["runs"][0]["results"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place == {"uri": "my%20shop/migrations/versions/0001_my%20gr%C3%B6%C3%9Fe.py"}
        assert ran.status == 1

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("inputs", "status"),
        [
            ({"revisions": "all", "level": "error"}, 1),
            ({"revisions": "0001:\n0001"}, 1),
            ({"revisions": "0001:"}, 0),
            ({"revisions": "0009"}, 2),
            ({"base": "no-such-branch"}, 128),
            ({"migrations": "nowhere"}, 3),
            ({"engine": "sqlite"}, 0),
        ],
    )
    def test_takes_its_inputs(self, repository: Repository, inputs: dict[str, str], status: int):
        """A base that Git does not know is no base without changes."""
        assert repository.act(**inputs).status == status

    @pytest.mark.slow
    def test_adds_the_plan_to_the_comment(self, repository: Repository):
        ran = repository.act(plan="true")

        assert ran.status == 0
        assert ran.comment.index("### Findings") < ran.comment.index("### Plan")
        assert "    0 of 0 tenants pending" in ran.comment

    @pytest.mark.slow
    def test_checks_for_drift_instead(self, repository: Repository):
        ran = repository.act(drift="true")

        assert ran.status == 0
        assert "### Drift\n\n    0 compared" in ran.comment
        assert "### Findings" not in ran.comment

    def test_passes_every_input_to_a_step(self):
        steps = json.dumps(ACTION["runs"]["steps"])

        assert {name for name in ACTION["inputs"] if f"inputs.{name}" not in steps} == set()

    def test_puts_no_input_into_a_script(self):
        """A branch or a file with a name like `$(...)` must not be a command."""
        scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]

        assert not any("${{" in one for one in scripts)


class TestComponent:
    def run(self, repository: Repository, **inputs: str) -> Any:
        """Run the script of the job as a runner does."""
        defaults = yaml.safe_load(SPEC)["spec"]["inputs"]
        given = {name: one["default"] for name, one in defaults.items()}
        given |= {"install": "", "directory": "my shop", **inputs}
        text = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: f'"{given[found[1]]}"', JOB)
        (job,) = yaml.safe_load(text).values()
        script = "\n".join([*job["before_script"], *job["script"]])
        return repository.run(
            ["sh", "-ec"],
            script,
            repository.folder,
            CI_PROJECT_DIR=str(repository.folder),
            CI_MERGE_REQUEST_DIFF_BASE_SHA=repository.git("rev-parse", "origin/main"),
            **{name: str(value) for name, value in job["variables"].items()},
        )

    def test_checks_only_new_revisions(self, repository: Repository):
        before = self.run(repository)
        repository.add("0002", "0001", DROP)
        wrong = self.run(repository)

        assert (before.returncode, wrong.returncode) == (0, 1)
        assert "0002_my größe.py:8  error" in wrong.stdout
        assert "0001" not in wrong.stdout
        (job,) = yaml.safe_load(JOB).values()
        for name in job["artifacts"]["paths"]:
            assert (repository.folder / name).stat().st_size

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("inputs", "status"),
        [({"revisions": "all"}, 1), ({"revisions": "0009"}, 2), ({"level": "info"}, 0)],
    )
    def test_takes_its_inputs(self, repository: Repository, inputs: dict[str, str], status: int):
        assert self.run(repository, **inputs).returncode == status
