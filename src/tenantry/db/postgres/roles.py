"""What the role of a PostgreSQL URL may do on its server beyond its own databases."""

from dataclasses import dataclass
from typing import Any

# Since this version, CREATEROLE grants only roles that the role administers.
# Source: https://www.postgresql.org/docs/16/release-16.html, "E.?.2. Migration to Version 16".
HARMLESS_CREATEROLE_SINCE = 160_000

_READ = """
SELECT rolname AS name, rolsuper AS is_superuser, rolcreaterole AS creates_roles,
    current_setting('server_version_num')::int AS server_version, EXISTS (
        SELECT FROM pg_roles AS granted WHERE pg_has_role(current_user, granted.oid, 'MEMBER')
        AND granted.rolname IN ('pg_execute_server_program', 'pg_read_server_files',
            'pg_write_server_files')) AS uses_machine
FROM pg_roles WHERE rolname = current_user
"""


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role, and the version of its server as a number: 160002 is 16.2."""

    name: str
    server_version: int
    is_superuser: bool = False
    creates_roles: bool = False
    uses_machine: bool = False

    @property
    def power(self) -> str | None:
        """What lets the role run programs on the machine of the server; None if nothing does."""
        if self.is_superuser:
            return "is a superuser"
        if self.uses_machine:
            return "may run programs, or access files, on the machine of the server"
        if self.creates_roles and self.server_version < HARMLESS_CREATEROLE_SINCE:
            return "has CREATEROLE, and so may grant itself the right to run programs"
        return None


async def read_role(raw: Any) -> Role:
    """Return the role of a connection of asyncpg."""
    return Role(**await raw.fetchrow(_READ))
