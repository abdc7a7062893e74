"""One revision: its file, and the call of its ``upgrade`` or ``downgrade``.

In Alembic, ``from alembic import op`` is global to the process: two concurrent upgrades write
into each other's database. Here each execution loads the revision's file as a private module
with its own ``op``, so nothing is shared. A helper that imports ``op`` gets that of its thread
(`alembic_modules`).
"""

import ast
import importlib.util
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script.revision import RevisionError
from alembic.util import CommandError

from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.migration import alembic_modules

# Parameters of an `upgrade` that is written for Tenantry. Alembic itself passes no argument.
_OP_PARAMETERS = frozenset({"op", "operations"})
# When an import raises one of these, its text quotes the code, and no values.
_QUOTE_CODE = (
    CommandError,
    RevisionError,
    SyntaxError,
    ImportError,
    NameError,
    AttributeError,
    TypeError,
)
TEXT_CHARS_MAX = 200
SETTINGS_PACKAGE = "pydantic_settings"
SETTINGS_SHOWN_MAX = 10
# It collects the changes of batch mode; its ValueErrors are about names.
_BATCH = "ApplyBatchImpl."
_UNNAMED = (
    "batch mode finds no constraint or index of this name. If the naming convention of env.py "
    "makes the name, set TENANTRY_TENANT_NAMING_CONVENTION to it"
)

_parsing = threading.Lock()


class RevisionExited(Unavailable):
    """The revision ended the program (sys.exit)."""


class RevisionFailed(Exception):
    """A revision raised an error, which is the ``__cause__``.

    Args:
        name: The name of the revision.
        source: The text of a revision that ran live, and so could put data that it has read into
            a statement; None if its statements were recorded.
        statement: The text that failed, if it is known; recorded statements can share a message.
    """

    def __init__(self, name: str, source: str | None = None, statement: str | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.source = source
        self.statement = statement


@dataclass(frozen=True)
class Revision:
    """One revision of a stream, which is applied or undone; its file is read once.

    Attributes:
        down: The revisions that it follows.
        metadata: The ``target_metadata``: a naming convention, no tables.
        revealed: The heads of the stream that appear when it is undone; None if it is applied.
    """

    stream: str
    id: str
    down: frozenset[str]
    path: Path
    metadata: sa.MetaData | None = None
    revealed: tuple[str, ...] | None = None

    def undone(self, stream: str, revealed: tuple[str, ...]) -> "Revision":
        """Return this revision to be undone, and to be logged in *stream*."""
        undone = replace(self, stream=stream, revealed=revealed)
        vars(undone)["content"] = self.content
        return undone

    @property
    def heads_before(self) -> frozenset[str]:
        """The heads that it replaces, as far as they are heads."""
        return self.down if self.revealed is None else frozenset({self.id})

    @property
    def heads_after(self) -> tuple[str, ...]:
        """The heads by which it replaces them."""
        return (self.id,) if self.revealed is None else self.revealed

    @property
    def number(self) -> str:
        """The number in the name of its file; of a revision in Python, its id."""
        return self.id

    @cached_property
    def name(self) -> str:
        """The name to display: that of its file."""
        return self.path.stem.removesuffix(".up")

    def load(self) -> ModuleType:
        """Return a new, private instance of the revision's module."""
        module = importlib.util.module_from_spec(self._spec)
        exec(self._code, vars(module))  # noqa: S102 - as its loader does, but for many instances
        return module

    @cached_property
    def content(self) -> bytes:
        """The content of its file when it was first read; this is what is executed."""
        return self.path.read_bytes()

    @property
    def source(self) -> str:
        """The text of its file; empty if it cannot be read."""
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
        return compile(self.content, self.path, "exec", dont_inherit=True)


def parse(source: bytes) -> ast.Module:
    """Return the syntax tree of *source*.

    A lock serialises this: in two threads at once, CPython 3.11 can raise "AST constructor
    recursion depth mismatch".
    """
    with _parsing:
        return ast.parse(source)


def line_in(file: Path) -> int | None:
    """Return the line of *file* that this thread is executing, the innermost one; or None."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - a callback of SQLite has no traceback
    while frame is not None and frame.f_code.co_filename != str(file):
        frame = frame.f_back
    return frame.f_lineno if frame else None


def describe(
    error: BaseException, is_ours: Callable[[Path], bool], *, has_text: bool = False
) -> str:
    """Return the type of an error, with the file and the line of the revision that raised it.

    Args:
        error: The error.
        is_ours: Whether a file is one of the revisions.
        has_text: Whether to return the text of the error, too. If the revision runs, its text can
            contain a row's value, unless it names a module.
    """
    if isinstance(error, TenantryError):
        return error.message
    lines = traceback.walk_tb(error.__traceback__)
    places = [(Path(frame.f_code.co_filename), line) for frame, line in lines]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((Path(error.filename), error.lineno or 0))
    found = [f" in {path.name}, line {line}" for path, line in places if is_ours(path)]
    text = f"{type(error).__name__}{found[-1] if found else ''}"
    if reason := _explain_surroundings(error):
        text = f"{text}: {reason}"
    elif (isinstance(error, ImportError) and error.name) or (
        has_text and isinstance(error, _QUOTE_CODE if found else (*_QUOTE_CODE, KeyError))
    ):
        # A KeyError that is Alembic's own names a `down_revision` that no file has.
        said = getattr(error, "msg", None) or str(error)
        # An ImportError can end with the path of the other module.
        text = f"{text}: {' '.join(said.partition(' (/')[0].split())[:TEXT_CHARS_MAX]}"
    return text


def _explain_surroundings(error: BaseException) -> str | None:
    """Return what the project needs and does not find, by its name; None for any other error."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"No module named {error.name!r}. Install its package into Tenantry's environment, "
            "or add its folder to prepend_sys_path in alembic.ini"
        )
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [frame.f_code.co_filename for frame in frames]
    is_of_batch = bool(frames) and frames[-1].f_code.co_qualname.startswith(_BATCH)
    if is_of_batch and isinstance(error, ValueError):
        return _UNNAMED
    if isinstance(error, KeyError) and frames and frames[-1].f_globals is vars(os):
        return f"the environment variable {error.args[0]!r} is not set"
    errors = getattr(error, "errors", None)
    if (
        callable(errors)
        and type(error).__name__ == "ValidationError"
        and any(SETTINGS_PACKAGE in one for one in files)
    ):
        # A setting's name is in the code of the project, or in its file of settings.
        places = [str(one["loc"][0]) for one in errors(include_input=False) if one["loc"]]
        names = ", ".join(dict.fromkeys(places[:SETTINGS_SHOWN_MAX]))
        return f"settings of the project are missing or wrong: {names or 'several together'}"
    if type(error).__module__.startswith(SETTINGS_PACKAGE):
        return str(error)  # it names a setting and its source
    return None


def execute(
    revision: Revision,
    module: ModuleType,
    context: MigrationContext,
    on_shared_op: Callable[[], None] = lambda: None,
) -> None:
    """Run ``upgrade`` or ``downgrade`` of a revision's *module*, with its own ``op``.

    It is called without arguments, as Alembic does, unless it has a parameter for its ``op``.
    *on_shared_op* is called whenever other code than the module uses ``alembic.op``.
    """
    op = Operations(context)
    for name, value in list(vars(module).items()):
        if value is alembic_modules.OP:
            vars(module)[name] = op
    with alembic_modules.installed(op, on_shared_op):
        function = module.upgrade if revision.revealed is None else module.downgrade
        if _takes_op(function):
            function(op)
        else:
            function()


def _takes_op(function: Callable[..., None]) -> bool:
    try:
        return not _OP_PARAMETERS.isdisjoint(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some callables have no signature
        return False


def heads_after(
    start: Sequence[str], applied: Sequence[Revision], *, in_place: bool = False
) -> tuple[str, ...]:
    """Return the heads after *applied* revisions, in the order of the rows of Alembic's table.

    Args:
        start: The heads before.
        applied: The revisions, in order; they may be undone.
        in_place: Whether a changed row keeps its place, as in SQLite. In PostgreSQL it moves to
            the end of the table.
    """
    heads = [one for one in start if one]
    for revision in applied:
        replaced = [one for one in heads if one in revision.heads_before]
        at = heads.index(replaced[-1]) if in_place and replaced else len(heads)
        heads[at:at] = revision.heads_after
        heads = [one for one in heads if one not in revision.heads_before]
    return tuple(heads)
