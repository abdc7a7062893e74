"""Faults that are planted into a process, and instruments that observe it.

A process finds their names in the environment variable `FAULTS`, before it imports anything
of the product. Faults are put around the application, or into libraries that it uses, so that
the product holds no hooks for them.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from harness.prove import faults_around, faults_inside

FAULTS = "PROVE_FAULTS"
Change = Callable[[], None]

AROUND: dict[str, Callable[[Any], Any]] = faults_around.BY_NAME
INSIDE: dict[str, Change] = faults_inside.BY_NAME
# Their faults are not in a process: a file that is copied, a lock file without a hash.
OUTSIDE = frozenset({"P36", "P42"})


def apply_from_environment() -> None:
    """Plant what the environment names; what is not known is observed by the scenario itself."""
    names = [one for one in os.environ.get(FAULTS, "").split(",") if one]
    if not names or not _is_ours():
        return
    for name in names:
        if name in INSIDE:
            INSIDE[name]()
    if around := [AROUND[name] for name in names if name in AROUND]:
        _wrap_application(around)


def _is_ours() -> bool:
    """Tools of the environment start other Python programs, which are left alone."""
    return "pip" not in sys.argv[0:1]


def _wrap_application(wrappers: list[Callable[[Any], Any]]) -> None:
    import uvicorn

    original = uvicorn.Config.__init__

    @functools.wraps(original)
    def init(self: uvicorn.Config, app: Any, *args: Any, **kwargs: Any) -> None:
        for wrap in wrappers:
            app = wrap(app)
        original(self, app, *args, **kwargs)

    uvicorn.Config.__init__ = init  # type: ignore[method-assign]
