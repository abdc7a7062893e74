"""Servers and connections by URL: the URL decides between PostgreSQL and SQLite."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from tenantry.db.database import Budget
from tenantry.db.postgres import connections as postgres
from tenantry.db.postgres.connector import PostgresConnector
from tenantry.db.postgres_server import PostgresServer
from tenantry.db.servers import Server
from tenantry.db.sessions import STATEMENT_SECONDS_DEFAULT, Connection
from tenantry.db.sqlite.connections import SqliteFile
from tenantry.db.sqlite_folder import SQLITE_CONNECTIONS_MAX, SqliteFolder
from tenantry.db.urls import sqlite_path

if TYPE_CHECKING:
    from tenantry.kit.server_settings import TenantServer
    from tenantry.settings import Settings


def open_server(
    url: str,
    *,
    connections_max: int,
    timeout_seconds: float,
    synchronous: str,
    statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
    admin_url: str = "",
) -> Server:
    """Return the server, or the folder, at *url*; see `PostgresServer` and `SqliteFolder`."""
    folder = sqlite_path(url)
    budget = Budget(connections_max)
    if folder is not None:
        return SqliteFolder(
            folder,
            budget,
            synchronous=synchronous,
            statement_seconds=statement_seconds,
            wait_seconds=timeout_seconds,
        )
    return PostgresServer(
        url,
        budget,
        admin_url=admin_url or url,
        timeout_seconds=timeout_seconds,
        statement_seconds=statement_seconds,
    )


def open_tenant_server(settings: "Settings", server: "TenantServer") -> Server:
    """Return the server, without connecting to it yet."""
    return open_server(
        server.address,
        admin_url=server.admin_address,
        connections_max=settings.connections_of(server),
        timeout_seconds=settings.connect_timeout_s,
        synchronous=settings.sqlite_synchronous,
        statement_seconds=settings.statement_timeout_s,
    )


def single_connector(
    url: str,
    *,
    connections_max: int,
    timeout_seconds: float,
    synchronous: str,
    statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
) -> tuple[Callable[[], Awaitable[Connection]], int]:
    """Return a function that connects to the database at *url*, and its limit of connections."""
    path = sqlite_path(url)
    if path is not None:
        file = SqliteFile(path, synchronous=synchronous, statement_seconds=statement_seconds)
        return file.connect, SQLITE_CONNECTIONS_MAX
    connector = PostgresConnector(url, timeout_seconds=timeout_seconds)
    connect = partial(postgres.connect, connector, statement_seconds=statement_seconds)
    return connect, connections_max
