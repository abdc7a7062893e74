"""The audit log of the catalog: changes of admins and of the command line, and sign-ins.

Two kinds of entries differ:

* A **change** is one entry for each change, and is never merged.
* A **sign-in** (login, failure, lockout, logout) is merged by `merge_key`: one entry with a
  count. Without that, an attacker who guesses passwords would fill the table.

What changes inside a tenant's database is in the log of that database: `tenant.audit`.
"""

from collections.abc import Mapping
from typing import Any

from tenantry.catalog.session import CatalogKind, CatalogSession
from tenantry.catalog.tables import audit_entry
from tenantry.db.audit_log import AuditEntry, AuditLog
from tenantry.db.statements import Statement, insert

LOG: AuditLog[CatalogKind] = AuditLog(audit_entry)

_entry = audit_entry.c
_insert = insert(audit_entry)
_MERGE = Statement[Any](
    _insert.on_conflict_do_update(
        index_elements=[_entry.merge_key],
        set_={
            "count": _entry.count + _insert.excluded.count,
            "last_at": _insert.excluded.last_at,
        },
    )
)


async def merge_all(session: CatalogSession, entries: Mapping[str, AuditEntry]) -> None:
    """Add sign-ins by their merge keys, all or none; one that is there already counts up."""
    # All processes use one order, to avoid deadlocks.
    rows = [LOG.row(entries[key]) | {"merge_key": key} for key in sorted(entries)]
    await session.execute_many(_MERGE, rows)
