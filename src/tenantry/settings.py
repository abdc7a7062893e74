"""Settings: read once at the start, then passed explicitly."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from tenantry.kit import setting_types
from tenantry.kit.errors import Invalid
from tenantry.kit.hook_settings import Hooks
from tenantry.kit.secrets import fault_of_secret_key
from tenantry.kit.server_settings import DatabaseUrl, TenantServer, TenantServers
from tenantry.kit.setting_types import PREFIX

ENV_FILE = ".env"
SERVER_DEFAULT = "default"
# The local address of a server that listens on every address.
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class BadSettings(Invalid):
    """The settings are invalid."""


class Settings(BaseSettings):
    """The settings of one process, from ``TENANTRY_*`` variables or a file named ``.env``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=ENV_FILE, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    data_dir: Path = Field(
        Path("data"), description="The data folder: all files of Tenantry are in it."
    )
    catalog_url: DatabaseUrl = Field(
        SecretStr(""),
        description="The catalog: `sqlite:///path` or `postgresql://…`. "
        "Empty: the file `catalog.db` in the data folder.",
    )
    tenant_server_url: DatabaseUrl = Field(
        SecretStr(""),
        description="Where tenant databases are created: `sqlite:///folder`, or the "
        "`postgresql://…` of a server and a role that may create databases. "
        "Empty: the folder `tenants` in the data folder.",
    )
    tenant_servers: TenantServers = Field(
        default_factory=dict,
        description="Tenant servers by name, as JSON: "
        '`{"eu": "postgresql://…", "us": {"url": "postgresql://…"}}`. A tenant stays on its server '
        "until it is moved. `admin_url` is its URL without a connection pooler. `weight` is its "
        "share of new tenants; it gets none by weight with `max_tenants`. `concurrency`, "
        "`connections` replace `TENANTRY_MIGRATE_CONCURRENCY`, `TENANTRY_TENANT_CONNECTIONS`. The "
        "server `default` is here or in `TENANTRY_TENANT_SERVER_URL`; alone, its weight is 1.",
    )
    secret_key: SecretStr = Field(
        SecretStr(""),
        description="Encrypts the signing keys in the catalog; at least 32 characters. Required "
        "with a PostgreSQL catalog; otherwise a file `secret-key` is created in the data folder.",
    )
    secret_key_old: SecretStr = Field(
        SecretStr(""), description="The previous secret key, until `tenantry secret rotate`."
    )
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=1, le=65535, description="The port to listen on.")
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^/?#@\s]+/?)?$",
        description="The URL of the service for clients: `https://cms.example.com`. It is used in "
        "the configurations of MCP clients, and is the only host name that `/mcp` accepts. "
        "Empty: the address to listen on, and the names of this machine for itself.",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="The address to listen on with `TENANTRY_METRICS_PORT`."
    )
    metrics_port: int = Field(
        0, ge=0, le=65535, description="A port that serves `/metrics` without credentials; 0: none."
    )
    token_minutes: int = Field(60, ge=1, le=1440, description="How long a login lasts.")
    password_min_length: int = Field(
        8, ge=8, le=64, description="Minimum length of a new password (NIST recommends 15)."
    )
    password_threads: int = Field(
        1, ge=1, le=64, description="Passwords hashed in parallel; each needs 19 MiB and a core."
    )
    login_tries: int = Field(
        5, ge=1, le=100, description="Failed logins of an account from one address before a delay."
    )
    login_account_hourly: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="Failed logins of one account in an hour, over all addresses.",
    )
    login_address_minutely: int = Field(
        300, ge=1, le=1_000_000, description="Failed logins from one client address in a minute."
    )
    audit_days: int = Field(
        365, ge=0, le=36500, description="Days after which audit entries are removed; 0 keeps them."
    )
    deleted_days: int = Field(
        7, ge=0, le=36500, description="Days for which a deleted tenant can be undeleted; 0: none."
    )
    connections: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Maximum client connections to this process; more are rejected with 503. "
        "0: what the limit of open files (`ulimit -n`) allows besides the files of its databases.",
    )
    connections_per_address: int = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Maximum connections from one client address (IPv6: one /64 network); more "
        "are rejected with 429.",
    )
    requests_per_minute: int = Field(
        60_000,
        ge=60,
        le=100_000_000,
        description="Maximum requests of one API key, user, admin or unbound McpToken in a minute, "
        "for each process; more get 429. A tenant can have a limit of its own instead.",
    )
    tenant_size_max: setting_types.SizeLimit = Field(
        0,
        description="The size limit of a tenant's database: `10GB`, at least 16 MB; 0 for none. "
        "Beyond it, content is rejected with 507. A tenant can have a limit of its own instead.",
    )
    free_space_mark: setting_types.MarkText = Field(
        "",
        description="The free space on the disk of a SQLite tenant server below which content is "
        "rejected with 507: `2GB`, or `5%` of the disk, at most 90 %; 0 for none. Empty: 1 GB, or "
        "10 % of a disk smaller than 10 GB. A backup to a disk leaves half of it free.",
    )
    trusted_proxies: setting_types.ProxyAddresses = Field(
        "",
        description="Addresses or networks (`10.0.0.0/8`) of trusted proxies, separated by commas; "
        "empty for none. Their `X-Forwarded-For` is used, and they are exempt from "
        "`TENANTRY_CONNECTIONS_PER_ADDRESS`. A network must contain no client: a client in it "
        "could forge its address, and so evade limits and falsify the audit log.",
    )
    cors_origins: str = Field(
        "",
        description="Origins of web pages that may call the public and tenant endpoints, separated "
        "by commas; empty for none.",
    )
    migrate_concurrency: int = Field(
        4,
        ge=1,
        le=256,
        description="Databases that this process migrates concurrently on each tenant server.",
    )
    lock_timeout_ms: int = Field(
        3000, ge=1, description="How long a migration waits for one lock, and requests behind it."
    )
    tenant_deadline_s: float = Field(
        900, gt=0, description="How long the migration of one tenant may take."
    )
    server_patience_s: float = Field(
        300,
        gt=0,
        le=86_400,
        description="How long a migration run waits for a tenant server that is down; then its "
        "tenants fail.",
    )
    plan_days: int = Field(
        30,
        ge=1,
        le=3650,
        description="Days for which the plan of a dry run can be started. The newest 200 are kept.",
    )
    require_plan: Literal["", "1", "other"] = Field(
        "",
        description="`1`: a migration run needs the plan of a dry run or a rehearsal. `other`: one "
        "that another admin has made; all commands together count as one. Empty: no plan needed.",
    )
    post_versions: setting_types.PostVersions = 50
    require_if_match: setting_types.IfMatch = ""
    wave_check: setting_types.Command = Field(
        SecretStr(""),
        description="A command, or an `http(s)` URL, that continues a run that holds.",
    )
    wave_check_seconds: float = Field(
        300, gt=0, le=3600, description="How long the check may take."
    )
    error_rate_seconds: float = Field(
        60,
        gt=0,
        le=3600,
        description="How long a run with `--max-error-rate` waits for requests after a wave.",
    )
    hooks: Hooks = Field({})
    migration_driver: str = Field(
        "psycopg",
        pattern=r"^[a-z][a-z0-9_]{0,31}$",
        description="The driver for revisions that run live on PostgreSQL, by its name in "
        "SQLAlchemy: `psycopg`, or another installed one, such as `psycopg2`.",
    )
    connect_timeout_s: float = Field(
        5,
        gt=0,
        le=60,
        description="How long a request waits for a connection to a database, queueing included; "
        "then it returns 503.",
    )
    statement_timeout_s: float = Field(
        5,
        gt=0,
        le=600,
        description="How long one statement of a request may take; then it is cancelled, and the "
        "request returns 503. All database work of a request together, with the wait for a "
        "connection, may take 1.5 s longer.",
    )
    catalog_connections: int = Field(
        8, ge=1, le=1000, description="Maximum connections of this process to the catalog."
    )
    tenant_connections: int = Field(
        64, ge=1, le=10000, description="Maximum connections of this process to each tenant server."
    )
    sqlite_synchronous: Literal["FULL", "NORMAL"] = Field(
        "FULL",
        description="`NORMAL` is faster, but can lose the last commits after a power failure.",
    )
    tenant_migrations: Path | None = Field(
        None,
        description="Your own Alembic directory (with `versions/` in it), or a folder of plain SQL "
        "files, for every tenant.",
    )
    tenant_version_table: str = Field(
        "alembic_version",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$",
        description="The version table of your own migrations.",
    )
    tenant_naming_convention: setting_types.NamingConvention = Field(
        {}, description="JSON: the naming convention of the `target_metadata` in your `env.py`."
    )
    backup_target: str = Field(
        "", description="A folder or `s3://…` for archives. Empty: `backups` in the data folder."
    )
    job_concurrency: int = Field(
        2,
        ge=0,
        le=64,
        description="Queued jobs that this process runs at the same time: so many backups, so many "
        "moves, and so many others; 0 leaves them to other processes.",
    )
    pg_tools: Path | None = Field(
        None, description="The folder of `pg_dump` and `pg_restore`. Empty: the `PATH`."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto` is text on a terminal and JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level of events to log."
    )

    @field_validator("data_dir", "tenant_migrations", "pg_tools", mode="before")
    @classmethod
    def _empty_is_default(cls, value: object, info: ValidationInfo) -> object:
        """Return the default for an empty value: an empty path is the working directory."""
        return cls.model_fields[info.field_name or ""].default if value == "" else value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        secret = self.secret_key.get_secret_value()
        fault = fault_of_secret_key(secret) if secret else None
        if fault is not None:
            raise ValueError(f"TENANTRY_SECRET_KEY {fault}")
        if SERVER_DEFAULT in self.tenant_servers and self.tenant_server_url.get_secret_value():
            raise ValueError(
                f"TENANTRY_TENANT_SERVERS contains {SERVER_DEFAULT!r}: "
                "then TENANTRY_TENANT_SERVER_URL must be empty"
            )
        if self.metrics_port == self.port:
            raise ValueError(
                "TENANTRY_METRICS_PORT must not be TENANTRY_PORT: it needs no credentials"
            )
        if not secret and self.catalog.startswith("postgres"):
            raise ValueError("TENANTRY_SECRET_KEY must be set when the catalog is PostgreSQL")
        return self

    @property
    def catalog(self) -> str:
        """The URL of the catalog database."""
        return self.catalog_url.get_secret_value() or f"sqlite:///{self.data_dir / 'catalog.db'}"

    @property
    def archives(self) -> str:
        """The folder, or the URL of S3, of the archives."""
        return self.backup_target or str(self.data_dir / "backups")

    @property
    def proxy_networks(self) -> list[IpNetwork]:
        """The networks of the trusted proxies."""
        networks = self.trusted_proxies.split(",") if self.trusted_proxies else []
        return [ipaddress.ip_network(network) for network in networks]

    @property
    def local_url(self) -> str:
        """The URL of this process on its own machine."""
        host = WILDCARDS.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def base_url(self) -> str:
        """The URL of the service for clients, without a slash at the end."""
        return self.public_url.rstrip("/") or self.local_url

    @property
    def servers(self) -> dict[str, TenantServer]:
        """The servers, or folders, of the tenant databases, by name."""
        url = self.tenant_server_url.get_secret_value() or f"sqlite:///{self.data_dir / 'tenants'}"
        servers = {SERVER_DEFAULT: TenantServer(url=SecretStr(url)), **self.tenant_servers}
        if not any(one.weight for one in servers.values()):
            servers[SERVER_DEFAULT] = servers[SERVER_DEFAULT].model_copy(update={"weight": 1})
        return servers

    def concurrency_of(self, server: TenantServer) -> int:
        """Return how many databases of a server this process migrates concurrently."""
        return server.concurrency or self.migrate_concurrency

    @property
    def migrations_max(self) -> int:
        """How many databases this process migrates concurrently, on all servers together."""
        return sum(map(self.concurrency_of, self.servers.values()))

    @property
    def concurrencies(self) -> dict[str, int]:
        """How many databases this process migrates concurrently on each server, by its name."""
        return {name: self.concurrency_of(one) for name, one in self.servers.items()}

    @property
    def threads_max(self) -> int:
        """How many databases this process migrates, or only reads, concurrently."""
        return self.migrations_max + self.reads_max

    @property
    def reads_max(self) -> int:
        """How many databases this process reads concurrently: for a dry run, and for drift."""
        return 2 * self.migrate_concurrency

    def connections_of(self, server: TenantServer) -> int:
        """Return the limit of connections to a server for requests."""
        return server.connections or self.tenant_connections


_BY_NAME = {("hooks",), ("tenant_servers",)}


def read_settings(*, has_file: bool = True, **overrides: object) -> Settings:
    """Return the settings of this process.

    *overrides* are from the command line; None if not given. With *has_file*, the file `.env` is
    read, too.

    Raises:
        BadSettings: A setting is invalid or in quotation marks, or a ``TENANTRY_*`` name is
            unknown: otherwise a mistyped name would silently have no effect.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    environment = {**(_read_file() if has_file else {}), **os.environ}  # noqa: TID251 - here they are read
    if (fault := setting_types.fault_of_environment(environment, known)) is not None:
        raise BadSettings(fault)
    try:
        given: dict[str, Any] = {k: v for k, v in overrides.items() if v is not None}
        return Settings(**given | ({} if has_file else {"_env_file": None}))
    except ValidationError as error:
        raise BadSettings("; ".join(_explain(one) for one in error.errors())) from None


def _read_file() -> dict[str, str | None]:
    try:
        return setting_types.read_env_file(Path(ENV_FILE))
    except setting_types.BadEnvFile as error:
        raise BadSettings(str(error)) from error


def _explain(error: Mapping[str, object]) -> str:
    where = error["loc"]
    assert isinstance(where, tuple)
    message = str(error["msg"]).removeprefix("Value error, ")
    if where[:1] in _BY_NAME:  # a member that is no name may be a secret
        inner = ".".join(one for one in map(str, where[1:]) if setting_types.NAME.fullmatch(one))
        message = f"{inner}: {message}" if inner else message
    return f"{PREFIX}{str(where[0]).upper()}: {message}" if where else message
