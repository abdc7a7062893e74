"""What a tenant's database has beside its tables: rights, settings and comments are moved, too."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenantry.backup import moving
from tenantry.backup.online import Way
from tenantry.catalog.tenants import Tenant
from tenantry.db.postgres.database_options import OwnerNotCarried, RoleMissing, SettingNotCarried
from tenantry.db.write_fence import FenceIneffective
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.postgres import Server, find_binaries
from tests.conftest import SECRET_KEY, provision
from tests.integration.online import FAR, is_writable, left_over, move, two_servers, url_of

pytestmark = pytest.mark.slow

ROLE = 'reporting "eu"'
QUOTED = '"reporting ""eu"""'
STATE = (
    f"""SELECT has_database_privilege('{ROLE}', current_database(), 'CONNECT'),
    has_table_privilege('{ROLE}', 'written', 'SELECT'),
    has_table_privilege('{ROLE}', 'written', 'INSERT'),
    obj_description('written'::regclass)""",
    f"""SELECT privilege_type, is_grantable, pg_get_userbyid(grantee) FROM pg_default_acl,
    aclexplode(defaclacl) WHERE pg_get_userbyid(grantee) = '{ROLE}'""",
    """SELECT setrole::regrole::text, unnest(setconfig) FROM pg_db_role_setting
    JOIN pg_database ON pg_database.oid = setdatabase
    WHERE datname = current_database() ORDER BY 1, 2""",
    """SELECT current_setting('timezone'), current_setting('app.plan'), current_schemas(false),
    current_setting('lock_timeout')""",
)


# What acts with the rights of its owner.
ACTING = (
    ("view people", "AS SELECT email FROM tenantry_user"),
    ("function act()", "RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'"),
    ("table noted", "(id int); CREATE RULE note AS ON INSERT TO noted DO ALSO SELECT 1"),
)


@pytest.fixture(name="servers", scope="module")
def _servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as servers:
        yield servers


@pytest.fixture(name="services")
async def _services(servers: tuple[Server, Server], tmp_path: Path) -> AsyncIterator[Services]:
    near, far = servers
    settings = Settings(
        data_dir=tmp_path / "data",
        host="tenantry.test",
        tenant_server_url=near.url,
        tenant_servers={FAR: {"url": far.url}},
        secret_key=SECRET_KEY,
        pg_tools=find_binaries(),
    )
    async with open_services(settings, works=False) as services:
        yield services
        for name in services.databases.server_names:
            server = services.databases.server(name)
            for one in await server.names("tenantry_"):
                await server.drop(one)
    for one in servers:
        raw_sql.run(one.url, f"DROP ROLE IF EXISTS {QUOTED}")


@pytest.fixture(name="shop")
async def _shop(services: Services, servers: tuple[Server, Server]) -> Tenant:
    """A tenant with a role that reads its tables."""
    shop = (await provision(services, "Shop")).tenant
    raw_sql.run(servers[0].url, f"CREATE ROLE {QUOTED}")
    raw_sql.run(
        url_of(services, shop),
        "CREATE TABLE written (id INTEGER PRIMARY KEY)",
        "COMMENT ON TABLE written IS 'what was written'",
        f"GRANT CONNECT ON DATABASE {shop.database_name} TO {QUOTED} WITH GRANT OPTION",
        f"GRANT SELECT ON written TO {QUOTED}",
        f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {QUOTED}",
        f"ALTER DATABASE {shop.database_name} SET timezone = 'Europe/Berlin'",
        f"ALTER DATABASE {shop.database_name} SET app.plan = 'gold, \"x=1\"'",
        f"""ALTER DATABASE {shop.database_name} SET search_path = public, "a ""b" """,
        f"ALTER ROLE {QUOTED} IN DATABASE {shop.database_name} SET timezone = 'Asia/Tokyo'",
        f"ALTER ROLE CURRENT_USER IN DATABASE {shop.database_name} SET lock_timeout = '7s'",
    )
    return shop


@pytest.mark.parametrize("way", [Way.ONLINE, Way.OFFLINE])
class TestMove:
    async def test_keeps_rights_settings_and_comments(
        self, services: Services, servers: tuple[Server, Server], shop: Tenant, way: Way
    ):
        raw_sql.run(servers[1].url, f"CREATE ROLE {QUOTED}")
        before = [raw_sql.rows(url_of(services, shop), sql) for sql in STATE]

        moved = (await move(services, shop, way=way)).tenant

        assert [raw_sql.rows(url_of(services, moved), sql) for sql in STATE] == before
        assert before[0] == [(True, True, False, "what was written")]
        assert await is_writable(services, moved)

    async def test_is_refused_if_a_role_is_missing(
        self, services: Services, shop: Tenant, way: Way
    ):
        with pytest.raises(RoleMissing, match=ROLE):
            await move(services, shop, way=way)

        assert await is_writable(services, shop)
        assert await left_over(services) == []

    async def test_is_refused_by_its_plan_if_a_role_is_missing(
        self, services: Services, shop: Tenant, way: Way
    ):
        (found,) = await moving.plan(services.copying, [shop], server_name=FAR, way=way)

        assert isinstance(found, moving.NotMoved)
        assert isinstance(found.error, RoleMissing)

    async def test_is_refused_by_its_plan_if_a_role_with_settings_is_missing(
        self, services: Services, servers: tuple[Server, Server], way: Way
    ):
        """Before anything is copied: the settings are set at the end of the copy."""
        plain = (await provision(services, "Plain")).tenant
        raw_sql.run(servers[0].url, f"CREATE ROLE {QUOTED}")
        set_one = f"ALTER ROLE {QUOTED} IN DATABASE {plain.database_name} SET lock_timeout = 1"
        raw_sql.run(url_of(services, plain), set_one)

        (found,) = await moving.plan(services.copying, [plain], server_name=FAR, way=way)

        assert isinstance(found, moving.NotMoved)
        assert isinstance(found.error, RoleMissing)

    @pytest.mark.parametrize("acting", ACTING, ids=["view", "function", "rule"])
    async def test_is_refused_if_something_acts_with_the_rights_of_another_role(
        self,
        services: Services,
        servers: tuple[Server, Server],
        shop: Tenant,
        acting: tuple[str, str],
        way: Way,
    ):
        """In the copy, it would act with those of Tenantry's role."""
        raw_sql.run(servers[1].url, f"CREATE ROLE {QUOTED}")
        what, definition = acting
        grant = f"GRANT CREATE ON SCHEMA public TO {QUOTED}"
        change = f"ALTER {what} OWNER TO {QUOTED}"
        raw_sql.run(url_of(services, shop), grant, f"CREATE {what} {definition}", change)

        with pytest.raises(OwnerNotCarried, match=re.escape(what.split()[1])):
            await move(services, shop, way=way)

        assert await is_writable(services, shop)
        assert await left_over(services) == []

    async def test_is_refused_if_a_role_could_still_write_to_the_old_database(
        self, services: Services, servers: tuple[Server, Server], shop: Tenant, way: Way
    ):
        """The write fence is a setting of the database; that of a role has priority."""
        raw_sql.run(servers[1].url, f"CREATE ROLE {QUOTED}")
        raw_sql.run(
            url_of(services, shop),
            f"ALTER ROLE {QUOTED} IN DATABASE {shop.database_name} "
            "SET default_transaction_read_only = off",
        )

        with pytest.raises(FenceIneffective):
            await move(services, shop, way=way)

        assert await is_writable(services, shop)
        assert await left_over(services) == []

    async def test_is_refused_if_a_setting_cannot_be_set(
        self, services: Services, servers: tuple[Server, Server], shop: Tenant, way: Way
    ):
        raw_sql.run(servers[1].url, f"CREATE ROLE {QUOTED}")
        setting = "default_tablespace = 'missing'"
        raw_sql.run(url_of(services, shop), f"ALTER DATABASE {shop.database_name} SET {setting}")

        with pytest.raises(SettingNotCarried, match="default_tablespace"):
            await move(services, shop, way=way)

        assert await is_writable(services, shop)
        assert await left_over(services) == []
