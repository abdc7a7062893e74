"""The fault that the checker of histories must find: an acknowledged write is lost."""

from collections.abc import Sequence

import psycopg

from harness.registers import CREATE, UPDATE, History, Operation, Result
from harness.world import Tenant

_LOSE = b"UPDATE tenantry_post SET content = %s WHERE id = %s AND content = %s"


class NothingToLose(Exception):
    """No post has a last write that was acknowledged, after another one."""


def lose_a_write(history: History, tenants: Sequence[Tenant]) -> None:
    """Give a post the text before its last acknowledged write, in its database.

    Raises:
        NothingToLose: There is no such post since the last check.
    """
    urls = {one.id: one.url for one in tenants}
    for tenant_id, post_id in history.changed:
        texts = _texts(history.registers[tenant_id, post_id])
        if len(texts) > 1:
            with psycopg.connect(urls[tenant_id], autocommit=True) as connection:
                if connection.execute(_LOSE, (texts[-2], post_id, texts[-1])).rowcount:
                    return
    raise NothingToLose


def _texts(operations: Sequence[Operation]) -> list[str]:
    """Return the texts of the acknowledged writes, in the order in which they began."""
    written = [
        one for one in operations if one.kind in (CREATE, UPDATE) and one.result is Result.OK
    ]
    return [one.value for one in sorted(written, key=lambda one: one.began) if one.value]
