"""A person's own profile: one statement changes it, and writes the change to the audit log."""

from typing import Any

import sqlalchemy as sa

from tenantry.access.emails import canonical_email, checked_email
from tenantry.db import audit_log
from tenantry.db.statements import Statement, parameters
from tenantry.db.types import json_text
from tenantry.kit.errors import Invalid
from tenantry.tenant.entry import Claimant, confirm_claimant
from tenantry.tenant.tables import audit, user
from tenantry.tenant.users import (
    COLUMNS,
    EMAIL_IN_USE,
    User,
    UserNotFound,
    checked_name,
    session_ended,
)

_FIELDS = {"email": "email", "fullName": "full_name"}


def _logged(before: sa.FromClause, source: sa.FromClause) -> sa.Insert:
    """Return the statement that adds an entry, if something differs from *before*.

    The changes are in the form of `audit_log.changes_between`, of values that are never too long.
    """
    changes: sa.ColumnElement[str] = sa.literal_column("''", sa.String)
    differences = []
    for field, name in _FIELDS.items():
        old, new = before.c[name], sa.bindparam(name, type_=sa.String)
        differs = old != new
        change = (
            sa.literal_column(f"""',{{"field":"{field}","old":'""", sa.String)
            + json_text(old)
            + sa.literal_column("""',"new":'""", sa.String)
            + json_text(new)
            + sa.literal_column("'}'", sa.String)
        )
        changes += sa.case((differs, change), else_=sa.literal_column("''", sa.String))
        differences.append(differs)
    values: dict[str, sa.ColumnElement[Any]] = {
        name: sa.bindparam(f"audit_{name}", type_=audit.c[name].type)
        for name in ("id", "at", "actor", "action", "target", "address", "command", "request_id")
    }
    values["changes"] = (
        sa.literal_column("'['", sa.String)
        + sa.func.substr(changes, sa.literal_column("2"), type_=sa.String)
        + sa.literal_column("']'", sa.String)
    )
    selected = sa.select(*values.values()).select_from(source).where(sa.or_(*differences))
    return sa.insert(audit).from_select(list(values), selected)


def _update() -> Statement[User]:
    # What `confirm_claimant` asks for, in the statement itself.
    may_act = sa.and_(
        user.c.id == sa.bindparam("user"),
        user.c.is_active,
        sa.or_(
            user.c.token_generation == sa.bindparam("token_generation", type_=sa.Integer),
            sa.and_(
                sa.or_(
                    user.c.generation == sa.bindparam("session_generation", type_=sa.Integer),
                    user.c.spared_jti == sa.bindparam("session_jti", type_=sa.String),
                ),
                sa.not_(session_ended),
            ),
        ),
    )
    update = sa.update(user).values(parameters("email", "canonical_email", "full_name"))
    # Locked before it is read: no other transaction changes these values until this one ends.
    names = ("id", *_FIELDS.values())
    before = sa.select(*(user.c[name] for name in names)).where(may_act).with_for_update()
    old = before.cte("before")
    changed = update.where(user.c.id == old.c.id).returning(*COLUMNS).cte("changed")
    logged = _logged(old, old.join(changed, changed.c.id == old.c.id)).cte("logged")
    unchanged = before.subquery("before")
    return Statement(
        sa.select(*changed.c).add_cte(logged),
        User,
        conflicts=EMAIL_IN_USE,
        # On SQLite the transaction is the lock.
        on_sqlite=(
            _logged(unchanged, unchanged),
            update.where(may_act).returning(*COLUMNS),
        ),
    )


_UPDATE = _update()


async def update_profile(claimant: Claimant, *, full_name: str, email: str) -> User:
    """Change how the caller is called and reached; return them as they then are.

    Raises:
        UserInactive, SessionEnded, McpTokenEnded, UserGone: The caller may not act.
        BadEmail, BadText: A rule is broken.
        EmailInUse: Another user of the tenant has the address.
        UserNotFound: The caller was deleted.
    """
    try:
        checked_name(full_name)
        checked_email(email)
    except Invalid:
        await confirm_claimant(claimant)
        raise
    claims, token = claimant.identity.claims, claimant.identity.mcp_token
    entry = audit_log.new_entry(claimant, action="profile.update", target=str(claimant.user_id))
    changed = await claimant.database.fetch_one(
        _UPDATE,
        user=claimant.user_id,
        token_generation=token.user_generation if token else None,
        session_generation=claims.generation if claims else None,
        session_jti=claims.jti if claims else None,
        full_name=full_name,
        email=email,
        canonical_email=canonical_email(email),
        audit_id=entry.id,
        audit_at=entry.at,
        audit_actor=entry.actor,
        audit_action=entry.action,
        audit_target=entry.target,
        audit_address=entry.address,
        audit_command=entry.command,
        audit_request_id=entry.request_id,
    )
    if changed is None:
        await confirm_claimant(claimant)
        raise UserNotFound
    return changed
