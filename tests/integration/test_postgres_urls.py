"""URLs of PostgreSQL on real servers: several hosts, sockets, and passwords with any character."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from tenantry.db.postgres.connector import PostgresConnector
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import with_database
from tenantry.migration import live
from tenantry.migration.guard import Guard
from testkit import raw_sql
from testkit.postgres import Server, own_server
from testkit.programs import free_port
from tests.black_hole import black_hole
from tests.integration.engines import on_postgresql
from tests.integration.test_tls import ask
from tests.own_time import own_seconds
from tests.unit.test_postgres_urls import PASSWORD

pytestmark = on_postgresql

ROLE = "test_odd"
CONNECT_SECONDS = 8.0
PATIENT_SECONDS = 60.0
BYTES_MAX = 65_536
HBA = ("host all test_odd 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust")


@pytest.fixture(name="second_server", scope="module")
def _second_server() -> Iterator[Server]:
    """A server that rejects writes, as a standby does, and checks the password of one role."""
    with own_server() as server:
        file = raw_sql.rows(server.url, "SHOW hba_file")[0][0]
        lines = ", ".join(f"'{line}'" for line in HBA)
        raw_sql.run(server.url, f"COPY (SELECT unnest(ARRAY[{lines}])) TO '{file}'")
        with psycopg.connect(server.url, autocommit=True) as raw:
            raw.execute(
                psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                    psycopg.sql.Identifier(ROLE), psycopg.sql.Literal(PASSWORD)
                )
            )
            raw.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            raw.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(name="standby")
def _standby(engine: str, second_server: Server) -> Server:
    assert engine == "postgresql"
    return second_server


@pytest.fixture(name="hosts")
def _hosts(new_database: Callable[[], str], standby: Server) -> str:
    """The URL of a database that the second of two servers has, and the first has as a standby."""
    url = new_database()
    parts = urlsplit(url)
    return parts._replace(netloc=f"postgres@127.0.0.1:{standby.port},{parts.netloc[9:]}").geturl()


def name_of(url: str) -> str:
    return urlsplit(url).path[1:]


class TestSeveralHosts:
    async def test_are_tried_until_one_accepts_writes(self, hosts: str):
        """A standby rejects the name of the database, too, so only the address differs."""
        url = with_database(hosts, "postgres")
        primary = urlsplit(hosts).netloc.rpartition(":")[2]

        raw = await PostgresConnector(url, timeout_seconds=CONNECT_SECONDS).connect()
        try:
            assert str(await raw.fetchval("SHOW port")) == primary
        finally:
            await raw.close()
        with live.connect_psycopg(url, Guard(), timeout_seconds=CONNECT_SECONDS) as migrating:
            assert migrating.execute("SHOW port").fetchone() == (primary,)

    async def test_of_which_none_accepts_writes_are_unavailable(self, standby: Server):
        with pytest.raises(DatabaseUnavailable):
            await ask(
                f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{free_port()}/postgres"
            )

    async def test_are_tried_after_one_that_refuses(self, new_database: Callable[[], str]):
        url = new_database()
        several = url.replace("@", f"@127.0.0.1:{free_port()},")

        assert await ask(several) is not None

    @pytest.mark.slow
    async def test_are_tried_after_one_that_is_silent(self, new_database: Callable[[], str]):
        """Within the time for one connection; the next connection begins with the good one."""
        url = new_database()
        async with black_hole(url) as hole:
            hole.fall_silent()
            several = url.replace("@", f"@127.0.0.1:{hole.port},")
            connector = PostgresConnector(several, timeout_seconds=CONNECT_SECONDS)
            took, waited = [], []
            for _ in range(2):
                began = time.monotonic()
                with own_seconds() as seconds:
                    await (await connector.connect()).close()
                    took.append(seconds())
                waited.append(time.monotonic() - began)

        assert waited[0] >= CONNECT_SECONDS / 2
        assert took[0] < CONNECT_SECONDS
        assert took[1] < CONNECT_SECONDS / 2


@pytest.mark.slow
class TestConnectTimeout:
    async def test_of_the_url_is_used_if_it_is_shorter(self, new_database: Callable[[], str]):
        async with black_hole(new_database()) as hole:
            hole.fall_silent()
            began = time.monotonic()
            connector = PostgresConnector(f"{hole.url}?connect_timeout=1", timeout_seconds=60)
            with pytest.raises(TimeoutError):
                await connector.connect()

        assert time.monotonic() - began < 20


class TestSocket:
    async def test_is_used_by_both_drivers(self, new_database: Callable[[], str], tmp_path: Path):
        url = new_database()
        async with unix_socket(url, tmp_path):
            local = f"postgresql://postgres@/{name_of(url)}?host={tmp_path}"
            assert await ask(local) is not None
            assert await asyncio.to_thread(_connects, local) == str(tmp_path)


class TestPassword:
    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2"])
    async def test_may_have_any_character(self, standby: Server, driver: str):
        place = f"127.0.0.1:{standby.port}/postgres"
        right = f"postgresql://{ROLE}:{quote(PASSWORD, safe='')}@{place}"
        wrong = f"postgresql://{ROLE}:{quote(PASSWORD[:-1], safe='')}@{place}"

        await asyncio.to_thread(_log_in, right, driver)
        with pytest.raises(Exception, match="password authentication failed"):
            await asyncio.to_thread(_log_in, wrong, driver)


class TestApplicationName:
    async def test_of_the_url_is_used(self, new_database: Callable[[], str]):
        url = f"{new_database()}?application_name=ours"
        raw = await PostgresConnector(url, timeout_seconds=CONNECT_SECONDS).connect()
        try:
            assert await raw.fetchval("SHOW application_name") == "ours"
        finally:
            await raw.close()


def _connects(url: str) -> str:
    with live.connect_psycopg(url, Guard(), timeout_seconds=CONNECT_SECONDS) as raw:
        return str(raw.info.host)


def _log_in(url: str, driver: str) -> None:
    if driver == "asyncpg":

        async def connect() -> None:
            connector = PostgresConnector(url, timeout_seconds=PATIENT_SECONDS)
            await (await connector.connect()).close()

        asyncio.run(connect())
    elif driver == "psycopg":
        live.connect_psycopg(url, Guard(), timeout_seconds=PATIENT_SECONDS).close()
    else:
        live.connect_other(url, driver, Guard(), timeout_seconds=PATIENT_SECONDS).close()


@asynccontextmanager
async def unix_socket(url: str, folder: Path) -> AsyncIterator[None]:
    """Forward the socket of PostgreSQL in *folder* to the server at *url*."""
    behind = urlsplit(url)

    async def forward(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await read.read(BYTES_MAX):
                write.write(data)
        write.close()

    async def serve(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        behind_read, behind_write = await asyncio.open_connection(behind.hostname, behind.port)
        await asyncio.gather(forward(read, behind_write), forward(behind_read, write))

    server = await asyncio.start_unix_server(serve, folder / ".s.PGSQL.5432")
    try:
        yield
    finally:
        server.close()
        await asyncio.sleep(0.1)
