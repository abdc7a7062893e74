"""The files for deployment are right about the program that they start."""

import configparser
import re
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
COMPOSE_FILE = ROOT / "deploy" / "compose" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
SECRETS = (COMPOSE_FILE.parent / "secrets.sh").read_text(encoding="utf-8")
EXAMPLE = ROOT / ".env.example"

NAMES_SETTINGS = [
    ROOT / "Dockerfile",
    COMPOSE_FILE,
    EXAMPLE,
    *UNITS,
    ROOT / "deploy" / "migrate.sh",
    ROOT / "deploy" / "compose" / "secrets.sh",
]
SETTING = re.compile(rf"\b{PREFIX}[A-Z_]+[A-Z]\b")
PINNED = re.compile(r"(python|postgres):\d+\.\d+(\.\d+)?-[a-z-]+")
RELEASE = re.compile(r"(caddy|grafana/grafana|prom/prometheus):v?\d+\.\d+\.\d+(-alpine)?")
OPEN_PATHS = {one.path for one in ENDPOINTS if one.level is OPEN and one.method == "GET"}
COMMANDS = {name.removeprefix("tenantry ") for name in reference.commands()}
OURS = [name for name in COMPOSE["services"] if COMPOSE["services"][name]["image"] == "tenantry"]
API = [n for n in OURS if COMPOSE["services"][n].get("command") == ["serve"]]
STAYING = [name for name in OURS if name != "migrate"]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == instruction]


def unit(file: Path) -> dict[str, str]:
    """Return the section of the service; of duplicate names, the last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(file)
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
        """Two processes that answer, and one that migrates, after one that only prepares."""
        commands = sorted(COMPOSE["services"][name]["command"][0] for name in STAYING)

        assert commands == ["serve", "serve", "worker"]
        assert set(commands) <= COMMANDS
        assert "tenantry-migrate" in COMPOSE["services"]["migrate"]["entrypoint"][-1]
        assert "COPY deploy/migrate.sh /usr/local/bin/tenantry-migrate\n" in DOCKERFILE

    def test_the_scripts_call_existing_commands(self):
        script = (ROOT / "deploy" / "migrate.sh").read_text(encoding="utf-8")
        called = re.findall(r"(?:^|[(; ])tenantry ([a-z]+ [a-z]+) -?", script, re.MULTILINE)

        assert {"admin create", "admin list", "migrate all"} <= set(called)
        assert set(called) <= COMMANDS

    @pytest.mark.parametrize("name", OURS)
    def test_has_valid_settings(self, name: str):
        """The settings are valid together, with those of the file of secrets."""
        written = SECRETS.partition("<<ENV\n")[2].partition("ENV\n")[0]
        secret = dict(line.split("=", 1) for line in written.splitlines())
        named = COMPOSE["services"][name]["environment"] | secret
        given = {
            key.removeprefix(PREFIX).lower(): re.sub(
                r"\$\{SITE:-(\w+)\}|\$\w+|\$\(.+\)",
                lambda one: one[1] or SECRET_KEY.encode().hex(),
                value,
            )
            for key, value in named.items()
            if key.startswith(PREFIX)
        }

        assert Settings(**given).catalog.startswith("postgresql://")

    def test_trusts_its_proxy(self):
        """A client's address comes from it; otherwise all clients share one limit on logins."""
        [address] = COMPOSE["services"]["caddy"]["networks"]["default"].values()

        for name in OURS:
            assert COMPOSE["services"][name]["environment"]["TENANTRY_TRUSTED_PROXIES"] == address

    def test_its_proxy_finds_every_server(self):
        """The names and the port of the image, and the path of its health check."""
        caddy = (COMPOSE_FILE.parent / "Caddyfile").read_text(encoding="utf-8")
        [upstreams] = re.findall(r"UPSTREAMS:([^}]+)", caddy)
        [path] = re.findall(r"health_uri (\S+)", caddy)

        assert upstreams.split() == [f"{name}:8000" for name in API]
        assert path in OPEN_PATHS
        for port in ("8080", "8443"):
            assert f":{port}}}" in caddy
            assert any(one.endswith(f":{port}") for one in COMPOSE["services"]["caddy"]["ports"])

    def test_publishes_no_port_but_those_of_its_proxy(self):
        """Prometheus and Grafana are for this machine only, and the others for no one."""
        published = {
            name: service["ports"]
            for name, service in COMPOSE["services"].items()
            if "ports" in service
        }

        assert set(published) == {"caddy", "grafana", "prometheus"}
        for name in ("grafana", "prometheus"):
            assert all(one.startswith("127.0.0.1:") for one in published[name])

    def test_keeps_one_folder_of_archives(self):
        """What one process saves, another one restores."""
        assert "/data/backups" in DOCKERFILE
        for name in OURS:
            assert COMPOSE["services"][name]["volumes"] == ["backups:/data/backups"]
        assert "backups" in COMPOSE["volumes"]

    def test_holds_no_secret(self):
        """Secrets are files that git ignores, which each service sees only if it needs them."""
        files = {name: one["file"] for name, one in COMPOSE["secrets"].items()}

        for service in COMPOSE["services"].values():
            for key in service.get("environment", {}):
                assert not re.search("PASSWORD|SECRET|TENANTRY_.*URL", key) or (
                    key.endswith("_FILE") or key == "TENANTRY_PUBLIC_URL"
                )
        assert all(Path(one).parent == Path("secrets") for one in files.values())
        assert "/deploy/compose/secrets/\n" in (ROOT / ".gitignore").read_text(encoding="utf-8")
        for file in files.values():
            assert re.search(rf"\b{re.escape(Path(file).name)}\b", SECRETS)
        for name in OURS:
            [env] = [one for one in COMPOSE["services"][name]["secrets"] if isinstance(one, dict)]
            assert env == {"source": "tenantry_env", "target": f"{of('WORKDIR')[-1]}/.env"}

    def test_describes_what_it_reads(self):
        """Every value that it reads from .env is in .env.example."""
        example = (COMPOSE_FILE.parent / ".env.example").read_text(encoding="utf-8")
        read = set(re.findall(r"\$\{(\w+)", COMPOSE_FILE.read_text(encoding="utf-8")))

        assert read == set(re.findall(r"^#?(\w+)=", example, re.MULTILINE))

    def test_checks_health(self):
        """Each starts after what it needs is healthy, and the worker has a separate check."""
        services = COMPOSE["services"]

        assert all("healthcheck" in one for name, one in services.items() if name not in API)
        port = services["worker"]["environment"]["TENANTRY_METRICS_PORT"]
        assert f"127.0.0.1:{port}/metrics" in services["worker"]["healthcheck"]["test"][-1]
        assert "/metrics" in {one.path for one in ENDPOINTS}
        for name in OURS:
            assert services[name]["depends_on"]["postgres"]["condition"] == "service_healthy"
        for name in STAYING:
            done = services[name]["depends_on"]["migrate"]["condition"]
            assert done == "service_completed_successfully"
        for name in API:
            assert services["caddy"]["depends_on"][name]["condition"] == "service_healthy"

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
        """Each is one release; ours is built here."""
        image = COMPOSE["services"]["postgres"]["image"]
        ours = {COMPOSE["services"][name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS}

        assert PINNED.fullmatch(image.removeprefix("${POSTGRES_IMAGE:-").removesuffix("}"))
        assert ours == {f"${{PYTHON_IMAGE:-{of('ARG')[0].partition('=')[2]}}}"}
        for name in ("caddy", "grafana", "prometheus"):
            assert RELEASE.fullmatch(COMPOSE["services"][name]["image"])

    @pytest.mark.parametrize("name", COMPOSE["services"])
    def test_bounds_every_service(self, name: str):
        """No service takes the whole machine, writes its own image, is root, or gains rights."""
        service = COMPOSE["services"][name]

        assert service["mem_limit"] == service["memswap_limit"]
        assert service["pids_limit"] > 0
        assert service["cpus"] > 0
        assert service["read_only"] is True
        assert int(service["user"].partition(":")[0]) > 0
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]

    def test_mounts_existing_files(self):
        """What it mounts from the project is there."""
        mounted = [
            one.split(":")[0]
            for service in COMPOSE["services"].values()
            for one in service.get("volumes", [])
        ]

        ours = [COMPOSE_FILE.parent / one for one in mounted if one.startswith(".")]
        assert [one for one in ours if not one.exists()] == []

    def test_prometheus_scrapes_every_process(self):
        """Each at the port of the settings, with the rules that are mounted beside the file."""
        folder = COMPOSE_FILE.parents[1] / "prometheus"
        config = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
        port = COMPOSE["services"]["worker"]["environment"]["TENANTRY_METRICS_PORT"]
        [scraped] = config["scrape_configs"]

        assert {one for each in scraped["static_configs"] for one in each["targets"]} == {
            f"{name}:{port}" for name in OURS if name != "migrate"
        }
        assert [one for one in config["rule_files"] if not (folder / one).exists()] == []

    def test_grafana_finds_its_dashboard(self):
        """The folder that its provider names is that of the mounted dashboard."""
        folder = COMPOSE_FILE.parents[1] / "grafana"
        providers = yaml.safe_load((folder / "dashboards.yml").read_text(encoding="utf-8"))
        sources = yaml.safe_load((folder / "datasource.yml").read_text(encoding="utf-8"))
        mounted = {one.split(":")[1] for one in COMPOSE["services"]["grafana"]["volumes"]}

        [path] = [one["options"]["path"] for one in providers["providers"]]
        assert f"{path}/tenantry.json" in mounted
        assert [one["url"] for one in sources["datasources"]] == ["http://prometheus:9090"]


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
class TestUnit:
    def test_starts_existing_commands(self, file: Path):
        """As a separate user; with the release that the link leads to."""
        text = file.read_text(encoding="utf-8")
        started = re.findall(r"^ExecStart=/opt/tenantry/bin/(.+)$", text, re.MULTILINE)

        assert started
        for line in started:
            words = re.split(r" (?=--)", line.replace("python -P -m tenantry", "tenantry"))[0]
            assert words.removeprefix("tenantry ") in COMMANDS
        assert unit(file)["User"] not in {"root", "0"}

    def test_allows_the_time_of_a_shutdown(self, file: Path):
        """SIGTERM first, and then more time than a shutdown takes."""
        assert unit(file).get("KillSignal", "SIGTERM") == "SIGTERM"
        assert int(unit(file)["TimeoutStopSec"]) > EXIT_SECONDS_MAX

    def test_is_hardened(self, file: Path):
        """It can write its own folder and no other, and gain nothing."""
        section = unit(file)

        assert section["ProtectSystem"] == "strict"
        assert section["NoNewPrivileges"] == "yes"
        assert section["CapabilityBoundingSet"] == ""
        assert {"MemoryMax", "MemoryHigh", "TasksMax"} <= section.keys()
        assert f"TENANTRY_DATA_DIR=/var/lib/{section['StateDirectory']}" == section["Environment"]
