"""An installation of Tenantry that serves, and the posts of its tenants."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tenantry.kit.clock import utc_now
from testkit import programs
from testkit.programs import environment_of, free_port
from tests.acceptance.support import LOGIN, OWN_POSTS

OWNER = "grace@acme.example.com"


@dataclass(frozen=True)
class Customer:
    """A tenant, as a client knows it."""

    name: str
    key: str
    password: str


@dataclass(frozen=True)
class Installation:
    """A service that runs.

    Attributes:
        folder: The working folder of its commands.
        url: Where it answers.
        environment: Its settings.
    """

    folder: Path
    url: str
    environment: dict[str, str]

    def create(self, name: str) -> Customer:
        """Create a tenant."""
        owner = ("--owner-email", OWNER, "--owner-name", "Grace")
        ended = programs.run(
            self.folder, "tenant", "create", name, *owner, "--json", **self.environment
        )
        assert ended.returncode == 0, ended.stderr
        made = json.loads(ended.stdout)
        return Customer(name, made["apiKey"], made["ownerPassword"])

    def show(self, name: str) -> Any:
        """Return a tenant as the command line shows it."""
        shown = programs.run(self.folder, "tenant", "show", name, "--json", **self.environment)
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    def write(self, customer: Customer, title: str) -> None:
        """Write a post."""
        with self._client(customer) as client:
            made = client.post(OWN_POSTS, json={"title": title, "content": f"It says {title}."})
            assert made.status_code == 201, made.text

    def titles(self, customer: Customer) -> set[str]:
        """Return the titles of the posts of a tenant."""
        with self._client(customer) as client:
            found = client.get(OWN_POSTS)
            assert found.status_code == 200, found.text
            return {one["title"] for one in found.json()["data"]["items"]}

    @contextmanager
    def _client(self, customer: Customer) -> Iterator[httpx.Client]:
        headers = {"X-Api-Key": customer.key}
        with httpx.Client(base_url=self.url, headers=headers, timeout=60) as client:
            body = {"email": OWNER, "password": customer.password}
            answer = client.post(LOGIN, json=body)
            assert answer.status_code == 200, answer.text
            client.headers["Authorization"] = f"Bearer {answer.json()['data']['token']}"
            yield client


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Installation]:
    """Yield an installation whose service runs in *folder*."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with programs.running(folder, "serve", TENANTRY_PORT=str(port), **settings) as program:
        program.wait_for("Tenantry answers at")
        yield Installation(folder, url, settings)


def adopted(output: str, original: Customer) -> Customer:
    """Return the tenant that `tenant adopt --as` has shown; its users keep their passwords."""
    shown = {
        name: re.findall(rf"^{name} +(.+)$", output, re.MULTILINE) for name in ("tenant", "API key")
    }
    assert all(len(values) == 1 for values in shown.values()), output
    return Customer(shown["tenant"][0], shown["API key"][0], original.password)


def moment_between() -> datetime:
    """Wait; return a whole second that is later than all before, and earlier than all after."""
    time.sleep(1.1)
    moment = utc_now().replace(microsecond=0)
    time.sleep(1.1)
    return moment


def variables(
    folder: Path, programs_folders: list[Path], settings: dict[str, str]
) -> dict[str, str]:
    """Return the environment of commands that a reader types in *folder*."""
    inherited = environment_of(**settings)
    path = ":".join([*map(str, programs_folders), inherited["PATH"], "/usr/sbin", "/sbin"])
    return {**inherited, "PATH": path, "HOME": str(folder)}
