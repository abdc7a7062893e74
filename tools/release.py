"""Cut a release, and build its files.

``python -m tools.release cut VERSION`` makes the unreleased part of the changelog that of a
version, and writes the version to pyproject.toml, its only place.

``python -m tools.release build FOLDER COMMAND...`` builds the wheel, the source archive, the bill
of materials (with the command), the image and the provenance from the commit that is checked out,
and adds the clients of ``make clients``. The same commit gives the same bytes, but for the image.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

from tenantry.kit.clock import utc_now

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
UNRELEASED = "## [Unreleased]"
NOTES = "### To do when upgrading"
LOCK = "requirements/runtime.lock"
SUMS = "SHA256SUMS"
BUILD_TYPE = "urn:tenantry:make-release:v1"
# A daemon that does not answer is none.
BUILDER_SECONDS_MAX = 20
# Each builds with the flags of the other.
BUILDERS = ("docker", "podman")
BUILT_WITH = ("flit-core",)
_BUILD = (
    "import sys; from flit_core import buildapi as b; print(b.build_wheel(sys.argv[1])); "
    "print(b.build_sdist(sys.argv[1]))"
)


class Refused(Exception):
    """The release cannot be built; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """What is released.

    Attributes:
        root: The working tree.
        commit: Its commit, in hex.
        epoch: The time of the commit, in seconds: that of all files in the archives.
        version: The version in pyproject.toml.
    """

    root: Path
    commit: str
    epoch: str
    version: str

    @property
    def stem(self) -> str:
        """The beginning of the names of the files."""
        return f"tenantry-{self.version}"


def notes_of(changelog: str, heading: str) -> str:
    """Return what to do when upgrading, in the part of the changelog below *heading*.

    Raises:
        Refused: There is no such part, or it does not say what to do.
    """
    parts = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    part = next((one for one in parts if one.startswith(heading)), None)
    if part is None:
        raise Refused(f"CHANGELOG.md has no part `{heading}`: run `make cut VERSION=…`.")
    sections = re.split(r"^(?=### )", part, flags=re.MULTILINE)
    section = next((one for one in sections if one.startswith(NOTES)), "")
    text = section.partition("\n")[2].strip()
    if not text:
        raise Refused(
            f"`{heading}` in CHANGELOG.md does not say what to do when upgrading: write a section "
            f"`{NOTES}`; if there is nothing to do, `Nothing.`"
        )
    return text


def cut(root: Path, version: str, day: str) -> None:
    """Make the unreleased part of the changelog that of *version*, and set the version.

    Raises:
        Refused: The version is not a new one, or the part does not say what to do when upgrading.
    """
    changelog, project = root / "CHANGELOG.md", root / "pyproject.toml"
    text = changelog.read_text(encoding="utf-8")
    if not VERSION.fullmatch(version) or f"## [{version}]" in text:
        raise Refused(f"{version} is not a new version, such as 1.2.0 or 1.2.0rc1.")
    notes_of(text, UNRELEASED)
    changelog.write_text(
        text.replace(UNRELEASED, f"{UNRELEASED}\n\n## [{version}] - {day}", 1), encoding="utf-8"
    )
    before = project.read_text(encoding="utf-8")
    after = re.sub(
        r'^version = ".+"$', f'version = "{version}"', before, count=1, flags=re.MULTILINE
    )
    project.write_text(after, encoding="utf-8")


def read_source(root: Path) -> Source:
    """Return what is checked out at *root*.

    Raises:
        Refused: There are changes without a commit, or the changelog has not been cut.
    """
    changed = _output(["git", "status", "--porcelain"], root)
    if changed:
        names = [one.split(maxsplit=1)[1] for one in changed.splitlines()]
        raise Refused(f"There are changes without a commit: {', '.join(names)}.")
    commit, epoch = _output(["git", "log", "-1", "--format=%H %ct"], root).split()
    with (root / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    notes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), f"## [{version}] - ")
    return Source(root, commit, epoch, version)


def build(
    source: Source,
    folder: Path,
    sbom: Sequence[str],
    *,
    builder: str | None = None,
    clients: Path | None = None,
) -> Path:
    """Build the files of a release into a new folder in *folder*, and return its path.

    Args:
        source: What is released.
        folder: The folder.
        sbom: The command that writes the bill of materials to its last argument, which is added.
        builder: The program that builds the image; None for no image.
        clients: The folder with the clients that `make clients` has built; None for none.

    Raises:
        Refused: The new folder exists, or the clients are not those of the version.
    """
    target = folder.absolute() / source.stem
    if target.exists():
        raise Refused(f"{target} exists: remove it, or name another folder.")
    with tempfile.TemporaryDirectory() as temporary:
        tree, built = Path(temporary, "tree", source.stem), Path(temporary, "built")
        built.mkdir()
        archive = subprocess.check_output(["git", "archive", source.commit], cwd=source.root)
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(tree, filter="data")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": source.epoch}  # noqa: TID251
        command = [sys.executable, "-c", _BUILD, str(built)]
        subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
        shutil.copyfile(tree / LOCK, built / f"{source.stem}-runtime.lock")
        subprocess.run([*sbom, str(built / f"{source.stem}.cdx.json")], cwd=tree, check=True)
        if clients is not None:
            for one in _clients(clients, source.version):
                shutil.copy(one, built)
        if builder is not None:
            image, file = f"tenantry:{source.version}", str(built / f"{source.stem}-image.tar")
            subprocess.run([builder, "build", "--quiet", "--tag", image, str(tree)], check=True)
            subprocess.run([builder, "save", "--output", file, image], check=True)
        statement = provenance(source, _hashes(built))
        text = json.dumps(statement, indent=2, sort_keys=True) + "\n"
        (built / f"{source.stem}.intoto.json").write_text(text, encoding="utf-8")
        lines = [f"{one}  {name}\n" for name, one in _hashes(built).items()]
        (built / SUMS).write_text("".join(lines), encoding="utf-8")
        shutil.copytree(built, target)
    return target


def provenance(source: Source, files: dict[str, str]) -> dict[str, Any]:
    """Return the statement of in-toto about *files*, which have these hashes; it is not signed."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": one}} for name, one in files.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": source.version},
                "internalParameters": {"SOURCE_DATE_EPOCH": source.epoch},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": source.commit}},
                    {"name": LOCK, "digest": {"sha256": files[f"{source.stem}-runtime.lock"]}},
                ],
            },
            "runDetails": {
                "builder": {
                    "id": BUILD_TYPE,
                    "version": {name: metadata.version(name) for name in BUILT_WITH}
                    | {"python": platform.python_version()},
                }
            },
        },
    }


def _clients(folder: Path, version: str) -> list[Path]:
    """Return the clients in *folder*.

    Raises:
        Refused: One of them has another version, so openapi.json is not that of the release.
    """
    names = (f"tenantry_client-{version}-py3-none-any.whl", f"tenantry-client-{version}.tgz")
    found = sorted(one.name for one in folder.glob("tenantry*"))
    if found != sorted(names):
        raise Refused(f"The clients are {found}, not of {version}: run `make docs clients`.")
    return [folder / name for name in names]


def find_builder(*, seconds_max: float = BUILDER_SECONDS_MAX) -> str | None:
    """Return the program that can build images here, if there is one."""
    for name in filter(shutil.which, BUILDERS):
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run([name, "info"], capture_output=True, check=True, timeout=seconds_max)
            return name
    return None


def _hashes(folder: Path) -> dict[str, str]:
    """Return the hash of each file, by name."""
    files = sorted(folder.iterdir())
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def _output(command: Sequence[str], root: Path) -> str:
    return subprocess.check_output(command, cwd=root, text=True).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Cut or build a release, and return the exit status."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cut").add_argument("version")
    of_build = commands.add_parser("build")
    of_build.add_argument("--clients", type=Path)
    of_build.add_argument("folder", type=Path)
    of_build.add_argument("sbom", nargs=argparse.REMAINDER, metavar="COMMAND...")
    options = parser.parse_args(arguments)
    try:
        if options.command == "cut":
            cut(ROOT, options.version, f"{utc_now():%Y-%m-%d}")
            return 0
        source, builder = read_source(ROOT), find_builder()
        target = build(
            source, options.folder, options.sbom, builder=builder, clients=options.clients
        )
    except Refused as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(f"{target}\n{(target / SUMS).read_text(encoding='utf-8')}")
    if builder is None:
        sys.stderr.write("LEFT OUT: the image: neither Docker nor Podman answers.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
