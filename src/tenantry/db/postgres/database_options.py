"""What belongs to a PostgreSQL database and is in no dump: its settings, and who may use it."""

import asyncpg

from tenantry.db.postgres.connector import Raw
from tenantry.db.servers import quoted
from tenantry.kit.errors import Conflict

FENCE = "default_transaction_read_only"
"""The setting of a write fence, which is not copied."""

# Roles of grants and of policies on anything in the database, or on itself, not its owners; and
# roles with settings in it, without our own.
_ROLES = """
SELECT DISTINCT rolname::text FROM pg_shdepend
JOIN pg_roles ON pg_roles.oid = refobjid JOIN pg_database ON datname = current_database()
WHERE refclassid = 'pg_authid'::regclass AND deptype IN ('a', 'r')
    AND (dbid = pg_database.oid OR (classid = 'pg_database'::regclass AND objid = pg_database.oid))
UNION
SELECT rolname::text FROM pg_db_role_setting JOIN pg_roles ON pg_roles.oid = setrole
WHERE rolname <> current_user
    AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_MISSING = (
    "SELECT pg_catalog.unnest($1::text[]) EXCEPT SELECT rolname::text FROM pg_roles ORDER BY 1"
)
# Those of a role have priority. Our own role can have another name on another server.
SETTINGS = f"""
SELECT CASE WHEN rolname = current_user THEN 'CURRENT_USER'
        ELSE pg_catalog.quote_ident(rolname) END AS role,
    split_part(one, '=', 1) AS name, substr(one, strpos(one, '=') + 1) AS value
FROM pg_db_role_setting LEFT JOIN pg_roles ON pg_roles.oid = setrole,
    pg_catalog.unnest(setconfig) AS one
WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND NOT pg_catalog.starts_with(one, '{FENCE}=')
"""  # noqa: S608 - a constant
# What acts with the rights of its owner, who is another role than ours: in the copy, ours owns all.
_DEFINERS = """
SELECT what, owner FROM (
    SELECT 'function ' || oid::regprocedure::text, proowner, 'pg_proc'::regclass, oid
    FROM pg_proc WHERE prosecdef
    UNION ALL
    SELECT 'view ' || oid::regclass::text, relowner, 'pg_class'::regclass, oid
    FROM pg_class WHERE relkind IN ('v', 'm')
    UNION ALL
    SELECT 'rule ' || pg_catalog.quote_ident(rulename) || ' on ' || ev_class::regclass::text,
        relowner, 'pg_class'::regclass, ev_class
    FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class WHERE relkind NOT IN ('v', 'm')
) AS found (what, owner_id, class_id, object_id)
JOIN (SELECT oid, rolname::text, rolsuper FROM pg_roles) AS role (id, owner, is_superuser)
    ON role.id = owner_id
WHERE owner <> current_user AND NOT is_superuser
    AND NOT EXISTS (SELECT FROM pg_depend WHERE deptype = 'e' AND classid = class_id
        AND objid = object_id)
ORDER BY what LIMIT 1
"""
# Without PUBLIC: new databases are closed to it.
_GRANTS = """
SELECT rolname::text AS role, privilege_type AS privilege, is_grantable FROM pg_database,
    aclexplode(datacl) JOIN pg_roles ON pg_roles.oid = grantee
WHERE datname = current_database() AND grantee <> datdba
"""


class RoleMissing(Conflict):
    """A role with rights or settings in the database is not on the new server; it is named."""


class OwnerNotCarried(Conflict):
    """A function, view or rule has the rights of another role than Tenantry's; it is named."""


class SettingNotCarried(Conflict):
    """A setting of the database cannot be set on the new server; the message names it."""


async def check_roles(source: Raw, target: Raw) -> None:
    """Check that the server of *target* has the roles with rights or settings in *source*.

    Raises:
        RoleMissing: One is missing.
    """
    roles = [row[0] for row in await source.fetch(_ROLES)]
    missing = [row[0] for row in await target.fetch(_MISSING, roles)]
    if missing:
        raise RoleMissing(
            f"The role {missing[0]} has rights or settings in the database, and is not on the new "
            "server: create it there, or revoke and reset them."
        )


async def check_owners(source: Raw) -> None:
    """Check that nothing in a database acts with the rights of a role that a copy does not keep.

    The role of Tenantry owns everything in a copy, and those who may call a function or read a view
    of another owner would get its rights.

    Raises:
        OwnerNotCarried: There is such a function, view or rule.
    """
    found = await source.fetchrow(_DEFINERS)
    if found is not None:
        raise OwnerNotCarried(
            f"The {found['what']} acts with the rights of its owner {found['owner']}, and would "
            "get those of Tenantry's role: drop it, or make that role its owner."
        )


async def copy(source: Raw, target: Raw) -> None:
    """Give the new database *target* the settings of *source*, also those of roles, and its grants.

    Raises:
        SettingNotCarried: The role of *target* may not set one, or its server does not have it.
        Exception: Any other error of the driver.
    """
    database = quoted(await target.fetchval("SELECT current_database()"))
    for role, name, value in await source.fetch(SETTINGS):
        of = f"DATABASE {database}" if role is None else f"ROLE {role} IN DATABASE {database}"
        try:
            async with target.transaction():
                # A value can be a list of quoted names, so it is not written as a literal.
                await target.execute("SELECT set_config($1, $2, true)", name, value)
                parts = ".".join(map(quoted, name.split(".")))
                await target.execute(f"ALTER {of} SET {parts} FROM CURRENT")
        except asyncpg.PostgresError as error:
            owner = "the database" if role is None else f"the role {role} in the database"
            raise SettingNotCarried(
                f"The setting {name} of {owner} cannot be set on the new server."
            ) from error
    for role, privilege, is_grantable in await source.fetch(_GRANTS):
        option = " WITH GRANT OPTION" if is_grantable else ""
        await target.execute(f"GRANT {privilege} ON DATABASE {database} TO {quoted(role)}{option}")
