"""The steps of the Dockerfile, run without a builder: its first stage, in an empty folder."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTRUCTION = re.compile(r"^([A-Z]+) ((?:.*\\\n)*.*)$", re.MULTILINE)
# Where an instruction names them, the folder has its own.
PLACES = ("/opt/tenantry", "/data")
STEP_SECONDS_MAX = 600
# A wrapper and no link: a link would be another prefix.
PYTHON = '#!/bin/sh\nexec python3 "$@"\n'


class Steps:
    """The steps of the Dockerfile in an empty *folder*.

    Attributes:
        environment: What the instructions of the stage have set.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "python").write_text(PYTHON)
        (folder / "bin" / "python").chmod(0o755)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"  # noqa: TID251
        self.environment = {"PATH": path, "HOME": str(folder)}
        for name, value in os.environ.items():  # noqa: TID251
            if name.startswith(("PIP_", "SSL_")):  # how the machine reaches its index
                self.environment[name] = value
        self._stages = [
            INSTRUCTION.findall(one)
            for one in re.split(
                r"^(?=FROM )", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE
            )
        ][1:]

    def build(self) -> None:
        """Run the first stage."""
        for name, rest in self._stages[0]:
            text = self._placed(re.sub(r"\\\n", " ", rest))
            if name == "WORKDIR":
                self.work = self.folder / text.lstrip("/")
                self.work.mkdir(parents=True)
            elif name == "COPY":
                *sources, _ = text.split()
                for one in sources:
                    self._copy(ROOT / one)
            elif name == "ENV":
                self.environment |= dict(one.split("=", 1) for one in text.split())
            elif name == "RUN":
                self.run(text)

    def use(self) -> None:
        """Take the environment of the last stage, and no other program of Python."""
        shutil.rmtree(self.folder / "bin")
        for name, rest in self._stages[-1]:
            if name == "ENV":
                text = self._placed(re.sub(r"\\\n", " ", rest)).replace("$PATH", "/usr/bin:/bin")
                self.environment |= dict(one.split("=", 1) for one in text.split())
        self.work = self.folder / "data"
        self.work.mkdir()

    def health_check(self) -> list[str]:
        """Return the command that checks the health."""
        [rest] = [rest for name, rest in self._stages[-1] if name == "HEALTHCHECK"]
        words: list[str] = json.loads(rest.partition("CMD ")[2])
        return words

    def run(self, command: str) -> str:
        """Run one command of a shell, and return its output."""
        done = subprocess.run(  # noqa: S602 - as the builder does
            command,
            shell=True,
            cwd=self.work,
            env=self.environment,
            timeout=STEP_SECONDS_MAX,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _placed(self, text: str) -> str:
        for one in PLACES:
            text = text.replace(one, f"{self.folder}{one}")
        return text

    def _copy(self, source: Path) -> None:
        target = self.work / source.name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
