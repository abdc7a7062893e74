"""The check that every shape passes, on each engine."""

import re
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path

from tenantry.migration.streams import Stream
from tenantry.tenant.stream import STREAM
from tests.corpus.expected import DIFFERENCES, REFUSALS
from tests.corpus.lab import Lab
from tests.corpus.runs import Verdict, compare
from tests.corpus.shape import Shape
from tests.corpus.shapes import SHAPES

# They differ in a tenant because it has the tables of Tenantry.
OF_TABLES = {"analyze_of_sqlite", "inspector_lists_every_table"}
# The role may write to all tables of an attached database: there, the version table is one of them.
OF_RIGHTS = {"set_role_with_rights_for_the_session"}
# RESET ALL removes the setting that shows that the transaction goes on.
REFUSED_IF_ATTACHED = {("postgresql", "standard_strings_off_by_reset_all"): "ended the transaction"}


def names_on(engine: str) -> list[str]:
    """Return the names of the shapes of an engine."""
    return [one.name for one in SHAPES.values() if engine in one.all_engines]


def check(shape: Shape, lab: Lab, threads: Executor, folder: Path, own: Stream = STREAM) -> None:
    """Check that both leave the same, or that Tenantry has refused, as it is expected."""
    engine = lab.engine
    found = compare(shape, lab, threads, folder, own)

    assert (found.raised is not None) == (engine in shape.fails), found.raised
    assert found.is_lost == (engine in shape.loses)
    if engine in shape.fails | shape.loses:
        assert found.verdict is Verdict.REFUSED, found
    elif refusal := _refusals(own).get((engine, shape.name)):
        assert found.verdict is Verdict.REFUSED, found
        assert re.search(refusal, found.reason or "")
    elif (engine, shape.name) in DIFFERENCES and (own is STREAM or shape.name not in OF_TABLES):
        assert found.verdict is Verdict.DIFFERENT, "it is the same: strike it off the list"
    else:
        assert found.verdict is Verdict.SAME, found


def _refusals(own: Stream) -> Mapping[tuple[str, str], str]:
    if own is STREAM:
        return REFUSALS
    kept = {key: reason for key, reason in REFUSALS.items() if key[1] not in OF_RIGHTS}
    return kept | REFUSED_IF_ATTACHED
