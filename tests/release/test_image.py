"""The image can be built, and what is in it serves: with a builder, or step by step without one."""

import contextlib
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.release import find_builder

from tenantry.kit.release import VERSION
from testkit.programs import free_port
from tests.release.steps import ROOT, Steps

pytestmark = pytest.mark.timeout(900)

HEALTHY_SECONDS_MAX = 60


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until_healthy(*words: str, **options: object) -> None:
    ends = time.monotonic() + HEALTHY_SECONDS_MAX
    while subprocess.run(words, check=False, capture_output=True, **options).returncode:  # type: ignore[call-overload]
        assert time.monotonic() < ends, "it is not ready"
        time.sleep(0.2)


@contextlib.contextmanager
def container(builder: str, image: str) -> Iterator[str]:
    name = f"tenantry-{secrets.token_hex(4)}"
    run(builder, "run", "--detach", "--name", name, image)
    try:
        yield name
    finally:
        run(builder, "rm", "--force", "--volumes", name)


class TestDockerfile:
    def test_has_no_line_that_hadolint_rejects(self):
        run(str(ROOT / ".image" / "tools" / "bin" / "hadolint"), str(ROOT / "Dockerfile"))


class TestImage:
    def test_is_built_and_serves(self, tmp_path: Path):
        steps = Steps(tmp_path)
        builder = find_builder()
        if builder is not None:
            image = f"tenantry-test:{secrets.token_hex(4)}"
            run(builder, "build", "--tag", image, str(ROOT))
            try:
                assert run(builder, "run", "--rm", image, "--version").split()[-1] == VERSION
                with container(builder, image) as name:
                    until_healthy(builder, "exec", name, *steps.health_check())
            finally:
                run(builder, "rmi", "--force", image)
            return
        steps.build()
        steps.use()
        assert steps.run("tenantry --version").split()[-1] == VERSION
        packages = {one.name for one in (tmp_path / "opt").rglob("*.dist-info")}
        assert any(one.startswith("uvicorn-") for one in packages)
        assert not any(one.startswith(("pip-", "flit_core-", "setuptools-")) for one in packages)
        steps.environment |= {"TENANTRY_PORT": str(free_port()), "TENANTRY_HOST": "127.0.0.1"}
        program = tmp_path / "opt" / "tenantry" / "bin" / "tenantry"
        with subprocess.Popen([program, "serve"], cwd=steps.work, env=steps.environment) as server:
            try:
                python, *rest = steps.health_check()
                command = str(program.with_name(python))
                until_healthy(command, *rest, cwd=steps.work, env=steps.environment)
            finally:
                server.terminate()
        assert server.returncode == 0
