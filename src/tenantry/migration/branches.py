"""A revision that commits where the version table has a row for each of several branches."""

import ast
from collections.abc import Sequence

from tenantry.migration.revisions import Revision, parse
from tenantry.migration.schema_state import SchemaRevision
from tenantry.migration.streams import BadStream, Streams


class BlockBetweenBranches(BadStream):
    """A revision with an `autocommit_block` is between two branches: set depends_on in one of them.

    A database could stop there, at a state that no single version identifies.

    Args:
        streams: The streams.
        start: The revision of the database before *applied*.
        applied: The revisions before the block, in order, of both branches.
        block: The revision with the block.
    """

    def __init__(
        self,
        streams: Streams,
        start: SchemaRevision,
        applied: Sequence[Revision],
        block: Revision,
    ) -> None:
        states = (streams.after(start, applied[:count]) for count in range(1, len(applied) + 1))
        index = next(number for number, state in enumerate(states) if state is None)
        second, before = applied[index], applied[index - 1].id if index else start.user
        super().__init__(
            f"{block.name} has an autocommit_block between two branches of the revisions, where no "
            f"version identifies the state of a database. Put the branches into one line: set "
            f"depends_on = {before!r} in {second.path.name}, line {_line(second)}."
        )


def _line(revision: Revision) -> int:
    """Return the line that sets ``depends_on``, or else the one that sets ``down_revision``."""
    names = ("depends_on", "down_revision")
    lines = {
        target.id: node.lineno
        for node in parse(revision.path.read_bytes()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id in names
    }
    return next((lines[name] for name in names if name in lines), 1)
