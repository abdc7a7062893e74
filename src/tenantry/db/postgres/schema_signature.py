"""A signature of the schema of a live PostgreSQL database: every change of the schema changes it.

It is made of the rows of the system catalogs: a change of a row gives it another `xmin`. So it is
of one database, and a copy has another one.
"""

from tenantry.db.postgres.connector import Raw
from tenantry.db.postgres.database_options import SETTINGS

# By the relation that they belong to. Without temporary tables, which any session may create.
_OF_RELATIONS = (
    ("pg_attribute", "attrelid", "attnum"),
    ("pg_attrdef", "adrelid", "adnum"),
    ("pg_constraint", "conrelid", "pg_constraint.oid"),
    ("pg_index", "indexrelid", "indrelid"),
    ("pg_inherits", "inhrelid", "inhparent"),
    ("pg_policy", "polrelid", "pg_policy.oid"),
    ("pg_publication_rel", "prrelid", "prpubid"),
    ("pg_rewrite", "ev_class", "pg_rewrite.oid"),
    ("pg_sequence", "seqrelid", "0"),
    ("pg_trigger", "tgrelid", "pg_trigger.oid"),
)
_ALONE = """
pg_am pg_amop pg_amproc pg_cast pg_collation pg_conversion pg_default_acl pg_enum pg_event_trigger
pg_extension pg_foreign_data_wrapper pg_foreign_server pg_language pg_opclass pg_operator
pg_opfamily pg_proc pg_publication pg_statistic_ext pg_transform pg_ts_config pg_ts_dict
pg_ts_parser pg_ts_template
"""
# The first id of an object that is not PostgreSQL's own.
# Source: FirstNormalObjectId in PostgreSQL's src/include/access/transam.h
_FIRST_ID = 16_384

# Not whole rows of pg_class: VACUUM and TRUNCATE change them.
_LINES = " UNION ALL ".join(
    [
        """SELECT pg_catalog.format('%s %s %s %s %s %s %s %s %s %s', oid, relname, relnamespace,
        relkind, relpersistence, relreplident, relrowsecurity, relforcerowsecurity, reloptions,
        relacl) FROM own""",
        """SELECT pg_catalog.format('rights %s', datacl) FROM pg_database
        WHERE datname = current_database()""",
        f"""SELECT pg_catalog.format('comment %s %s %s %s', classoid, objoid, objsubid, xmin)
        FROM pg_description WHERE objoid >= {_FIRST_ID}""",  # noqa: S608 - a constant
        """SELECT pg_catalog.format('pg_type %s %s', oid, xmin) FROM pg_type
        WHERE typtype IN ('d', 'e', 'r', 'm')""",
        """SELECT pg_catalog.format('of a domain %s %s', oid, xmin) FROM pg_constraint
        WHERE contypid <> 0""",
        # A session that creates its first temporary table can create a schema for it.
        """SELECT pg_catalog.format('pg_namespace %s %s', oid, xmin) FROM pg_namespace
        WHERE nspname !~ '^pg_(temp|toast)'""",
        f"""SELECT pg_catalog.format('setting %s %s=%s', role, name, value)
        FROM ({SETTINGS}) AS one""",  # noqa: S608 - a constant
        *(
            f"SELECT pg_catalog.format('{name} %s %s %s', {relation}, {number}, {name}.xmin) "  # noqa: S608
            f"FROM {name} JOIN own ON own.oid = {relation}"
            for name, relation, number in _OF_RELATIONS
        ),
        *(
            f"SELECT pg_catalog.format('{name} %s %s', oid, xmin) "  # noqa: S608
            f"FROM {name} WHERE oid >= {_FIRST_ID}"
            for name in _ALONE.split()
        ),
    ]
)
_SIGNATURE = f"""
WITH own AS (
    SELECT pg_class.* FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pg_class.oid >= {_FIRST_ID} AND nspname !~ '^pg_(temp|toast)'
)
SELECT md5(coalesce(pg_catalog.string_agg(line, ' ' ORDER BY line), ''))
FROM ({_LINES}) AS lines (line)
"""  # noqa: S608 - constants


async def read_signature(raw: Raw) -> str:
    """Return a text that is another one after every change of the schema."""
    return str(await raw.fetchval(_SIGNATURE))
