"""One shape, run by plain Alembic and by Tenantry."""

import asyncio
import difflib
import re
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tenantry.migration.streams import Stream
from tenantry.tenant.stream import STREAM
from tests.corpus import ours, plain, project
from tests.corpus.dumps import dump
from tests.corpus.lab import Lab
from tests.corpus.shape import Shape


class Verdict(Enum):
    """What Tenantry has done with a shape, compared with plain Alembic."""

    SAME = "same"
    REFUSED = "refused, and nothing is changed"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Comparison:
    """A shape, run by both.

    Attributes:
        raised: What plain Alembic raised.
        is_lost: Plain Alembic reports success, and the new version is not in the database.
        reason: Why Tenantry failed, as the history says it; None when it did not.
        difference: Lines of the dumps: from plain Alembic's database when Tenantry ran the
            shape, else from the tenant's own before.
    """

    raised: str | None
    is_lost: bool
    reason: str | None
    difference: list[str]

    @property
    def verdict(self) -> Verdict:
        """What Tenantry has done."""
        if self.difference or (self.reason is None and self.raised is not None):
            return Verdict.DIFFERENT
        return Verdict.SAME if self.reason is None else Verdict.REFUSED


def compare(
    shape: Shape, lab: Lab, threads: Executor, folder: Path, own: Stream = STREAM
) -> Comparison:
    """Run *shape* by plain Alembic, and then by Tenantry, each in a database of its own.

    Tenantry runs it in a tenant's, unless *own* is `NO_STREAM`: then in an attached one.
    """
    copied = lab.tenant if own is STREAM else lab.plain
    ini = project.write(shape, folder)
    with lab.plain(shape.setup) as url:
        raised = plain.upgrade(ini, url, shape.driver)
        theirs = [] if raised else dump(url, shape.varies)
    with copied(shape.setup) as url:
        before = dump(url, shape.varies)
        with plain.imports_forgotten(ini.parent):
            reason = asyncio.run(ours.upgrade(ini, url, threads, shape.driver, own))
        after = dump(url, shape.varies)
    if raised is None and reason is None:
        changed = difference(theirs, after)
    else:
        changed = difference(_untouched(before), _untouched(after))
    return Comparison(
        raised=raised and repr(raised),
        is_lost=raised is None and not _is_at(theirs, shape.revisions[-1].id),
        reason=reason,
        difference=changed,
    )


def difference(expected: list[str], found: list[str]) -> list[str]:
    """Return the lines in which two dumps differ."""
    lines = difflib.unified_diff(expected, found, "expected", "found", "", "", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _untouched(lines: list[str]) -> list[str]:
    """Return what a rollback restores: no transaction restores the state of a sequence."""
    return [line for line in lines if not line.startswith("state of ")]


def _is_at(lines: list[str], head: str) -> bool:
    versions = [line for line in lines if re.match(r"row of (\w+\.)?alembic_version:", line)]
    return len(versions) == 1 and head in versions[0]
