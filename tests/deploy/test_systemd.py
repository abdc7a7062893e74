"""The units are what systemd accepts, and one script installs them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, run

INSTALL = DEPLOY / "systemd" / "install.sh"
UNITS = ("tenantry.service", "tenantry-worker@1.service", "tenantry-backup.service")
# Of `systemd-analyze security`, in tenths: 0 is best, and most services of a system have over 90.
EXPOSURE_MAX = 20


def install(root: Path, *options: str) -> str:
    return run(str(INSTALL), "--root", str(root), *options)


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the content of every file below *root*."""
    return {
        str(one.relative_to(root)): (one.stat().st_mode & 0o777, one.read_bytes())
        for one in sorted(root.rglob("*"))
        if one.is_file()
    }


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    """A root with the units, those of the system, and what they start."""
    install(tmp_path, "--processes", "4")
    shutil.copytree("/lib/systemd/system", tmp_path / "lib" / "systemd" / "system", symlinks=True)
    programs = tmp_path / "opt" / "tenantry" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in (programs / "python", programs / "tenantry", tmp_path / "bin" / "kill"):
        name.write_text("#!/bin/sh\n", encoding="utf-8")
        name.chmod(0o755)
    return tmp_path


class TestScript:
    def test_installs_everything_into_an_empty_root(self, tmp_path: Path):
        install(tmp_path, "--processes", "4")

        found = files(tmp_path)
        system = "etc/systemd/system"
        assert {name: mode for name, (mode, _) in found.items()} == {
            "etc/tenantry/tenantry.env": 0o600,
            f"{system}/tenantry.service": 0o644,
            f"{system}/tenantry-worker@.service": 0o644,
            f"{system}/tenantry-backup.service": 0o644,
            f"{system}/tenantry-backup.timer": 0o644,
            f"{system}/tenantry.service.d/processes.conf": 0o644,
            "usr/local/bin/tenantry": 0o755,
        }
        link = (tmp_path / "var" / "lib" / "tenantry" / ".env").readlink()
        assert link == Path("/etc/tenantry/tenantry.env")

    def test_changes_nothing_the_second_time(self, tmp_path: Path):
        install(tmp_path, "--processes", "4")
        before = files(tmp_path)

        said = install(tmp_path)

        assert files(tmp_path) == before
        assert "write" not in said

    def test_keeps_the_settings_and_replaces_the_units(self, tmp_path: Path):
        install(tmp_path)
        before = files(tmp_path)
        settings = tmp_path / "etc" / "tenantry" / "tenantry.env"
        settings.write_text("TENANTRY_PORT=8001\n", encoding="utf-8")
        (tmp_path / "etc" / "systemd" / "system" / "tenantry.service").write_text("old")

        install(tmp_path)

        assert settings.read_text(encoding="utf-8") == "TENANTRY_PORT=8001\n"
        assert (
            files(tmp_path)["etc/systemd/system/tenantry.service"]
            == (before["etc/systemd/system/tenantry.service"])
        )

    def test_does_nothing_in_a_dry_run(self, tmp_path: Path):
        said = install(tmp_path, "--dry-run", "--processes", "4")

        assert not list(tmp_path.iterdir())
        assert said.count("write ") == 7

    def test_leaves_a_command_that_is_not_its_own(self, tmp_path: Path):
        other = tmp_path / "usr" / "local" / "bin" / "tenantry"
        other.parent.mkdir(parents=True)
        other.write_text("mine", encoding="utf-8")

        with pytest.raises(AssertionError, match="is not of this script"):
            install(tmp_path)

        assert other.read_text(encoding="utf-8") == "mine"

    @pytest.mark.parametrize(
        "options",
        [
            ("--processes", "0"),
            ("--processes", "65"),
            ("--workers", "-1"),
            ("--what",),
            ("--root",),
        ],
        ids=" ".join,
    )
    def test_rejects_wrong_options(self, tmp_path: Path, options: tuple[str, ...]):
        command = [INSTALL, "--dry-run", *options]

        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

        assert refused.returncode == 2
        assert refused.stderr.startswith("install.sh: ")


class TestUnits:
    def test_systemd_accepts_them(self, machine: Path):
        """It names no unknown line: such a line would have no effect."""
        timer = "tenantry-backup.timer"

        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", f"--root={machine}", *UNITS, timer],
            env={"PATH": os.defpath, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )

        assert checked.returncode == 0, checked.stderr
        assert "tenantry" not in checked.stderr

    @pytest.mark.parametrize("unit", UNITS)
    def test_they_expose_little(self, machine: Path, unit: str):
        rated = run(
            *("systemd-analyze", "security", "--offline=true", f"--root={machine}"),
            *(f"--threshold={EXPOSURE_MAX}", "--no-pager", unit),
        )

        assert re.search(r"Overall exposure level for .*: \d\.\d", rated)
