"""Change the labels of tenants: of one, or of many from a CSV file."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tenantry.catalog import audit, tenants
from tenantry.catalog.database import Catalog, CatalogChange, Unchanged
from tenantry.catalog.labels import BadLabels, checked_labels, labels_after
from tenantry.catalog.tenants import Tenant, TenantNotFound
from tenantry.db import audit_log
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid, TenantryError
from tenantry.kit.text import shown

NAME = "name"
"""The first column of a file; the others are keys of labels."""
REMOVE = "-"
"""The cell that removes a label; no value of a label is so."""
ROWS_MAX = 100_000
BYTES_MAX = 32 * 1024 * 1024
"""Of one file, which is in memory."""
BATCH_ROWS = 500
"""Tenants that one transaction changes."""
ERRORS_SHOWN_MAX = 5

Edit = Callable[[Mapping[str, str]], Mapping[str, str]]


class BadLabelFile(Invalid):
    """The file with labels is wrong; the message has the lines. Nothing was changed."""


class Imported(NamedTuple):
    """How many tenants a file names, and how many of them have other labels now."""

    total: int
    changed: int


class _Row(NamedTuple):
    line: int
    name: str
    cells: Mapping[str, str]

    def edit(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return *labels* after this row; an empty cell leaves its label as it is."""
        after = {**labels, **{key: cell for key, cell in self.cells.items() if cell}}
        return {key: value for key, value in after.items() if value != REMOVE}


async def label(
    ctx: OperationContext, catalog: Catalog, tenant_id: UUID, changes: Sequence[str]
) -> Tenant:
    """Set and remove labels of a tenant, as `labels_after` says; return the tenant.

    They are added to what the tenant has at that time, so no other change is lost.

    Raises:
        BadLabels: A rule is broken.
        TenantNotFound: There is no such tenant.
    """
    logged: audit_log.Changes = []
    async with catalog.change(
        ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=logged
    ) as session:
        changed = await _edit(
            session, tenant_id, lambda labels: labels_after(labels, changes), logged
        )
        if not logged:
            raise Unchanged
    return changed


async def import_labels(ctx: OperationContext, catalog: Catalog, content: bytes) -> Imported:
    """Change the labels of the tenants in a CSV file, in UTF-8.

    Its first line has `NAME` and the keys of labels. Each further line has the name of a tenant and
    its values: an empty one leaves the label as it is, `REMOVE` removes it. Every line is checked
    before a tenant is changed; then `BATCH_ROWS` tenants are changed in a transaction. A file that
    was imported in part can be imported again.

    Raises:
        BadLabelFile: A line is wrong, or a tenant does not exist.
        TenantNotFound, BadLabels: A tenant was deleted or changed after the check.
    """
    # In one order, so that two imports do not wait for each other.
    rows = sorted((await _checked(catalog, _read(content))).items())
    count = 0
    for at in range(0, len(rows), BATCH_ROWS):
        summary: audit_log.Changes = []
        async with catalog.change(ctx, "tenant.label", "tenants", changes=summary) as session:
            changed = 0
            for tenant_id, row in rows[at : at + BATCH_ROWS]:
                logged: audit_log.Changes = []
                await _edit(session, tenant_id, row.edit, logged)
                if logged:
                    changed += 1
                    await audit.LOG.add(
                        session,
                        ctx,
                        "tenant.update",
                        tenant_id,
                        tenant_id=tenant_id,
                        changes=logged,
                    )
            if not changed:
                raise Unchanged
            summary.append({"field": "tenants", "old": None, "new": changed})
        count += changed
    return Imported(len(rows), count)


async def _edit(
    session: CatalogChange, tenant_id: UUID, edit: Edit, logged: audit_log.Changes
) -> Tenant:
    """Change the labels of a tenant, which is locked from before they are read."""
    before = await tenants.lock(session, tenant_id)
    labels = checked_labels(edit(before.labels))
    if labels == before.labels:
        return before
    changed = await tenants.update(session, tenant_id, labels=labels)
    logged += audit_log.changes_between(before, changed, "labels")
    return changed


def _read(content: bytes) -> list[_Row]:
    """Return the rows of a file whose columns are right."""
    if len(content) > BYTES_MAX:
        raise BadLabelFile(f"A file has at most {BYTES_MAX:,} bytes: divide it.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadLabelFile(f"Line {line} is not UTF-8.") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        _check_header(header)
        rows: list[_Row] = []
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise BadLabelFile(
                    f"Line {reader.line_num} has {len(cells)} cells, and line 1 has {len(header)}."
                )
            if len(rows) == ROWS_MAX:
                raise BadLabelFile(f"A file has at most {ROWS_MAX:,} tenants: divide it.")
            values = dict(zip(header[1:], (one.strip() for one in cells[1:]), strict=True))
            rows.append(_Row(reader.line_num, cells[0].strip(), values))
    except csv.Error as error:
        raise BadLabelFile(f"Line {reader.line_num} is no CSV: {error}.") from error
    return rows


def _check_header(header: Sequence[str]) -> None:
    if header[:1] != [NAME] or not header[1:] or len(set(header)) < len(header):
        raise BadLabelFile(f"Line 1 must be `{NAME}` and different keys of labels: name,plan.")
    try:
        for key in header[1:]:
            checked_labels({key: "x"})
    except BadLabels as error:
        raise BadLabelFile(f"Line 1: {error}") from error


async def _checked(catalog: Catalog, rows: Sequence[_Row]) -> dict[UUID, _Row]:
    """Return the row of each tenant, if every row could be applied now."""
    found: dict[UUID, _Row] = {}
    wrong: list[str] = []
    for row in rows:
        try:
            tenant = await tenants.get_by_name(catalog, row.name)
            checked_labels(row.edit(tenant.labels))
        except TenantNotFound:
            wrong.append(f"Line {row.line}: there is no tenant {shown(row.name)}.")
        except TenantryError as error:
            wrong.append(f"Line {row.line}: {error}")
        else:
            first = found.setdefault(tenant.id, row)
            if first is not row:
                wrong.append(f"Line {row.line}: {shown(row.name)} is on line {first.line} too.")
    if wrong:
        more = len(wrong) - ERRORS_SHOWN_MAX
        rest = [f"{more} more lines are wrong."] if more > 0 else []
        raise BadLabelFile(" ".join([*wrong[:ERRORS_SHOWN_MAX], *rest, "Nothing was changed."]))
    return found
