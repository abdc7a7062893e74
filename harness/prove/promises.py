"""All promises, in their order."""

from collections.abc import Sequence

from harness.prove import (
    backups,
    clocks,
    disclosure,
    edge,
    ending,
    fuzzing,
    guessing,
    injection,
    isolation,
    login,
    migration,
    model,
    outages,
    passwords,
    revocation,
    routes,
    storage,
    supply,
    surface,
    tokens,
)
from harness.prove.promise import Promise

THEMES = (
    isolation, injection, routes, login, passwords, guessing, tokens, revocation, disclosure,
    fuzzing, edge, surface, model, migration, outages, ending, clocks, storage, backups, supply,
)  # fmt: skip
PROMISES: Sequence[Promise] = sorted(
    (promise for theme in THEMES for promise in theme.PROMISES), key=lambda one: one.number
)
