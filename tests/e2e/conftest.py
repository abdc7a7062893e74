"""A browser, a fleet that is served, and pages that are watched."""

import asyncio
import base64
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tenantry.settings import Settings
from testkit.programs import Program, free_port, running
from tests.e2e import firefox
from tests.e2e.stage import ADMIN, PASSWORD, TENANTS, Seeded, set_stage

Take = Callable[[Page, str], None]
Report = Callable[[str], None]

# As Debian, others, and macOS call Chromium.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDE = (1280, 800)
DOCUMENTED = {"run-in-progress", "run-with-failures", "fleet", "tenant", "dark-narrow-fleet"}
QUALITY = 85
# Of a busy machine, for what comes at once on an idle one.
WAIT_MS_MAX = 60_000
# A migration waits four times as long for a lock that a test holds.
LOCK_MS = 20_000
# Few at a time, so that a run lasts for some seconds.
CONCURRENCY = "4"
# A second tenant server, without tenants.
FAR = "far"


class Fleet:
    """The fleet that is served.

    Args:
        url: Where.
        settings: Of the process.
        tenants: In the fleet.
        start: Starts the process, and returns it when it answers.
    """

    def __init__(
        self, url: str, settings: Settings, tenants: list[Seeded], start: Callable[[], Program]
    ) -> None:
        self.url = url
        self.settings = settings
        self.tenants = tenants
        self._start = start
        self._program = start()

    def kill(self) -> None:
        """End the process at once."""
        self._program.process.kill()
        self._program.process.wait()

    def start_again(self) -> None:
        """Start it where the one before has answered."""
        self._program = self._start()


@dataclass
class Watched:
    """What a page has asked for and complained of."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def _is_firefox(self) -> bool:
        browser = self.page.context.browser
        return browser is not None and browser.browser_type.name == "firefox"

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def check(self, *, may_be_refused: bool = False, may_break: bool = False) -> None:
        """Fail if the page logged an error, or sent a request to another host.

        Args:
            may_be_refused: Whether the test expects an error response.
            may_break: Whether the test expects the connection to break.
        """
        expected = {
            "error: Failed to load resource: the server responded with a status of 4": (
                may_be_refused
            ),
            "error: Failed to load resource: net::ERR_": may_break,
            # In Firefox, tools of the tests try to add styles. In Chromium, any is an error.
            "The page\u2019s settings blocked an inline style": self._is_firefox,
        }
        borne = tuple(text for text, is_borne in expected.items() if is_borne)
        assert [one for one in self.complaints if not one.startswith(borne)] == []
        assert {urlsplit(url).netloc for url in self.requests} == {urlsplit(self.origin).netloc}


def pytest_configure() -> None:
    expect.set_options(timeout=WAIT_MS_MAX)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", help="The folder for the pictures that the documents show.")
    parser.addoption("--watch", default="20", help="For how many seconds a large run is watched.")
    parser.addoption("--in", choices=("chromium", "firefox"), default="chromium", dest="browser")


@pytest.fixture(name="take", scope="session")
def _take(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Take:
    """Takes a screenshot, for review or for the documents."""
    pictures = tmp_path_factory.mktemp("pictures")
    documents = request.config.getoption("--pictures")

    def take(page: Page, name: str) -> None:
        page.screenshot(path=pictures / f"{name}.png")
        if name in DOCUMENTED and documents is not None:
            session = page.context.new_cdp_session(page)
            taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
            Path(documents, f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))

    return take


@pytest.fixture(name="report")
def _report(request: pytest.FixtureRequest) -> Report:
    """Prints a measured number."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")

    def report(text: str) -> None:
        reporter.ensure_newline()
        reporter.write_line(text)

    return report


@pytest.fixture(name="browser", scope="session")
def _browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    name = request.config.getoption("browser")
    with sync_playwright() as playwright:
        if name == "firefox":
            program = firefox.install(tmp_path_factory.mktemp("program"))
            assert program, "Firefox is not installed; `make test-firefox` says how."
            browser = playwright.firefox.launch(
                channel="moz-firefox",
                executable_path=program,
            )
        else:
            found = [path for name in PROGRAMS if (path := shutil.which(name))]
            assert found, (
                f"None of {', '.join(PROGRAMS)} is installed; `make test-firefox` says how."
            )
            # Root may not have Chromium's sandbox; what is shown is our own page.
            browser = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(name="fleet", scope="session")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    required = {"TENANTRY_REQUIRE_IF_MATCH": "1"}
    with served(tmp_path_factory.mktemp("fleet"), TENANTS, **required) as fleet:
        yield fleet


@contextmanager
def served(folder: Path, count: int, **more: str) -> Iterator[Fleet]:
    """Serve a fleet of so many tenants, which are behind, with *more* settings."""
    settings = Settings(data_dir=folder / "data", tenant_migrations=folder / "migrations")
    # Playwright has a loop in this thread, so ours gets another one.
    with ThreadPoolExecutor(1) as thread:
        tenants = thread.submit(lambda: asyncio.run(set_stage(settings, count))).result()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    given = {
        "TENANTRY_DATA_DIR": str(settings.data_dir),
        "TENANTRY_TENANT_MIGRATIONS": str(settings.tenant_migrations),
        "TENANTRY_PORT": str(port),
        "TENANTRY_MIGRATE_CONCURRENCY": CONCURRENCY,
        "TENANTRY_LOCK_TIMEOUT_MS": str(LOCK_MS),
        "TENANTRY_TENANT_SERVERS": json.dumps({FAR: f"sqlite:///{folder / FAR}"}),
        **more,
    }
    with ExitStack() as programs:

        def start() -> Program:
            program = programs.enter_context(running(folder, "serve", **given))
            program.wait_for(url)
            return program

        yield Fleet(url, settings, tenants, start)


@pytest.fixture(name="api")
def _api(fleet: Fleet) -> Iterator[httpx.Client]:
    """The HTTP API, as the admin."""
    with admin_of(fleet) as client:
        yield client


@contextmanager
def admin_of(fleet: Fleet) -> Iterator[httpx.Client]:
    """Yield a client of a fleet's API with a session of the admin."""
    with httpx.Client(base_url=fleet.url, timeout=60) as client:
        login = {"email": ADMIN, "password": PASSWORD}
        token = client.post("/api/admin/auth/login", json=login).json()["data"]["token"]
        client.headers.update({"Authorization": f"Bearer {token}", "If-Match": "*"})
        yield client


@pytest.fixture(name="context")
def _context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    context.set_default_timeout(WAIT_MS_MAX)
    yield context
    context.close()


@pytest.fixture(name="watched")
def _watched(context: BrowserContext, fleet: Fleet) -> Iterator[Watched]:
    """A page that must not log an error, nor send a request to another host."""
    watched = Watched(context.new_page(), fleet.url)
    yield watched
    watched.check()
