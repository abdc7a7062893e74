"""One revision: its file, and how its ``upgrade`` is called.

Alembic's usual ``from alembic import op`` is a process global: two upgrades that overlap
write into each other's database. Here each execution loads the revision's file as a
module of its own and gives that instance its own ``op``, so nothing is shared. A helper
that imports ``op`` gets the one of its thread (`alembic_modules`).
"""

import ast
import importlib.util
import inspect
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.migration import alembic_modules

# Of an `upgrade` that is written for Tenantry. Alembic itself gives it nothing.
_OP_PARAMETERS = frozenset({"op", "operations"})
# Their texts quote the code and not its values, when they are raised by an import.
_QUOTE_CODE = (SyntaxError, ImportError, NameError, AttributeError, TypeError)
TEXT_CHARS_MAX = 200

_parsing = threading.Lock()


class RevisionExited(Unavailable):
    """The revision ended the program (sys.exit)."""


class RevisionFailed(Exception):
    """A revision raised something, which is the cause.

    Args:
        name: Of the revision.
        source: The text of a revision that ran live, and so could put what it has read into a
            statement; None when its statements are its own words.
    """

    def __init__(self, name: str, source: str | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.source = source


@dataclass(frozen=True)
class Revision:
    """One step of a stream, as a file that is read once."""

    stream: str
    id: str
    down: frozenset[str]
    path: Path

    @cached_property
    def name(self) -> str:
        """The name by which people know it: that of its file."""
        return self.path.stem

    def load(self) -> ModuleType:
        """Return a new, private instance of the revision's module."""
        module = importlib.util.module_from_spec(self._spec)
        exec(self._code, vars(module))  # noqa: S102 - as its loader does, for many instances
        return module

    @property
    def source(self) -> str:
        """The text of its file; nothing when it cannot be read."""
        try:
            return self.path.read_text(errors="replace")
        except OSError:
            return ""

    @cached_property
    def _spec(self) -> ModuleSpec:
        spec = importlib.util.spec_from_file_location(f"revision_{self.id}", self.path)
        assert spec is not None
        return spec

    @cached_property
    def _code(self) -> CodeType:
        loader = self._spec.loader
        assert isinstance(loader, InspectLoader)
        code = loader.get_code(self._spec.name)
        assert code is not None
        return code


def parse(source: bytes) -> ast.Module:
    """Return the syntax tree of Python's *source*.

    One at a time: in two threads at once CPython 3.11 can raise "AST constructor recursion depth
    mismatch".
    """
    with _parsing:
        return ast.parse(source)


def describe(
    error: BaseException, is_ours: Callable[[Path], bool], *, has_text: bool = False
) -> str:
    """Return what Python code has raised, and in which file and line.

    Args:
        error: What it has raised.
        is_ours: Whether a file is one of the revisions.
        has_text: Whether to return the text of the error, too. That of a revision that runs can
            hold a row's value, but not when it names a module.
    """
    if isinstance(error, TenantryError):
        return error.message
    lines = traceback.walk_tb(error.__traceback__)
    places = [(Path(frame.f_code.co_filename), line) for frame, line in lines]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((Path(error.filename), error.lineno or 0))
    found = [f" in {path.name}, line {line}" for path, line in places if is_ours(path)]
    text = f"{type(error).__name__}{found[-1] if found else ''}"
    names_module = isinstance(error, ImportError) and error.name
    if names_module or (has_text and isinstance(error, _QUOTE_CODE)):
        said = getattr(error, "msg", None) or str(error)
        # An error of an import can end with the path of the other module.
        text = f"{text}: {' '.join(said.partition(' (/')[0].split())[:TEXT_CHARS_MAX]}"
    return text


def is_online(module: ModuleType) -> bool:
    """Return whether a revision says ``online = True``: it reads more than it is given."""
    return bool(getattr(module, "online", False))


def upgrade(
    module: ModuleType, context: MigrationContext, on_shared_op: Callable[[], None] = lambda: None
) -> None:
    """Run ``upgrade`` of a revision's module, with an ``op`` of its own.

    It is called as Alembic calls it, without arguments, unless it has a parameter for its ``op``.

    Args:
        module: Of the revision.
        context: For its ``op``.
        on_shared_op: Called whenever ``alembic.op`` is used by something else than the module.
    """
    op = Operations(context)
    for name, value in list(vars(module).items()):
        if value is alembic_modules.OP:
            vars(module)[name] = op
    with alembic_modules.installed(op, on_shared_op):
        if _takes_op(module.upgrade):
            module.upgrade(op)
        else:
            module.upgrade()


def _takes_op(function: Callable[..., None]) -> bool:
    try:
        return not _OP_PARAMETERS.isdisjoint(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # not every callable has one
        return False


def heads_after(start: Sequence[str], applied: Sequence[Revision]) -> tuple[str, ...]:
    """Return the heads of a history that was at *start* and has *applied* more, as Alembic does."""
    heads = {one for one in start if one}
    for revision in applied:
        heads = (heads - revision.down) | {revision.id}
    return tuple(sorted(heads))
