"""A team's project, and its databases, for ``tenantry fleet``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from testkit import raw_sql
from tests.acceptance.commands import Commands, Ended
from tests.integration.projects import Project

LOG = "tenantry_migration_log"


@dataclass(frozen=True)
class Fleet:
    """A project, and databases of its team, listed in a file."""

    project: Project
    tenantry: Commands
    make_url: Callable[[str], str]

    def add(self, *names: str) -> dict[str, str]:
        """Make empty databases, and list them; return their URLs by name."""
        urls = {name: self.make_url(name) for name in names}
        with (self.project.folder / "databases.txt").open("a") as file:
            file.writelines(f"{name} {url}\n" for name, url in urls.items())
        return urls

    def urls(self) -> dict[str, str]:
        """Return the URLs in the list by name."""
        lines = (self.project.folder / "databases.txt").read_text().splitlines()
        return {name: url for name, _, url in (one.partition(" ") for one in lines)}

    def absolute(self, url: str) -> str:
        """Return *url* for a program in another folder."""
        return url.replace("sqlite:///", f"sqlite:///{self.project.folder}/")

    def __call__(self, command: str, *arguments: str, has_list: bool = True) -> Ended:
        listed = ("--urls", "databases.txt") if has_list else ()
        return self.tenantry("fleet", command, *listed, *arguments)

    def migrate(self, *arguments: str) -> Any:
        return self("migrate", "--json", *arguments).data

    def applied(self) -> set[str]:
        """Return what the newest run has applied to a database."""
        shown = self("show", "--json", has_list=False).data
        return {one["appliedMigrations"] for one in shown["details"]}


def statuses(run: Any) -> dict[str, str]:
    return {one["customerName"]: one["status"].lower() for one in run["details"]}


def version(url: str) -> list[tuple[Any, ...]]:
    return raw_sql.rows(url, "SELECT version_num FROM alembic_version")
