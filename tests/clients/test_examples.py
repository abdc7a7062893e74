"""The examples have the types of the clients that are published, and run against the demo."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.programs import environment_of, free_port, running

ROOT = Path(__file__).parents[2]
BUILT = ROOT / ".clients"
EXAMPLES = ROOT / "tools" / "clients"
PYTHON = BUILT / "python" / "bin" / "python"
STRICT = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node")
TENANTS = 3
# The newest posts of the demo are read, and one is written.
PRINTED = ("post: ", "post: ", "post: ", "created: Written in ", f"tenants: {TENANTS}")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(name="arguments", scope="module")
def _arguments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What the examples need to know of the demo, which runs."""
    folder, port = tmp_path_factory.mktemp("demo"), str(free_port())
    demo = ("demo", "--port", port, "--tenants", str(TENANTS), "--json")
    with running(folder, *demo) as program:
        program.wait_for("^}")
        shown = json.loads(program.stdout)
        user, admin = shown["user"], shown["admin"]
        yield [
            shown["url"],
            shown["apiKey"],
            *(user["email"], user["password"], admin["email"], admin["password"]),
        ]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run *command*, which must succeed, and return its output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment_of(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_printed(output: str) -> None:
    lines = output.splitlines()
    assert len(lines) == len(PRINTED), output
    assert all(line.startswith(begin) for line, begin in zip(lines, PRINTED, strict=True)), output


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel; what it needs is in the environment of its generator."""
    folder = tmp_path_factory.mktemp("site")
    [wheel] = (BUILT / "dist").glob("*.whl")
    [uv] = (ROOT / ".uv").glob("*/bin/uv")
    target = ("--target", folder, "--python", PYTHON, "--no-deps", "--no-index")
    run(uv, "pip", "install", "--quiet", *target, wheel, cwd=folder)
    return folder


@pytest.fixture(name="project", scope="module")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the package and what it needs, and the example, compiled strictly."""
    folder = tmp_path_factory.mktemp("project")
    modules = folder / "node_modules"
    modules.mkdir()
    for one in (BUILT / "node" / "node_modules").iterdir():
        (modules / one.name).symlink_to(one)
    [package] = (BUILT / "dist").glob("*.tgz")
    with tarfile.open(package) as tar:
        tar.extractall(folder, filter="data")
    (folder / "package").rename(modules / "tenantry-client")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    text = (EXAMPLES / "typescript" / "example.ts").read_text(encoding="utf-8")
    (folder / "example.ts").write_text(text, encoding="utf-8")
    run("node_modules/.bin/tsc", *STRICT, "example.ts", cwd=folder)
    return folder


class TestPython:
    def test_the_example_is_typed(self, site: Path):
        """Strictly, and the types are those of the wheel, not the absence of any."""
        example = EXAMPLES / "python" / "example.py"
        strict = ("--strict", "--python-executable", PYTHON, "--cache-dir", os.devnull)
        mypy = [sys.executable, "-m", "mypy", "--config-file=", *strict]

        run(*mypy, example, cwd=site, MYPYPATH=str(site))
        wrong = site / "wrong.py"
        wrong.write_text(
            example.read_text(encoding="utf-8").replace("post.title", "post.titel"),
            encoding="utf-8",
        )
        with pytest.raises(AssertionError, match="titel"):
            run(*mypy, wrong, cwd=site, MYPYPATH=str(site))

    def test_the_example_runs_against_the_demo(self, site: Path, arguments: list[str]):
        example = EXAMPLES / "python" / "example.py"

        assert_printed(run(PYTHON, example, *arguments, cwd=site, PYTHONPATH=str(site)))


class TestTypeScript:
    def test_the_types_are_those_of_the_package(self, project: Path):
        text = (project / "example.ts").read_text(encoding="utf-8")
        wrong = project / "wrong.ts"
        wrong.write_text(text.replace("post.title", "post.titel"), encoding="utf-8")

        with pytest.raises(AssertionError, match="titel"):
            run("node_modules/.bin/tsc", *STRICT, "--noEmit", "wrong.ts", cwd=project)

    def test_the_example_runs_against_the_demo(self, project: Path, arguments: list[str]):
        assert_printed(run("node", "example.js", *arguments, cwd=project))
