"""The fleet that the commands of ``tenantry fleet`` work on: its state, its revisions, its list."""

import asyncio
import os
import secrets
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenantry.catalog.attached import BadList, Listed
from tenantry.catalog.opening import is_at_head
from tenantry.cli import session
from tenantry.cli.printing import output
from tenantry.cli.session import Reading
from tenantry.db.urls import SQLITE_PREFIX, sqlite_path
from tenantry.fleet import database_list
from tenantry.fleet.approval import Rules
from tenantry.fleet.attached import AttachedFleet, FleetOptions, open_fleet, open_state
from tenantry.kit import log
from tenantry.kit.errors import Unavailable
from tenantry.kit.text import shown
from tenantry.migration import environment, project
from tenantry.migration.migrator import time_limits_of
from tenantry.tenant.databases import TenantDatabases

if TYPE_CHECKING:
    from tenantry.settings import Settings

STATE_DEFAULT = "tenantry-fleet.db"
SERVER_SUFFIX = ".serve"
"""The end of the name of the folder with the files of `tenantry fleet serve`."""
STDIN = "-"
# A million lines of a hundred bytes each, and more.
LIST_CHARS_MAX = 256_000_000
NAMES_SHOWN_MAX = 5
FEATURES_SHOWN_MAX = 10


class StateMissing(Unavailable):
    """There is no state of a fleet here yet: run `tenantry fleet migrate`, or set --state."""


@dataclass(frozen=True, kw_only=True)
class FleetPlace:
    """A fleet, as the options of a command name it.

    Attributes:
        state: The path of a SQLite file, or a URL.
        migrations: The Alembic directory; None for that of the project in the working directory.
        urls: A file with the list of databases, or ``-`` for standard input.
        pattern: A pattern of the paths of SQLite files.
        source: The URL of a database with the list, and the query for it.
        has_log: Whether the databases get a log.
    """

    state: str
    migrations: Path | None = None
    urls: str | None = None
    pattern: str | None = None
    source: tuple[str, str] | None = None
    has_log: bool = True

    def configure_server(self, *, host: str, port: int | None) -> "Settings":
        """Return the settings for a server of this fleet, and set up the logs of this process.

        The secret key, which seals the keys of logins, is in a folder beside the state, unless
        `TENANTRY_SECRET_KEY` is set. It must be set for a state on PostgreSQL.

        Raises:
            Exception: As for `options`.
        """
        path = sqlite_path(self._state_url)
        data_dir = Path(f"{STATE_DEFAULT if path is None else path}{SERVER_SUFFIX}")
        # The port of metrics needs no credentials, and may be that of a service beside this one.
        given = {"data_dir": data_dir, "host": host, "port": port, "metrics_port": 0}
        settings = self._read_settings(**given)
        options = self.options(settings)
        self._configure_log(settings, log_level="info")
        return settings.model_copy(
            update={
                "tenant_migrations": options.migrations,
                "tenant_version_table": options.version_table,
                "tenant_naming_convention": options.naming_convention,
            }
        )

    def command(self, name: str) -> str:
        """Return a command on this fleet, without a URL that can have a password."""
        words = ["tenantry fleet", "migrate" if name == "all" else name]
        is_file = sqlite_path(self._state_url) is not None
        if self.state != STATE_DEFAULT:
            words += ["--state", shlex.quote(self.state) if is_file else "URL"]
        has_list = name not in ("show", "cancel")
        for option, value in {
            "--migrations": self.migrations,
            "--urls": self.urls if has_list else None,
            "--glob": self.pattern if has_list else None,
        }.items():
            words += [] if value is None else [option, shlex.quote(str(value))]
        if self.source is not None and has_list:
            words += ["--from URL --query", shlex.quote(self.source[1])]
        return " ".join(words if self.has_log or not has_list else [*words, "--no-log"])

    @asynccontextmanager
    async def working(self, *, works: bool) -> AsyncIterator[AttachedFleet]:
        """Open this fleet, after its list was read.

        Raises:
            BadList: The list cannot be read; nothing was opened.
            Exception: As for `_options` and `open_fleet`.
        """
        options = self._options(log_level="error" if works else "warning")
        listed = await self.read()
        async with open_fleet(options, session.context(), listed, works=works) as opened:
            self._note_changes(opened)
            yield opened

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reading]:
        """Open the state of this fleet.

        Raises:
            StateMissing: There is none.
            Exception: As for `_options` and `open_fleet`.
        """
        options = self._options(log_level="warning")
        path = sqlite_path(options.state)
        if path is not None and not path.exists():
            raise StateMissing
        catalog = open_state(options)
        try:
            if not await is_at_head(catalog):
                async with open_fleet(options, session.context(), [], works=False):
                    pass
            databases = TenantDatabases({})
            yield Reading(catalog=catalog, databases=databases, streams=options.streams)
        finally:
            await catalog.close()

    @property
    def _state_url(self) -> str:
        return self.state if "://" in self.state else f"{SQLITE_PREFIX}{self.state}"

    def options(self, settings: "Settings | None") -> FleetOptions:
        """Return what this fleet consists of; without *settings*, all have their defaults.

        Raises:
            BadProject, BadEnvironment: There is no Alembic project, or it cannot be read.
        """
        folder = self.migrations or project.find_folder(Path())
        options = FleetOptions(state=self._state_url, migrations=folder, has_log=self.has_log)
        if settings is not None:
            options = replace(
                options,
                version_table=settings.tenant_version_table,
                naming_convention=settings.tenant_naming_convention,
                concurrency=settings.migrate_concurrency,
                limits=time_limits_of(settings),
                patience_seconds=settings.server_patience_s,
                driver=settings.migration_driver,
                synchronous=settings.sqlite_synchronous,
                rules=Rules.of(settings),
            )
        if settings is None or "tenant_version_table" not in settings.model_fields_set:
            table: dict[str, Any] = environment.find_version_table(folder)
            options = replace(options, **table)
        return options

    def _options(self, *, log_level: str) -> FleetOptions:
        """Return what this fleet consists of, and set up the logs of this process.

        Raises:
            BadSettings: A setting is invalid or unknown.
            Exception: As for `options`.
        """
        settings = self._settings()
        self._configure_log(settings, log_level=log_level)
        return self.options(settings)

    def _configure_log(self, settings: "Settings | None", *, log_level: str) -> None:
        is_set = settings is not None and "log_level" in settings.model_fields_set
        log.configure(
            log_format=settings.log_format if settings else "auto",
            level=settings.log_level if settings and is_set else log_level,
        )

    def _settings(self) -> "Settings | None":
        """Return the settings; None if no variable is set, and the state is a file.

        Then all have their defaults, which are those of `FleetOptions`: pydantic is not imported.
        """
        is_set = any(name.upper().startswith("TENANTRY_") for name in os.environ)  # noqa: TID251
        if not is_set and self.state and "://" not in self.state:
            return None
        return self._read_settings(secret_key=secrets.token_urlsafe(32))  # nothing is encrypted

    def _read_settings(self, **overrides: object) -> "Settings":
        settings: Settings = import_module("tenantry.settings").read_settings(
            has_file=False,  # that in the working directory is of another program
            catalog_url=self._state_url,
            **overrides,
        )
        return settings

    async def read(self) -> list[Listed]:
        """Return the databases of the list; none if the command has no list.

        Raises:
            BadList: It cannot be read, or breaks a rule.
        """
        if self.source is not None:
            return await database_list.of_query(*self.source)
        if self.pattern is not None:
            state = sqlite_path(self._state_url)
            return await asyncio.to_thread(database_list.of_pattern, self.pattern, state)
        if self.urls is None:
            return []
        if self.urls == STDIN:
            with import_module("tenantry.cli.prompts").interruptible():
                return database_list.of_text(_checked(sys.stdin.read(LIST_CHARS_MAX + 1)))
        return await asyncio.to_thread(database_list.of_text, _read_text(Path(self.urls)))

    def _note_changes(self, opened: AttachedFleet) -> None:
        added, missing = opened.changes.added, opened.changes.missing
        if added:
            output.note(f"{len(added):,} new in the list: {_named(added)}.")
            options = opened.options
            found = environment.read_environment(options.migrations, options.version_table)
            for one in found[:FEATURES_SHOWN_MAX]:
                output.note(f"env.py is not run. {one.found} {one.consequence}")
        if missing:
            output.note(
                f"{len(missing):,} known and not in the list, so not migrated: {_named(missing)}."
            )


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return _checked(file.read(LIST_CHARS_MAX + 1))
    except UnicodeDecodeError as error:
        raise BadList(f"{path} must be UTF-8 text.") from error


def _checked(text: str) -> str:
    if len(text) > LIST_CHARS_MAX:  # its last databases would be missing
        raise BadList(f"A list has at most {LIST_CHARS_MAX:,} characters.")
    return text


def _named(names: Sequence[str]) -> str:
    more = [f"and {len(names) - NAMES_SHOWN_MAX:,} more"] if len(names) > NAMES_SHOWN_MAX else []
    return ", ".join([*map(shown, names[:NAMES_SHOWN_MAX]), *more])
