"""The files for deployment are right about the program that they start."""

import configparser
import re
import secrets
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values
from tools import reference

from tenantry.api.access_levels import OPEN
from tenantry.api.table import ENDPOINTS
from tenantry.cli.serving.server import GRACE_SECONDS
from tenantry.cli.serving.signals import EXIT_SECONDS_MAX
from tenantry.settings import PREFIX, Settings
from tests.conftest import SECRET_KEY

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
# An instruction and all of its lines.
INSTRUCTIONS = re.findall(r"^([A-Z]+) ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
UNIT_FILE = ROOT / "deploy" / "tenantry.service"
EXAMPLE = ROOT / ".env.example"

NAMES_SETTINGS = [
    ROOT / "Dockerfile",
    ROOT / "compose.yaml",
    EXAMPLE,
    UNIT_FILE,
    ROOT / "deploy" / "postgres.sh",
]
SETTING = re.compile(rf"\b{PREFIX}[A-Z_]+[A-Z]\b")
PINNED = re.compile(r"(python|postgres):\d+\.\d+(\.\d+)?-[a-z-]+")
OPEN_PATHS = {one.path for one in ENDPOINTS if one.level is OPEN and one.method == "GET"}
COMMANDS = {name.removeprefix("tenantry ") for name in reference.commands()}
OURS = [name for name in COMPOSE["services"] if name != "postgres"]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == instruction]


def unit() -> dict[str, str]:
    """Return the section of the service; of duplicate names, the last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT_FILE)
    return dict(parser["Service"])


@pytest.mark.parametrize("file", NAMES_SETTINGS, ids=lambda file: file.name)
def test_settings_exist(file: Path):
    """A name that is not known would stop the start."""
    named = set(SETTING.findall(file.read_text(encoding="utf-8")))

    assert named <= set(reference.setting_names())


@pytest.mark.parametrize(
    "lock", sorted((ROOT / "requirements").glob("*.lock")), ids=lambda lock: lock.name
)
def test_locks_name_no_host(lock: Path):
    """A package is known by its hash, wherever it comes from."""
    text = lock.read_text(encoding="utf-8")

    assert "--hash=sha256:" in text
    assert "://" not in text
    assert "--index-url" not in text


class TestExample:
    def test_names_every_setting_once(self):
        """Each is there, with a sentence above it, and nothing is set."""
        text = EXAMPLE.read_text(encoding="utf-8")

        assert re.findall(r"^# .+\n#(\w+)=", text, re.MULTILINE) == reference.setting_names()
        assert dotenv_values(EXAMPLE) == {}

    def test_shows_what_can_be_set(self, tmp_path: Path):
        """What it shows is valid, all of it at once, with a secret in place of its placeholder."""
        shown = re.sub(r"^#(\w+=)", r"\1", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
        shown = re.sub(r"<the output of: openssl [^>]+>", SECRET_KEY, shown)
        (tmp_path / "env").write_text(shown, encoding="utf-8")

        settings = Settings(_env_file=tmp_path / "env")  # type: ignore[call-arg]

        assert settings.model_fields_set == set(Settings.model_fields)
        for name in ("port", "token_minutes", "migrate_concurrency", "log_format"):
            assert getattr(settings, name) == Settings.model_fields[name].default


class TestDockerfile:
    def test_pins_its_images(self):
        """Each stage begins with one release of Python, or with the image that is chosen."""
        images = {rest.split()[0] for rest in of("FROM")}
        defaults = dict(one.split("=") for one in of("ARG") if "_IMAGE=" in one)

        assert images == {f"${{{name}}}" for name in defaults}
        assert all(PINNED.fullmatch(default) for default in defaults.values())

    def test_has_the_client_programs_of_the_server(self):
        """Backups need them, not older than the server that is started beside it."""
        [major] = [one.partition("=")[2] for one in of("ARG") if one.startswith("POSTGRES_MAJOR")]
        image = COMPOSE["services"]["postgres"]["image"]

        assert "postgresql-client-${POSTGRES_MAJOR}" in DOCKERFILE
        assert "TENANTRY_PG_TOOLS=/usr/lib/postgresql/${POSTGRES_MAJOR}/bin" in DOCKERFILE
        assert f":-postgres:{major}." in image
        for name in OURS:
            arguments = COMPOSE["services"][name]["build"]["args"]
            assert (arguments["POSTGRES_MAJOR"], arguments["POSTGRES_IMAGE"]) == (major, image)

    def test_installs_what_is_locked(self):
        """With hashes, from no named index, and Tenantry itself without an index."""
        installs = [one for one in of("RUN") if " install " in one and "pip" in one]

        assert len([one for one in installs if "--require-hashes" in one]) == 1
        assert all(
            "--require-hashes" in one or "--no-index" in one
            for one in installs
            if "--python" in one
        )
        assert "://" not in DOCKERFILE.replace("http://127.0.0.1", "")

    def test_copies_existing_files(self):
        """The files are in the project, and .dockerignore does not exclude them."""
        let_through = (ROOT / ".dockerignore").read_text(encoding="utf-8")

        for rest in of("COPY"):
            if not rest.startswith("--from"):
                for source in rest.split()[:-1]:
                    assert (ROOT / source).exists()
                    assert f"!{source}\n" in let_through

    def test_leaves_no_build_tools(self):
        """The environment has no pip, no builder, and neither has the image."""
        last = DOCKERFILE.rpartition("FROM ")[2]

        assert "venv --without-pip" in DOCKERFILE
        assert "uninstall --yes flit-core" in DOCKERFILE
        assert "pip uninstall --yes --quiet setuptools wheel pip" in last

    def test_runs_as_an_ordinary_user(self):
        """The last stage has a user, by number, that is not root."""
        assert INSTRUCTIONS.index(("USER", of("USER")[-1])) > INSTRUCTIONS.index(
            ("FROM", of("FROM")[-1])
        )
        assert int(of("USER")[-1]) > 0

    def test_checks_its_health(self):
        """It requests an existing endpoint that needs no credentials."""
        [asked] = of("HEALTHCHECK")

        [path] = re.findall(r"TENANTRY_PORT'\]\}(/\w+)", asked)
        assert path == "/readyz"
        assert path in OPEN_PATHS

    def test_starts_an_existing_command(self):
        """It serves, on the port that it names."""
        assert of("ENTRYPOINT") == ['["tenantry"]']
        assert of("CMD") == ['["serve"]']
        assert "serve" in COMMANDS
        assert of("EXPOSE") == ["8000"]
        assert "TENANTRY_PORT=8000" in DOCKERFILE


class TestCompose:
    def test_has_two_servers_and_one_worker(self):
        """Two processes that answer, one that migrates, and one PostgreSQL."""
        commands = sorted(COMPOSE["services"][name]["command"][0] for name in OURS)

        assert commands == ["serve", "serve", "worker"]
        assert set(commands) <= COMMANDS

    @pytest.mark.parametrize("name", OURS)
    def test_has_valid_settings(self, name: str):
        """The settings are valid together."""
        given = {
            key.removeprefix(PREFIX).lower(): re.sub(r"\$\{\w+:\?\}", secrets.token_hex(), value)
            for key, value in COMPOSE["services"][name]["environment"].items()
        }

        assert Settings(**given).catalog.startswith("postgresql://")

    def test_trusts_the_proxy_of_its_machine(self):
        """A client's address comes from it; otherwise all clients share one limit on logins."""
        [network] = COMPOSE["networks"]["default"]["ipam"]["config"]

        for name in OURS:
            environment = COMPOSE["services"][name]["environment"]
            assert environment["TENANTRY_TRUSTED_PROXIES"] == network["gateway"]

    def test_keeps_one_folder_of_archives(self):
        """What one process saves, another one restores."""
        assert "/data/backups" in DOCKERFILE
        for name in OURS:
            assert COMPOSE["services"][name]["volumes"] == ["backups:/data/backups"]
        assert "backups" in COMPOSE["volumes"]

    def test_holds_no_secret(self):
        """Secrets come from the environment, and it does not start without them."""
        for service in COMPOSE["services"].values():
            for key, value in service["environment"].items():
                if re.search("PASSWORD|SECRET|URL", key):
                    assert re.search(r"\$\{\w+:\?\}", value)
        used = set(re.findall(r"\$\{(\w+)", (ROOT / "compose.yaml").read_text(encoding="utf-8")))
        known = set(reference.setting_names())
        assert all(name in known or not name.startswith(PREFIX) for name in used)

    def test_checks_health(self):
        """No process starts before PostgreSQL is healthy, and the worker has a separate check."""
        services = COMPOSE["services"]

        assert "healthcheck" in services["postgres"]
        assert "healthcheck" in services["worker"]
        port = services["worker"]["environment"]["TENANTRY_METRICS_PORT"]
        assert f"127.0.0.1:{port}/metrics" in services["worker"]["healthcheck"]["test"][-1]
        assert "/metrics" in {one.path for one in ENDPOINTS}
        for name in OURS:
            assert services[name]["depends_on"]["postgres"]["condition"] == "service_healthy"

    def test_allows_the_time_of_a_shutdown(self):
        """It kills no process before the deadline of a shutdown."""
        for name in OURS:
            grace_seconds = int(COMPOSE["services"][name]["stop_grace_period"].rstrip("s"))
            assert grace_seconds > EXIT_SECONDS_MAX > GRACE_SECONDS

    def test_has_connections_for_all_processes(self):
        """All processes together stay below what PostgreSQL gives."""
        fields = Settings.model_fields
        each = sum(
            fields[name].default
            for name in ("catalog_connections", "tenant_connections", "migrate_concurrency")
        )
        [most] = re.findall(
            r"max_connections=(\d+)", " ".join(COMPOSE["services"]["postgres"]["command"])
        )

        assert each * len(OURS) < int(most)

    def test_pins_its_images(self):
        """PostgreSQL is one release; ours is built here."""
        image = COMPOSE["services"]["postgres"]["image"]
        ours = {COMPOSE["services"][name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS}

        assert PINNED.fullmatch(image.removeprefix("${POSTGRES_IMAGE:-").removesuffix("}"))
        assert ours == {f"${{PYTHON_IMAGE:-{of('ARG')[0].partition('=')[2]}}}"}

    @pytest.mark.parametrize("name", COMPOSE["services"])
    def test_bounds_every_service(self, name: str):
        """No service takes the whole machine, writes its own image, or gains rights."""
        service = COMPOSE["services"][name]

        assert service["mem_limit"] == service["memswap_limit"]
        assert service["pids_limit"] > 0
        assert service["cpus"] > 0
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]

    def test_mounts_existing_files(self):
        """The file that makes the role is in the project."""
        mounted = [one.split(":")[0] for one in COMPOSE["services"]["postgres"]["volumes"]]

        assert all((ROOT / one).exists() for one in mounted if one.startswith("./"))


class TestUnit:
    def test_starts_an_existing_command(self):
        """It serves, as a separate user."""
        program, command = unit()["ExecStart"].split()

        assert program.endswith("/bin/tenantry")
        assert command in COMMANDS
        assert unit()["User"] not in {"root", "0"}

    def test_allows_the_time_of_a_shutdown(self):
        """SIGTERM first, and then more time than a shutdown takes."""
        assert unit()["KillSignal"] == "SIGTERM"
        assert int(unit()["TimeoutStopSec"]) > EXIT_SECONDS_MAX

    def test_is_hardened(self):
        """It can write its own folder and no other, and gain nothing."""
        section = unit()

        assert section["ProtectSystem"] == "strict"
        assert section["NoNewPrivileges"] == "yes"
        assert section["CapabilityBoundingSet"] == ""
        assert {"MemoryMax", "MemoryHigh", "TasksMax"} <= section.keys()
        assert f"TENANTRY_DATA_DIR=/var/lib/{section['StateDirectory']}" == section["Environment"]
