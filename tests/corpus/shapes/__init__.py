"""The shapes, by topic."""

from tests.corpus.shape import Shape
from tests.corpus.shapes import (
    batch,
    blocks,
    chance,
    code,
    constructs,
    context,
    data,
    ddl,
    drivers,
    enums,
    errors,
    history,
    modules,
    orm,
    pragmas,
    reads,
    text,
    transactions,
    types,
    upgrades,
)

TOPICS = (
    *(ddl, data, constructs, drivers, text, reads, orm, enums, batch, code),
    *(history, transactions, blocks, errors, chance, modules, context, pragmas, types, upgrades),
)
SHAPES: dict[str, Shape] = {one.name: one for topic in TOPICS for one in topic.SHAPES}
assert len(SHAPES) == sum(len(topic.SHAPES) for topic in TOPICS), "two shapes have one name"
