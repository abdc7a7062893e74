"""Why the changes of a PostgreSQL database cannot be followed: found by inspection."""

from tenantry.db.copying.survey import OWN
from tenantry.db.postgres.connector import Raw

NOT_POSTGRESQL = "only a move between two servers of PostgreSQL can be online"
# Since then, messages of `pg_logical_emit_message` are sent with the changes.
_VERSION_MIN = 140_000
# Since then, a role that is no superuser can be allowed to set a parameter.
_GRANT_VERSION_MIN = 150_000

_SERVER = f"""
SELECT 1, 'its server has version ' || current_setting('server_version') || ', and 14 is needed'
WHERE current_setting('server_version_num')::int < {_VERSION_MIN}
UNION ALL
SELECT 2, 'wal_level of its server is ' || current_setting('wal_level') || ', and must be logical'
WHERE current_setting('wal_level') <> 'logical'
UNION ALL
SELECT 3, 'all ' || current_setting('max_replication_slots')
    || ' replication slots of its server are used'
WHERE (SELECT count(*) FROM pg_replication_slots) >= current_setting('max_replication_slots')::int
UNION ALL
SELECT 4, 'the role ' || rolname || ' of its server has no REPLICATION attribute'
FROM pg_roles WHERE rolname = current_user AND NOT (rolsuper OR rolreplication)
UNION ALL
SELECT 5, 'the role ' || current_user || ' may not create a publication in the database'
WHERE NOT has_database_privilege(current_database(), 'CREATE')
"""  # noqa: S608 - constants

# A table needs an identity, or PostgreSQL itself rejects the updates of a published table.
_CONTENTS = f"""
WITH own AS (
    SELECT pg_class.*, pg_catalog.format('%I.%I', nspname, relname) AS name,
        EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisvalid AND indimmediate
            AND CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident
                ELSE false END) OR relreplident = 'f' AS has_identity
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND {OWN}
)
SELECT 11, 'the role does not own the table ' || min(name)
FROM own WHERE relkind = 'r' AND NOT pg_has_role(relowner, 'USAGE') HAVING count(*) > 0
UNION ALL
SELECT 12, 'the table ' || min(name)
    || ' has no primary key (ALTER TABLE … REPLICA IDENTITY FULL would do)'
FROM own WHERE relkind = 'r' AND NOT has_identity HAVING count(*) > 0
UNION ALL
SELECT 13, 'the table ' || min(name) || ' is unlogged'
FROM own WHERE relkind = 'r' AND relpersistence = 'u' HAVING count(*) > 0
UNION ALL
SELECT 14, 'the materialized view ' || min(name) || ' has rows'
FROM own WHERE relkind = 'm' AND relispopulated HAVING count(*) > 0
UNION ALL
SELECT 15, 'the table ' || min(pg_class.oid::regclass::text) || ' belongs to an extension'
FROM pg_class JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = pg_class.oid
    AND deptype = 'e' WHERE relkind IN ('r', 'p') HAVING count(*) > 0
UNION ALL
SELECT 16, 'the table ' || min(tgrelid::regclass::text)
    || ' has a trigger with ENABLE ALWAYS or ENABLE REPLICA'
FROM pg_trigger WHERE tgenabled IN ('A', 'R') HAVING count(*) > 0
UNION ALL
SELECT 17, 'the table ' || min(ev_class::regclass::text)
    || ' has a rule with ENABLE ALWAYS or ENABLE REPLICA'
FROM pg_rewrite WHERE ev_enabled IN ('A', 'R') HAVING count(*) > 0
UNION ALL
SELECT 18, 'it has ' || count(*) || ' large objects'
FROM pg_largeobject_metadata HAVING count(*) > 0
UNION ALL
SELECT 19, 'the transaction ' || min(gid) || ' is prepared'
FROM pg_prepared_xacts WHERE database = current_database() HAVING count(*) > 0
"""  # noqa: S608 - constants

_GRANTED = """
SELECT 21, 'the role ' || current_user || ' of the new server may not set session_replication_role'
WHERE NOT has_parameter_privilege('session_replication_role', 'SET')
"""
_SUPERUSER = """
SELECT 21, 'the role ' || rolname || ' of the new server is no superuser, as version 14 requires'
FROM pg_roles WHERE rolname = current_user AND NOT rolsuper
"""


async def find(source: Raw) -> str | None:
    """Return why the changes of a database cannot be followed; None if they can."""
    return await _first(source, _SERVER) or await find_in_contents(source)


async def find_in_contents(source: Raw) -> str | None:
    """Return why some contents of a database cannot be followed; None if all of them can."""
    return await _first(source, _CONTENTS)


async def find_on_target(target: Raw) -> str | None:
    """Return why a database on the server of *target* cannot follow another one."""
    version = int(await target.fetchval("SHOW server_version_num"))
    return await _first(target, _GRANTED if version >= _GRANT_VERSION_MIN else _SUPERUSER)


async def _first(raw: Raw, query: str) -> str | None:
    found = await raw.fetchrow(f"{query} ORDER BY 1 LIMIT 1")
    return None if found is None else str(found[1])
