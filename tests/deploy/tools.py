"""The programs that read the files of deploy; `make test-deploy` installs them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = ROOT / ".deploy" / "tools" / "bin"
SECONDS_MAX = 60


def tool(name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a program that `make test-deploy` has installed, and return its output."""
    return run(str(BIN / name), *arguments, environment=environment)


def run(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run *command*, which must succeed, and return its output."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
