"""A release is built from a commit alone, and the same commit gives the same bytes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools import release
from tools.release import Refused, Source, build, cut, notes_of, read_source

from tenantry.kit.release import VERSION

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "requirements", "src")
AS = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
NEW = "99.1.0"
SBOM = (sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write('{}')")
NAMES = {
    f"tenantry-{NEW}-py3-none-any.whl",
    f"tenantry-{NEW}.tar.gz",
    f"tenantry-{NEW}-runtime.lock",
    f"tenantry-{NEW}.cdx.json",
    f"tenantry-{NEW}.intoto.json",
}


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *AS, *words], cwd=root, check=True, capture_output=True)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(name="root", scope="module")
def _root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of which a release can be built."""
    root = tmp_path_factory.mktemp("tree")
    for name in FILES:
        ignore = shutil.ignore_patterns("__pycache__")
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, root / name)
    cut(root, NEW, "2031-02-03")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "release")
    return root


@pytest.fixture(name="source", scope="module")
def _source(root: Path) -> Source:
    return read_source(root)


@pytest.fixture(name="built", scope="module")
def _built(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("dist"), SBOM)


class TestVersion:
    def test_is_in_one_place(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert project["version"] == VERSION

    def test_is_set_with_the_changelog(self, root: Path):
        changelog = (root / "CHANGELOG.md").read_text()
        assert f"{release.UNRELEASED}\n\n## [{NEW}] - 2031-02-03\n\n### To do when" in changelog
        assert f'\nversion = "{NEW}"\n' in (root / "pyproject.toml").read_text()

    @pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.0", "1.2.0-rc1", NEW])
    def test_must_be_a_new_one(self, root: Path, version: str):
        with pytest.raises(Refused, match="is not a new version"):
            cut(root, version, "2031-02-03")


class TestUpgradeNotes:
    @pytest.mark.parametrize(
        "text",
        [
            "# Changelog\n",
            "## [Unreleased]\n\n### Added\n\n- More.\n",
            "## [Unreleased]\n\n### To do when upgrading\n\n### Added\n\n- More.\n",
            "## [Unreleased]\n## [1.0.0] - 2030-01-01\n### To do when upgrading\n\n- Stop.\n",
        ],
    )
    def test_are_asked_for(self, text: str):
        with pytest.raises(Refused):
            notes_of(text, release.UNRELEASED)

    def test_are_those_of_the_version(self):
        text = "## [2.0.0] - x\n### To do when upgrading\n\nNothing.\n## [1.0.0] - y\n### Added\n"
        assert notes_of(text, "## [2.0.0]") == "Nothing."


class TestSource:
    def test_is_a_commit(self, root: Path):
        stray = root / "src" / "stray.py"
        stray.write_text("")
        with pytest.raises(Refused, match=r"without a commit: src/stray\.py"):
            read_source(root)
        stray.unlink()

    def test_has_a_changelog_that_is_cut(self, root: Path, tmp_path: Path):
        shutil.copytree(root, tmp_path / "other")
        project = tmp_path / "other" / "pyproject.toml"
        project.write_text(project.read_text().replace(NEW, "99.2.0"))
        git(tmp_path / "other", "commit", "--quiet", "-am", "next")
        with pytest.raises(Refused, match="make cut"):
            read_source(tmp_path / "other")


class TestBuild:
    def test_has_the_files_of_a_release_and_their_checksums(self, built: Path):
        sums = [one.split("  ") for one in (built / release.SUMS).read_text().splitlines()]
        assert built.name == f"tenantry-{NEW}"
        assert {one.name for one in built.iterdir()} == NAMES | {release.SUMS}
        assert {name: one for one, name in sums} == {name: digest(built / name) for name in NAMES}

    def test_says_what_it_was_built_from(self, built: Path, source: Source):
        statement = json.loads((built / f"tenantry-{NEW}.intoto.json").read_text())
        of = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        about = statement["predicate"]
        sources = about["buildDefinition"]["resolvedDependencies"]
        assert of == {name: digest(built / name) for name in NAMES if "intoto" not in name}
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        assert sources[0]["digest"] == {"gitCommit": source.commit}
        assert set(about["runDetails"]["builder"]["version"]) == {"python", "flit-core"}

    def test_has_the_same_bytes_each_time(self, source: Source, built: Path, tmp_path: Path):
        """In another folder, at another time, with another umask."""
        before = os.umask(0o077)
        try:
            again = build(source, tmp_path, SBOM)
        finally:
            os.umask(before)
        assert {one.name: digest(one) for one in again.iterdir()} == {
            one.name: digest(one) for one in built.iterdir()
        }

    def test_has_the_clients_of_its_version(self, source: Source, tmp_path: Path):
        """Those of another description are rejected."""
        clients = {f"tenantry_client-{NEW}-py3-none-any.whl", f"tenantry-client-{NEW}.tgz"}
        for name in clients:
            (tmp_path / name).write_bytes(b"client")

        made = build(source, tmp_path / "dist", SBOM, clients=tmp_path)
        (tmp_path / f"tenantry-client-{NEW}.tgz").rename(tmp_path / "tenantry-client-1.0.0.tgz")

        assert {one.name for one in made.iterdir()} == NAMES | clients | {release.SUMS}
        sums = (made / release.SUMS).read_text()
        assert all(name in sums for name in clients)
        with pytest.raises(Refused, match=rf"not of {re.escape(NEW)}"):
            build(source, tmp_path / "again", SBOM, clients=tmp_path)

    def test_does_not_replace_another(self, source: Source, built: Path):
        with pytest.raises(Refused, match="exists: remove it"):
            build(source, built.parent, SBOM)

    def test_has_in_the_wheel_what_the_source_archive_gives(
        self, source: Source, built: Path, tmp_path: Path
    ):
        with tarfile.open(built / f"tenantry-{NEW}.tar.gz") as tar:
            tar.extractall(tmp_path, filter="data")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": source.epoch}  # noqa: TID251
        code = "import sys; from flit_core import buildapi; buildapi.build_wheel(sys.argv[1])"
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            cwd=tmp_path / f"tenantry-{NEW}",
            env=environment,
            check=True,
        )
        name = f"tenantry-{NEW}-py3-none-any.whl"
        assert digest(tmp_path / name) == digest(built / name)

    def test_has_all_files_of_the_package(self, root: Path, built: Path):
        with zipfile.ZipFile(built / f"tenantry-{NEW}-py3-none-any.whl") as wheel:
            names = {one for one in wheel.namelist() if one.startswith("tenantry/")}
        package = root / "src"
        assert names == {
            str(one.relative_to(package)) for one in package.rglob("*") if one.is_file()
        }


def test_a_daemon_that_does_not_answer_builds_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in release.BUILDERS:
        (tmp_path / name).write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert release.find_builder(seconds_max=0.1) is None
